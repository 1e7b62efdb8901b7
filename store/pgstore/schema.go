package pgstore

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/seed-ff2cb582/leader/store"
)

// DefaultTable is the table of a Store whose options name none.
const DefaultTable = "public.leader_records"

// tableName allows a table, or a schema and a table.
var tableName = regexp.MustCompile(`^(?:([A-Za-z_][A-Za-z0-9_]*)\.)?([A-Za-z_][A-Za-z0-9_]*)$`)

// PostgreSQL cuts names off at 63 bytes, and what belongs to the table has names
// that are longer by nine.
const maxSchema, maxTable = 63, 54

// names are the quoted names of a table and of its dependent objects.
type names struct {
	schema, table, sequence, swap, draw, tell string
	channel                                   string // not quoted
}

// parseTable reads a table's name. A name without a schema is in the schema
// public, whatever the search_path of a session: two candidates with different
// paths would elect two leaders.
func parseTable(table string) (names, error) {
	if table == "" {
		table = DefaultTable
	}
	m := tableName.FindStringSubmatch(table)
	if len(m) == 0 || len(m[1]) > maxSchema || len(m[2]) > maxTable {
		return names{}, fmt.Errorf("%w: table %q: must be one or two names (schema.table) of letters, digits and underscores,"+
			" not beginning with a digit, the schema's of at most %d, the table's of at most %d", store.ErrInvalid, table, maxSchema, maxTable)
	}
	schema, table := m[1], m[2]
	if schema == "" {
		schema = "public"
	}
	quoted := func(suffix string) string { return `"` + schema + `"."` + table + suffix + `"` }
	return names{
		schema: schema, table: quoted(""), sequence: quoted("_revision"), swap: quoted("_swap"), draw: quoted("_draw"), tell: quoted("_tell"),
		channel: table,
	}, nil
}

// fill puts the names into a text.
func (n names) fill(text string) string {
	return strings.NewReplacer(
		"TABLE_NAME", n.table, "SEQUENCE_NAME", n.sequence, "SWAP_NAME", n.swap, "DRAW_NAME", n.draw, "TELL_NAME", n.tell,
		"CHANNEL_NAME", n.channel,
	).Replace(text)
}

// Schema returns the statement that makes what a Store needs in the database:
// a table, a sequence, a function and triggers. An empty table is
// [DefaultTable]; a name without a schema is one of the schema public.
//
// It belongs to the program's migrations, or is run with [Options.Create]. Any
// number of programs may run it at the same instant. The role that runs it owns
// what it makes, and nobody else may use that until it is granted (see the
// package documentation).
//
// Records that are there already stay. Functions of an earlier version are
// replaced and missing triggers are made, which the owner alone may do. Granted
// rights stay, except those by which another role could act as the owner or
// spoil the revisions: to execute the trigger functions, to attach triggers to
// the table, to use or update the sequence, and PUBLIC's right to call the
// function that writes. The sequence and the functions are given to the owner
// of the table.
func Schema(table string) (string, error) {
	n, err := parseTable(table)
	if err != nil {
		return "", err
	}
	return n.fill(schema), nil
}

// schema makes everything, in one statement and so in one transaction.
//
// The lock is there because IF NOT EXISTS looks before it makes: of two who
// make a table at once, one would be refused by the catalogue's own unique
// indexes. Its number means nothing, and is the same for all tables.
//
// A revision is the clock in microseconds, unless the record's or the sequence
// is further. A standby that is promoted may lack the latest revisions and the
// latest state of the sequence; the revisions that it draws then still exceed
// all earlier ones, as far as the clocks of the two servers agree. The sequence
// has revisions grow while a clock is set back: it starts at the clock, which
// also records when the table was made, and every deletion of a record sets it
// to go on from that record's revision. Transactions that set it wait for each
// other, since it could fall otherwise; transactions that draw from it do not
// wait.
//
// A revision is drawn by the trigger of an update, which holds the row's lock.
// A revision that an insertion drew before its row is in the index could be
// older than the revisions of a rival who creates and deletes the row
// meanwhile. So a new row is updated before its transaction ends.
//
// The functions run as their owner. A trigger function first refuses every
// table but TABLE_NAME, before it touches NEW or OLD: the types of another table
// may have casts that run code of that table's owner. To revoke the right to
// execute the function is not enough, since a trigger that is already attached
// stays.
//
// The functions' search_path is pg_catalog. All other text runs with the
// search_path of the session, in which others may create operators and
// functions. PostgreSQL prefers its own only if they are qualified or their
// types match exactly. So all functions are qualified, and an operator is
// either qualified or has operands of exactly the types that pg_catalog has it
// for.
const schema = `DO $schema$
DECLARE
	statement text;
BEGIN
PERFORM pg_catalog.pg_advisory_xact_lock(7306086864870403446);

CREATE SEQUENCE IF NOT EXISTS SEQUENCE_NAME AS bigint CACHE 1;

CREATE OR REPLACE FUNCTION DRAW_NAME() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
	IF TG_RELID <> 'TABLE_NAME'::regclass THEN
		RAISE EXCEPTION 'this is for the triggers of TABLE_NAME alone' USING ERRCODE = 'insufficient_privilege';
	END IF;
	IF TG_OP = 'INSERT' THEN
		NEW.revision := 0; -- until TELL_NAME has it drawn
		RETURN NEW;
	END IF;
	IF NEW.key <> OLD.key THEN
		RAISE EXCEPTION 'a record cannot be renamed: its key is the name of an election';
	END IF;
	NEW.revision := greatest(nextval('SEQUENCE_NAME'), OLD.revision + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
	RETURN NEW;
END $body$;

CREATE OR REPLACE FUNCTION TELL_NAME() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
	gone bigint; -- the largest revision of what is deleted
BEGIN
	IF TG_RELID <> 'TABLE_NAME'::regclass THEN
		RAISE EXCEPTION 'this is for the triggers of TABLE_NAME alone' USING ERRCODE = 'insufficient_privilege';
	END IF;
	IF TG_OP = 'DELETE' THEN
		gone := OLD.revision;
	ELSIF TG_WHEN = 'BEFORE' THEN -- TRUNCATE
		gone := (SELECT max(revision) FROM TABLE_NAME);
	END IF;
	IF gone IS NOT NULL THEN
		PERFORM pg_advisory_xact_lock(7306086864870403447);
		IF gone > (SELECT last_value FROM SEQUENCE_NAME) THEN
			PERFORM setval('SEQUENCE_NAME', gone);
		END IF;
	END IF;
	CASE TG_OP
	WHEN 'INSERT' THEN -- which is told of by the update
		UPDATE TABLE_NAME SET revision = 0 WHERE key = NEW.key;
	WHEN 'UPDATE' THEN
		PERFORM pg_notify('CHANNEL_NAME', NEW.key);
	WHEN 'DELETE' THEN
		PERFORM pg_notify('CHANNEL_NAME', OLD.key);
	ELSE -- TRUNCATE, after which all is read
		PERFORM pg_notify('CHANNEL_NAME', '');
	END CASE;
	RETURN NULL;
END $body$;

CREATE OR REPLACE FUNCTION SWAP_NAME(record_key text, expected bigint, content bytea, vacant boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
	drawn bigint;
BEGIN
	-- A commit that is not flushed, here and at the synchronous standbys, is lost in a crash.
	IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	IF expected = 0 THEN
		INSERT INTO TABLE_NAME (key, tombstone, value) VALUES (record_key, vacant, content) ON CONFLICT (key) DO NOTHING;
		IF NOT FOUND THEN
			RETURN NULL;
		END IF;
		SELECT revision INTO STRICT drawn FROM TABLE_NAME WHERE key = record_key;
	ELSE
		UPDATE TABLE_NAME SET tombstone = vacant, value = content WHERE key = record_key AND revision = expected
		RETURNING revision INTO drawn;
	END IF;
	IF drawn <= expected THEN
		RAISE EXCEPTION 'no revision was drawn: is a trigger of TABLE_NAME disabled?' USING ERRCODE = 'object_not_in_prerequisite_state';
	END IF;
	RETURN drawn;
END $body$;

IF pg_catalog.to_regclass('TABLE_NAME') IS NULL THEN
	CREATE TABLE TABLE_NAME (
		key text COLLATE "C" PRIMARY KEY,
		revision bigint NOT NULL DEFAULT 0,
		tombstone boolean NOT NULL DEFAULT false,
		value bytea NOT NULL
	);
	EXECUTE pg_catalog.format('ALTER SEQUENCE SEQUENCE_NAME START WITH %s',
		(extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint);
	PERFORM pg_catalog.setval('SEQUENCE_NAME', greatest(pg_catalog.nextval('SEQUENCE_NAME'),
		(extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint));
	CREATE TRIGGER leader_draw BEFORE INSERT OR UPDATE ON TABLE_NAME FOR EACH ROW EXECUTE FUNCTION DRAW_NAME();
	CREATE TRIGGER leader_tell AFTER INSERT OR UPDATE OR DELETE ON TABLE_NAME FOR EACH ROW EXECUTE FUNCTION TELL_NAME();
	CREATE TRIGGER leader_tell_all AFTER TRUNCATE ON TABLE_NAME FOR EACH STATEMENT EXECUTE FUNCTION TELL_NAME();
END IF;

-- A table that an earlier version made lacks this one.
IF EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass('TABLE_NAME')::oid AND relkind = 'r')
	AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = pg_catalog.to_regclass('TABLE_NAME')::oid AND tgname = 'leader_keep') THEN
	CREATE TRIGGER leader_keep BEFORE TRUNCATE ON TABLE_NAME FOR EACH STATEMENT EXECUTE FUNCTION TELL_NAME();
END IF;

FOR statement IN
` + reachSQL + `
LOOP
	EXECUTE statement;
END LOOP;
END $schema$`

// reachSQL returns the statements that restrict to the owner what the owner
// alone needs. It returns no row if nothing is left to restrict. A role that may
// attach a trigger to the table, or owns it, can run its own code as the owner
// of the function that writes. PUBLIC may execute a new function by default, and
// ALTER DEFAULT PRIVILEGES may grant rights to other roles.
const reachSQL = `WITH object (what, needless, everybody, owner, acl) AS (
	SELECT 'FUNCTION ' || f.name, 'EXECUTE', f.everybody, p.proowner, coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))
	FROM (VALUES ('DRAW_NAME()', false), ('TELL_NAME()', false), ('SWAP_NAME(text, bigint, bytea, boolean)', true)) AS f (name, everybody)
	JOIN pg_catalog.pg_proc AS p ON p.oid = pg_catalog.to_regprocedure(f.name)::oid
	UNION ALL
	SELECT 'SEQUENCE SEQUENCE_NAME', 'USAGE, UPDATE', false, relowner, coalesce(relacl, pg_catalog.acldefault('s', relowner))
	FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass('SEQUENCE_NAME')::oid
	UNION ALL
	SELECT 'TABLE TABLE_NAME', 'TRIGGER', false, relowner, coalesce(relacl, pg_catalog.acldefault('r', relowner))
	FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass('TABLE_NAME')::oid
)
SELECT 'ALTER ' || o.what || ' OWNER TO ' || t.relowner::regrole::text
FROM object AS o, pg_catalog.pg_class AS t
WHERE t.oid = pg_catalog.to_regclass('TABLE_NAME')::oid AND o.owner <> t.relowner
UNION
SELECT 'REVOKE ' || o.needless || ' ON ' || o.what || ' FROM ' || CASE a.grantee WHEN 0::oid THEN 'PUBLIC' ELSE a.grantee::regrole::text END || ' CASCADE'
FROM object AS o, pg_catalog.pg_class AS t, pg_catalog.aclexplode(o.acl) AS a
WHERE t.oid = pg_catalog.to_regclass('TABLE_NAME')::oid AND a.grantee NOT IN (o.owner, t.relowner)
	AND pg_catalog.strpos(o.needless, a.privilege_type) > 0 AND (a.grantee = 0::oid OR NOT o.everybody)`

// The statements of a Store. Each is one round trip.
const (
	swapSQL = `SELECT SWAP_NAME($1::text, $2::bigint, $3::bytea, $4::boolean)`

	// readSQL returns a row even if no key exists: the row shows whether the
	// server may be read.
	readSQL = `SELECT pg_catalog.pg_is_in_recovery(), r.key, r.revision, r.tombstone, r.value
FROM (VALUES (0)) AS one LEFT JOIN TABLE_NAME AS r ON r.key = ANY ($1)`

	listSQL = `SELECT pg_catalog.pg_is_in_recovery(), r.key, r.revision, r.tombstone, r.value
FROM (VALUES (0)) AS one LEFT JOIN TABLE_NAME AS r ON r.key >= $1 AND r.key < $2`
)
