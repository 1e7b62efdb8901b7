package mysqlstore

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/seed-ff2cb582/leader/store"
)

// DefaultTable is the table of a Store whose options name none.
const DefaultTable = "leader_records"

// tableName allows a table, or a database and a table.
var tableName = regexp.MustCompile(`^(?:([A-Za-z_][A-Za-z0-9_]*)\.)?([A-Za-z_][A-Za-z0-9_]*)$`)

// MySQL's names have 64 bytes at most, and what belongs to the table has names
// that are longer by seven.
const maxDatabase, maxTable = 64, 56

// names are the names of a table and of its dependent objects.
type names struct {
	database string // empty: the connection's database
	bare     string
	fill     *strings.Replacer
}

// parseTable reads a table's name.
func parseTable(table string) (names, error) {
	if table == "" {
		table = DefaultTable
	}
	m := tableName.FindStringSubmatch(table)
	if len(m) == 0 || len(m[1]) > maxDatabase || len(m[2]) > maxTable {
		return names{}, fmt.Errorf("%w: table %q: must be one or two names (database.table) of letters, digits and underscores,"+
			" not beginning with a digit, the database's of at most %d, the table's of at most %d", store.ErrInvalid, table, maxDatabase, maxTable)
	}
	prefix := ""
	if m[1] != "" {
		prefix = "`" + m[1] + "`."
	}
	pairs := []string{"MICROSECONDS", microseconds}
	for word, suffix := range map[string]string{
		"TABLE_NAME": "", "FLOOR_NAME": "_floor", "INSERT_NAME": "_insert", "UPDATE_NAME": "_update", "DELETE_NAME": "_delete",
	} {
		pairs = append(pairs, word, prefix+"`"+m[2]+suffix+"`")
	}
	return names{database: m[1], bare: m[2], fill: strings.NewReplacer(pairs...)}, nil
}

// microseconds is the server's clock. It does not depend on the session's time
// zone, and is the same for all of a statement.
const microseconds = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// Schema returns the statements that make what a Store needs in the database,
// in their order: two tables and three triggers. An empty table is
// [DefaultTable].
//
// They belong to the program's migrations, or are run with [Options.Create].
// Any number of programs may run them at the same instant, and what is there
// already stays. Where the server keeps a binlog, a user who makes triggers
// needs log_bin_trust_function_creators=1 or the SUPER right. Triggers run with
// the rights of the user who made them: see the package documentation for which
// suffice.
func Schema(table string) ([]string, error) {
	n, err := parseTable(table)
	if err != nil {
		return nil, err
	}
	all := make([]string, len(schema))
	for i, text := range schema {
		all[i] = n.fill.Replace(text)
	}
	return all, nil
}

// schema makes everything. The names of keys differ by case, and MySQL's usual
// collations do not; hence ascii_bin.
//
// The floor's first row is the largest revision that was ever deleted: a key
// that is made again goes on above it, even if the clock was set back. Every
// creation and every deletion locks the row, so that no rival creates and
// deletes between the drawing of a revision and its use. The second row is made
// last, and shows that the schema is complete.
var schema = [...]string{
	`CREATE TABLE IF NOT EXISTS FLOOR_NAME (
	id TINYINT NOT NULL PRIMARY KEY,
	revision BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB`,
	`INSERT IGNORE INTO FLOOR_NAME (id, revision) VALUES (1, MICROSECONDS)`,
	`CREATE TABLE IF NOT EXISTS TABLE_NAME (
	name VARCHAR(256) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
	revision BIGINT UNSIGNED NOT NULL DEFAULT 0,
	tombstone BOOLEAN NOT NULL DEFAULT FALSE,
	value MEDIUMBLOB NOT NULL
) ENGINE = InnoDB`,
	`CREATE TRIGGER IF NOT EXISTS INSERT_NAME BEFORE INSERT ON TABLE_NAME FOR EACH ROW BEGIN
	DECLARE deleted BIGINT UNSIGNED;
	SELECT revision INTO deleted FROM FLOOR_NAME WHERE id = 1 LOCK IN SHARE MODE;
	IF NEW.revision <= deleted THEN
		SET NEW.revision = GREATEST(deleted + 1, MICROSECONDS);
	END IF;
END`,
	`CREATE TRIGGER IF NOT EXISTS UPDATE_NAME BEFORE UPDATE ON TABLE_NAME FOR EACH ROW BEGIN
	IF NEW.name <> OLD.name THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a record cannot be renamed: its key is the name of an election';
	END IF;
	IF NEW.revision <= OLD.revision THEN
		SET NEW.revision = GREATEST(OLD.revision + 1, MICROSECONDS);
	END IF;
END`,
	`CREATE TRIGGER IF NOT EXISTS DELETE_NAME BEFORE DELETE ON TABLE_NAME FOR EACH ROW
	UPDATE FLOOR_NAME SET revision = GREATEST(revision, OLD.revision) WHERE id = 1`,
	`INSERT IGNORE INTO FLOOR_NAME (id, revision) VALUES (2, MICROSECONDS)`,
}

// The statements of a Store are text alone: with arguments the driver would
// prepare them first, by an extra round trip. %s, %d and %x are placeholders
// for literals. A session that does not commit by itself, and a server that is
// read-only, change nothing.
const (
	// updateSQL sets its revision itself, since the answer to an UPDATE does
	// not contain the revision that a trigger drew, and to ask for it would be
	// another round trip. The rule is the rule of insertSQL: by the server's
	// clock, unless the record's is further. After a TRUNCATE, at which no
	// trigger runs, a record that is made would otherwise have a lower revision
	// than one before.
	updateSQL = `UPDATE TABLE_NAME SET revision = %d, tombstone = %t, value = x'%x'
WHERE name = '%s' AND revision = %d AND %d <= GREATEST(revision + 1, MICROSECONDS) AND @@autocommit = 1 AND @@global.read_only = 0`

	// insertSQL draws the revision while it holds the floor's lock, which
	// InnoDB takes for the reads of every statement that writes (not for the
	// reads of its triggers). It draws none in a session that must not write,
	// and a record needs one.
	insertSQL = `INSERT INTO TABLE_NAME (name, revision, tombstone, value) VALUES ('%s', LAST_INSERT_ID((
	SELECT GREATEST(revision + 1, MICROSECONDS) FROM FLOOR_NAME
	WHERE id = 1 AND @@autocommit = 1 AND @@global.read_only = 0)), %t, x'%x')`

	// drawnSQL reads the revision that the session's insertion drew. The answer
	// to that has it no more on a table with triggers.
	drawnSQL = `SELECT LAST_INSERT_ID()`

	// fitSQL reads why a write changed nothing.
	fitSQL = `SELECT @@autocommit, @@global.read_only, MICROSECONDS, COALESCE((SELECT revision FROM TABLE_NAME WHERE name = '%s'), 0)`

	// readSQL returns a row even if no key exists: the row shows whether the
	// server may be read.
	readSQL = `SELECT @@global.read_only, MICROSECONDS, r.name, r.revision, r.tombstone, r.value
FROM (SELECT 1) AS one LEFT JOIN TABLE_NAME AS r ON %s`
)
