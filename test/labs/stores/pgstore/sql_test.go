package pgstore_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
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

func TestConformanceOverDatabaseSQL(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t, "fsync=off") // what is new is on the client's side
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		way := natslab.NewProxy(tb, srv.Addr())
		h := harness(tb, srv, func(tb testing.TB, table string) store.Store { return openSQL(tb, srv.URL("lab", way.Addr()), table) })
		// A connection that is merely lost is made anew by its pool, and no
		// look meets that.
		h.Interrupt = func() error {
			way.Cut()
			<-time.After(200 * time.Millisecond) // for some looks
			way.Resume()
			return nil
		}
		return h
	}, storetest.Caps{MaxValue: 1 << 20})
}

func TestHistoriesOverDatabaseSQLAreLinearizable(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	made(t, srv.DSN("lab"), table)
	trial.Histories(t, judge, 8, func(int) []store.Store {
		return []store.Store{openSQL(t, srv.DSN("lab"), table), openSQL(t, srv.DSN("lab"), table), openSQL(t, srv.DSN("lab"), table)}
	})
}

func TestOutcomesOverDatabaseSQL(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	s := openSQL(t, srv.DSN("lab"), table)
	trial.FindsNothingWrong(t, s, time.Now()) // and makes the table
	t.Run("LostAnswers", func(t *testing.T) {
		trial.LostAnswers(t, trial.Way{
			Addr:   srv.Addr(),
			Open:   func(tb testing.TB, addr string) store.Store { return openSQL(tb, srv.URL("lab", addr), table) },
			Writes: func() int64 { return drawn(t, srv, table) },
		})
	})
	t.Run("Frozen", func(t *testing.T) { trial.Frozen(t, s, srv, false) })
	t.Run("Restart", func(t *testing.T) {
		rev := trial.Must(t, s, store.Write{Key: "a", Value: []byte("v")})
		srv.Kill()
		_, err := s.CompareAndSwap(trial.Within(t), store.Write{Key: "a", Expected: rev})
		if c := store.Classify(err); c != store.Transient && c != store.Unknown {
			t.Errorf("a write to a server that was killed: %v", err)
		}
		srv.Run()
		trial.Await(t, "the store serves again", func() bool {
			e, err := s.Get(trial.Within(t), "a")
			return err == nil && e.Revision >= rev
		})
	})
	t.Run("Busy", func(t *testing.T) {
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
	})
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
