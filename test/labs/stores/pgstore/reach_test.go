package pgstore_test

import (
	_ "embed"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

// noPrivilege is PostgreSQL's insufficient_privilege.
const noPrivilege = "42501"

// An attack attaches a trigger function of the store, T_NAME_draw or
// T_NAME_tell, to a temporary table of the intruder, and fires it.
type attack struct {
	name    string
	prepare []string
	attach  string
	fire    string
}

// evil makes a type whose cast from or to another type runs a function of the
// intruder. The function reports which role it runs as.
func evil(name, function, cast string) []string {
	return []string{
		"CREATE TYPE pg_temp." + name + " AS (x text)",
		"CREATE FUNCTION pg_temp." + function + " LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'code of % runs as %', session_user, current_user; END $$",
		"CREATE CAST " + cast,
	}
}

func attacks() []attack {
	return []attack{
		{
			"a record is stamped again",
			[]string{"CREATE TEMP TABLE stamp (key text, revision bigint)"},
			"CREATE TRIGGER x AFTER INSERT ON stamp FOR EACH ROW EXECUTE FUNCTION T_NAME_tell()",
			"INSERT INTO stamp (key) VALUES ('group')",
		},
		{
			"code runs by the cast of a key",
			append(evil("a", "a_text(pg_temp.a) RETURNS text", "(pg_temp.a AS text) WITH FUNCTION pg_temp.a_text(pg_temp.a) AS IMPLICIT"),
				"CREATE TEMP TABLE cast_key (key pg_temp.a, revision bigint)"),
			"CREATE TRIGGER x AFTER INSERT ON cast_key FOR EACH ROW EXECUTE FUNCTION T_NAME_tell()",
			"INSERT INTO cast_key (key) VALUES (ROW('group')::pg_temp.a)",
		},
		{
			"code runs by the cast of a revision",
			append(evil("b", "int_b(integer) RETURNS pg_temp.b", "(integer AS pg_temp.b) WITH FUNCTION pg_temp.int_b(integer) AS ASSIGNMENT"),
				"CREATE TEMP TABLE cast_revision (key text, revision pg_temp.b)"),
			"CREATE TRIGGER x BEFORE INSERT ON cast_revision FOR EACH ROW EXECUTE FUNCTION T_NAME_draw()",
			"INSERT INTO cast_revision (key) VALUES ('group')",
		},
		{
			"the sequence is moved to its end",
			[]string{"CREATE TEMP TABLE ending (key text, revision bigint)", "INSERT INTO ending VALUES ('group', 9223372036854775806)"},
			"CREATE TRIGGER x AFTER DELETE ON ending FOR EACH ROW EXECUTE FUNCTION T_NAME_tell()",
			"DELETE FROM ending",
		},
		{
			"a number of the sequence is used up",
			[]string{"CREATE TEMP TABLE drawing (key text, revision bigint)", "INSERT INTO drawing VALUES ('group', 1)"},
			"CREATE TRIGGER x BEFORE UPDATE ON drawing FOR EACH ROW EXECUTE FUNCTION T_NAME_draw()",
			"UPDATE drawing SET revision = 2",
		},
		{
			"all watches read everything again",
			[]string{"CREATE TEMP TABLE telling (key text, revision bigint)"},
			"CREATE TRIGGER x AFTER TRUNCATE ON telling FOR EACH STATEMENT EXECUTE FUNCTION T_NAME_tell()",
			"TRUNCATE telling",
		},
	}
}

// connect returns a connection of a role, which keeps its temporary tables.
func connect(tb testing.TB, srv *databases.Server, role string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(trial.Within(tb), srv.DSN(role))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(trial.Within(tb)) })
	return conn
}

func must(tb testing.TB, conn *pgx.Conn, texts ...string) {
	tb.Helper()
	for _, text := range texts {
		if _, err := conn.Exec(trial.Within(tb), text); err != nil {
			tb.Fatalf("%s: %v", text, err)
		}
	}
}

// refused demands that a statement fails for lack of rights.
func refused(tb testing.TB, conn *pgx.Conn, text string) {
	tb.Helper()
	_, err := conn.Exec(trial.Within(tb), text)
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != noPrivilege {
		tb.Errorf("%s: %v", text, err)
	}
}

// standing is what an intruder must not change: a record's revision, and how
// far the sequence is.
func standing(tb testing.TB, srv *databases.Server, table string) (at [2]int64) {
	tb.Helper()
	err := srv.DB().QueryRowContext(trial.Within(tb), "SELECT (SELECT revision FROM "+table+" WHERE key = 'group'), last_value FROM "+table+"_revision").
		Scan(&at[0], &at[1])
	if err != nil {
		tb.Fatal(err)
	}
	return at
}

// Whether a new table or one of an earlier version that is brought up to date,
// and to whichever role the right was given.
func TestTriggerFunctionsMayBeAttachedByNobodyElse(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	srv.Exec("CREATE ROLE intruder LOGIN", "CREATE ROLE app LOGIN", "CREATE ROLE preset LOGIN",
		"ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO preset")
	for name, before := range map[string]func(table string) []string{
		"a new table": func(string) []string { return nil },
		"an earlier version": func(table string) []string {
			return []string{
				earlierSchema(beforeGuard, table),
				"GRANT EXECUTE ON FUNCTION " + table + "_draw TO app WITH GRANT OPTION",
				"GRANT EXECUTE ON FUNCTION " + table + "_tell TO app WITH GRANT OPTION",
				"SET ROLE app", "GRANT EXECUTE ON FUNCTION " + table + "_tell TO intruder", "RESET ROLE",
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable()
			must(t, connect(t, srv, "lab"), append(before(table), schemaOf(t, table))...)
			for _, role := range []string{"intruder", "app", "preset"} {
				conn := connect(t, srv, role)
				for _, a := range attacks() {
					must(t, conn, a.prepare...)
					refused(t, conn, strings.ReplaceAll(a.attach, "T_NAME", table))
				}
			}
		})
	}
}

// A trigger that was attached when everybody might do so outlives the right.
func TestTriggerFunctionsRefuseAForeignTable(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	srv.Exec(earlierSchema(beforeGuard, table), "CREATE ROLE intruder LOGIN")
	s := over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: table})
	rev := trial.Must(t, s, store.Write{Key: "group", Value: []byte("v")})
	intruder := connect(t, srv, "intruder")
	for _, a := range attacks() {
		must(t, intruder, append(a.prepare, strings.ReplaceAll(a.attach, "T_NAME", table))...)
	}
	srv.Exec(schemaOf(t, table))
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			before := standing(t, srv, table)
			refused(t, intruder, a.fire)
			if after := standing(t, srv, table); after != before {
				t.Errorf("revision and sequence are at %v, and were at %v", after, before)
			}
		})
	}
	trial.Must(t, s, store.Write{Key: "group", Expected: rev, Value: []byte("w")})
}

func schemaOf(tb testing.TB, table string) string {
	tb.Helper()
	text, err := pgstore.Schema(table)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// mend returns the statements that a warning asks the owner to run.
func mend(tb testing.TB, warning string) string {
	tb.Helper()
	_, text, found := strings.Cut(warning, "run: ")
	if !found {
		tb.Fatalf("no statement is printed: %s", warning)
	}
	return text
}

// Each right is one that no candidate needs, and by which a role could act as
// the owner or spoil the revisions.
func TestCheckReportsRightsThatReachTheOwnerAndTheStatementThatMends(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	srv.Exec("CREATE ROLE candidate LOGIN", `CREATE ROLE "an app" LOGIN`)
	for _, c := range []struct {
		name  string
		spoil []string // of T_NAME
		want  string
	}{
		{"everybody may attach leader_draw's function", []string{"GRANT EXECUTE ON FUNCTION T_NAME_draw TO PUBLIC"}, `ON FUNCTION "public"."T_NAME_draw"() FROM PUBLIC`},
		{"a role may attach leader_tell's function", []string{`GRANT EXECUTE ON FUNCTION T_NAME_tell TO "an app" WITH GRANT OPTION`}, `ON FUNCTION "public"."T_NAME_tell"() FROM "an app"`},
		{"everybody may write", []string{"GRANT EXECUTE ON FUNCTION T_NAME_swap TO PUBLIC"}, `ON FUNCTION "public"."T_NAME_swap"(text, bigint, bytea, boolean) FROM PUBLIC`},
		{"a role may attach triggers to the table", []string{`GRANT ALL ON T_NAME TO "an app"`}, `REVOKE TRIGGER ON TABLE "public"."T_NAME" FROM "an app"`},
		{"a role may draw and set revisions", []string{`GRANT ALL ON SEQUENCE T_NAME_revision TO "an app"`}, `REVOKE USAGE, UPDATE ON SEQUENCE "public"."T_NAME_revision" FROM "an app"`},
		{"the table has another owner", []string{`ALTER TABLE T_NAME OWNER TO "an app"`}, `OWNER TO "an app"`},
		{"a function has another owner", []string{`ALTER FUNCTION T_NAME_tell OWNER TO "an app"`}, `ALTER FUNCTION "public"."T_NAME_tell"() OWNER TO lab`},
	} {
		t.Run(c.name, func(t *testing.T) {
			since, table := time.Now(), newTable()
			s := made(t, srv.DSN("lab"), table)
			for _, text := range append(c.spoil, "GRANT SELECT ON T_NAME TO candidate", "GRANT EXECUTE ON FUNCTION T_NAME_swap TO candidate") {
				srv.Exec(strings.ReplaceAll(text, "T_NAME", table))
			}
			candidate := over(t, poolOf(t, srv.DSN("candidate")), pgstore.Options{Table: table})
			r, err := trial.Check(t, candidate)
			if want := strings.ReplaceAll(c.want, "T_NAME", table); err != nil || r.Forgetful || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], want) {
				t.Fatalf("%+v, %v; want a warning with %s", r, err, want)
			}
			srv.Exec(mend(t, r.Warnings[0]))
			trial.FindsNothingWrong(t, candidate, since)
			trial.Must(t, candidate, store.Write{Key: "a", Value: []byte("v")})
			trial.FindsNothingWrong(t, s, since)
		})
	}
}

// A revocation alone leaves what was attached before.
func TestATableWhoseFunctionsServeOthersIsWarnedOfAndBroughtUpToDate(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	since, table := time.Now(), newTable()
	srv.Exec(earlierSchema(beforeGuard, table), "CREATE ROLE candidate LOGIN", "GRANT SELECT ON "+table+" TO candidate",
		"GRANT EXECUTE ON FUNCTION "+table+"_swap TO candidate")
	candidate := over(t, poolOf(t, srv.DSN("candidate")), pgstore.Options{Table: table, Create: true})
	r, err := trial.Check(t, candidate)
	if err != nil || r.Forgetful || len(r.Warnings) != 2 || !strings.Contains(r.Warnings[0], "trigger functions") {
		t.Fatalf("%+v, %v", r, err)
	}
	rev := trial.Must(t, candidate, store.Write{Key: "group", Value: []byte("v")})
	srv.Exec(mend(t, r.Warnings[1]))
	if r, err = trial.Check(t, candidate); err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "trigger functions") {
		t.Fatalf("once the rights were revoked: %+v, %v", r, err)
	}
	trial.FindsNothingWrong(t, over(t, poolOf(t, srv.DSN("lab")), pgstore.Options{Table: table, Create: true}), since)
	trial.FindsNothingWrong(t, candidate, since)
	trial.Must(t, candidate, store.Write{Key: "group", Expected: rev, Value: []byte("w")})
}

// The statement of Schema mends what Check reports, as a migration may run it.
func TestSchemaTakesAwayTheRightsThatReachTheOwner(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	since := time.Now()
	srv.Exec("CREATE ROLE app LOGIN", schemaOf(t, table))
	for _, text := range []string{
		"GRANT ALL ON T_NAME TO app", "GRANT ALL ON SEQUENCE T_NAME_revision TO app", "GRANT EXECUTE ON FUNCTION T_NAME_draw TO app",
		"GRANT EXECUTE ON FUNCTION T_NAME_swap TO app", "ALTER FUNCTION T_NAME_draw OWNER TO app",
	} {
		srv.Exec(strings.ReplaceAll(text, "T_NAME", table))
	}
	srv.Exec(schemaOf(t, table))
	s := over(t, poolOf(t, srv.DSN("app")), pgstore.Options{Table: table})
	trial.FindsNothingWrong(t, s, since)
	// The rest of what was granted stays.
	trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
	must(t, connect(t, srv, "app"), "UPDATE "+table+" SET value = 'by hand'", "DELETE FROM "+table, "SELECT last_value FROM "+table+"_revision")
}

// Somebody who may create in a schema of the search_path may overload what
// PostgreSQL has. Its own operators and functions are found first where their
// types match exactly, and only there.
func TestNoStatementUsesOperatorsOrFunctionsOfOtherSchemas(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	srv.Exec("CREATE ROLE candidate LOGIN", "GRANT CREATE ON SCHEMA public TO PUBLIC", "CREATE ROLE intruder LOGIN")
	table := newTable()
	must(t, connect(t, srv, "intruder"), strings.ReplaceAll(overloads, "T_NAME", table))
	for range 2 { // it makes, and replaces
		must(t, connect(t, srv, "lab"), schemaOf(t, table))
	}
	srv.Exec("GRANT SELECT ON "+table+" TO candidate", "GRANT EXECUTE ON FUNCTION "+table+"_swap(text, bigint, bytea, boolean) TO candidate")
	for _, role := range []string{"lab", "candidate"} {
		s := over(t, poolOf(t, srv.DSN(role)), pgstore.Options{Table: table, Every: 10 * time.Millisecond})
		if _, err := trial.Check(t, s); err != nil {
			t.Fatal(err)
		}
		h := trial.Listen(t, s, role)
		rev := trial.Must(t, s, store.Write{Key: role, Value: []byte("v")})
		rev = trial.Must(t, s, store.Write{Key: role, Expected: rev, Value: []byte("w")})
		h.Until("a write", func(e store.Entry) bool { return e.Revision == rev })
	}
	must(t, connect(t, srv, "lab"), "UPDATE "+table+" SET value = 'by hand'", "DELETE FROM "+table, "TRUNCATE "+table)
	var called bool // also where an error is ignored
	if err := srv.DB().QueryRowContext(trial.Within(t), "SELECT is_called FROM public.called").Scan(&called); err != nil || called {
		t.Errorf("an overload was called: %v, %v", called, err)
	}
}

//go:embed testdata/overloads.sql
var overloads string
