package pgstore_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

// openSQL returns a store over a pool of database/sql.
func openSQL(tb testing.TB, url, table string) *pgstore.Store {
	tb.Helper()
	db, err := sql.Open("pgx", url+"&application_name=leader")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	s, err := pgstore.NewSQL(db, pgstore.Options{Table: table, Create: true, Every: 10 * time.Millisecond})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func TestAPoolOfDatabaseSQLThatIsBusyOrClosed(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	trial.FindsNothingWrong(t, openSQL(t, srv.DSN("lab"), table), time.Now()) // and makes the table
	db, err := sql.Open("pgx", srv.DSN("lab"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	busy, err := pgstore.NewSQL(db, pgstore.Options{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Close() })
	conn, err := db.Conn(trial.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = busy.CompareAndSwap(trial.Brief(t), store.Write{Key: "busy"})
	if cerr := conn.Close(); cerr != nil {
		t.Error(cerr)
	}
	trial.Outcome(t, err, store.Transient)
	// The connection goes back whatever became of the call.
	for range 3 {
		if _, err := busy.CompareAndSwap(trial.Within(t), store.Write{Key: "busy", Expected: 1}); store.Classify(err) != store.Conflict {
			t.Errorf("a refused write: %v", err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	trial.SaysClosed(t, busy)
}

func TestAPoolOfAnotherDriverIsRefused(t *testing.T) {
	t.Parallel()
	s, err := pgstore.NewSQL(databases.SQLite(t), pgstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	_, err = trial.Check(t, s)
	trial.Outcome(t, err, store.Permanent, "pgx/v5/stdlib")
}
