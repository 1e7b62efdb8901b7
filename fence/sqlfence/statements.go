package sqlfence

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/seed-ff2cb582/leader/fence"
)

// A Dialect is a kind of SQL database.
type Dialect uint8

// The dialects.
const (
	PostgreSQL Dialect = iota + 1 // 9.5 and later, and what speaks its language with row locks
	MySQL                         // MySQL 5.7 and later, MariaDB 10.3 and later, with InnoDB tables
	SQLite                        // 3.24 and later
)

// String returns the dialect's name.
func (d Dialect) String() string {
	if d < PostgreSQL || d > SQLite {
		return fmt.Sprintf("Dialect(%d)", uint8(d))
	}
	return [...]string{PostgreSQL: "PostgreSQL", MySQL: "MySQL", SQLite: "SQLite"}[d]
}

// Statements are the SQL of a fence, for migrations and for programs that do
// not use database/sql. Placeholders are the dialect's.
type Statements struct {
	// Schema makes the table if there is none. It is one statement, on
	// PostgreSQL a DO block with semicolons in it.
	Schema string
	// Admit applies the rule to a group, a term and a digest (see
	// fence.Digest), and locks the group's row until the transaction ends. On
	// MySQL the arguments are group, term, digest, term, digest, term.
	//
	// On PostgreSQL and SQLite 1 affected row means admitted, 0 stale. On MySQL
	// the number depends on the driver's flags and means nothing: the term is
	// admitted if Mark then reads it back.
	Admit string
	// Mark reads the term and the digest of a group after Admit, within the
	// same transaction.
	Mark string
	// Share reads them with a lock that admitted transactions of the same term
	// can hold side by side, and that a newer term has to wait for. On SQLite
	// it follows Claim.
	Share string
	// Claim, on SQLite only, takes the database's write lock, for a group.
	Claim string
	// Last reads the term and the digest of a group without a lock.
	Last string
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// validTable reports whether the table is one identifier, or a schema and one.
// PostgreSQL cuts longer ones off at 63 bytes.
func validTable(table string) bool {
	schema, name, _ := strings.Cut(table, ".")
	return len(schema) <= 63 && len(name) <= 63 && tableName.MatchString(table)
}

func statements(d Dialect, table string) (Statements, error) {
	if d < PostgreSQL || d > SQLite {
		return Statements{}, fmt.Errorf("%w: %v is none of PostgreSQL, MySQL, SQLite", fence.ErrInvalid, d)
	}
	if !validTable(table) {
		return Statements{}, fmt.Errorf("%w: table %q must be one or two names (schema.table) of letters, digits and underscores, "+
			"63 at most, not beginning with a digit", fence.ErrInvalid, table)
	}
	s := [...]Statements{PostgreSQL: postgres(), MySQL: mysql(), SQLite: sqlite()}[d]
	mark := "`"
	if d != MySQL {
		mark = `"`
	}
	quoted := mark + strings.ReplaceAll(table, ".", mark+"."+mark) + mark
	for _, p := range []*string{&s.Schema, &s.Admit, &s.Mark, &s.Share, &s.Claim, &s.Last} {
		*p = strings.ReplaceAll(*p, "TABLE_NAME", quoted)
	}
	return s, nil
}

// The lock is there because IF NOT EXISTS looks before it makes: of two who
// make the table at once, one would be refused by the catalogue's own unique
// indexes. Its number means nothing, and is the same for all fences.
func postgres() Statements {
	return Statements{
		Schema: `DO $$ BEGIN
	PERFORM pg_catalog.pg_advisory_xact_lock(7306086864870403445);
	CREATE TABLE IF NOT EXISTS TABLE_NAME (
		group_name text PRIMARY KEY,
		term bigint NOT NULL,
		digest text NOT NULL
	);
END $$`,
		Admit: `INSERT INTO TABLE_NAME AS f (group_name, term, digest) VALUES ($1, $2, $3)
ON CONFLICT (group_name) DO UPDATE SET term = EXCLUDED.term, digest = EXCLUDED.digest
WHERE f.term < EXCLUDED.term OR f.term = EXCLUDED.term AND f.digest = EXCLUDED.digest`,
		Mark:  `SELECT term, digest FROM TABLE_NAME WHERE group_name = $1`,
		Share: `SELECT term, digest FROM TABLE_NAME WHERE group_name = $1 FOR SHARE`,
		Last:  `SELECT term, digest FROM TABLE_NAME WHERE group_name = $1`,
	}
}

// The names of groups differ by case, and MySQL's usual collations do not;
// hence ascii_bin.
//
// Assignments take effect from left to right, so the digest goes first, while
// term is still the old one. The arguments are repeated, since MySQL deprecated
// VALUES(), and MariaDB has nothing else in its place.
func mysql() Statements {
	return Statements{
		Schema: `CREATE TABLE IF NOT EXISTS TABLE_NAME (
	group_name VARCHAR(256) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
	term BIGINT NOT NULL,
	digest CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
) ENGINE = InnoDB`,
		Admit: `INSERT INTO TABLE_NAME (group_name, term, digest) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE digest = IF(term < ?, ?, digest), term = GREATEST(term, ?)`,
		Mark: `SELECT term, digest FROM TABLE_NAME WHERE group_name = ? FOR UPDATE`,
		// MariaDB has no FOR SHARE.
		Share: `SELECT term, digest FROM TABLE_NAME WHERE group_name = ? LOCK IN SHARE MODE`,
		Last:  `SELECT term, digest FROM TABLE_NAME WHERE group_name = ?`,
	}
}

func sqlite() Statements {
	return Statements{
		Schema: `CREATE TABLE IF NOT EXISTS TABLE_NAME (
	group_name TEXT NOT NULL PRIMARY KEY,
	term INTEGER NOT NULL,
	digest TEXT NOT NULL
)`,
		Admit: `INSERT INTO TABLE_NAME AS f (group_name, term, digest) VALUES (?1, ?2, ?3)
ON CONFLICT (group_name) DO UPDATE SET term = excluded.term, digest = excluded.digest
WHERE f.term < excluded.term OR f.term = excluded.term AND f.digest = excluded.digest`,
		Mark:  `SELECT term, digest FROM TABLE_NAME WHERE group_name = ?1`,
		Share: `SELECT term, digest FROM TABLE_NAME WHERE group_name = ?1`,
		// A write statement takes the lock although it finds nothing to change.
		Claim: `UPDATE TABLE_NAME SET term = term WHERE group_name = ?1 AND term < 0`,
		Last:  `SELECT term, digest FROM TABLE_NAME WHERE group_name = ?1`,
	}
}
