package pgstore_test

import (
	"database/sql"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var caps = storetest.Caps{MaxValue: 1 << 20}

func TestStore(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		srv := lab.OwnPostgreSQL(tb, append([]string{"max_connections=400"}, lazy...)...)
		return judge.Subject{
			Registers: func(tb testing.TB) judge.Registers { return registers(tb, srv) },
			Addrs:     []string{srv.Addr()},
			Processes: []judge.Process{judge.ProcessOf("the server", srv)},
			Faults: []histories.Fault{{Name: "some sessions are terminated", Happen: func(*rand.Rand) error {
				return exec(srv.DB(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leader' ORDER BY random() LIMIT 3")
			}}},
		}
	}, trial.Flags(judge.Options{Caps: caps}))
}

// registers are the registers of a new table.
func registers(tb testing.TB, srv *databases.Server) judge.Registers {
	tb.Helper()
	table := newTable()
	made(tb, srv.DSN("lab"), table)
	return judge.Registers{
		Harness: harness(srv, table),
		At:      func(tb testing.TB, addr string) store.Store { return open(tb, srv.URL("lab", addr), table) },
		Unreached: func(tb testing.TB, addr string) store.Store {
			return over(tb, poolOf(tb, srv.URL("lab", addr)), pgstore.Options{Table: table})
		},
		// So many revisions the table's sequence has given.
		Writes: func() (n int64) {
			if err := srv.DB().QueryRow("SELECT last_value FROM " + table + "_revision").Scan(&n); err != nil {
				tb.Fatal(err)
			}
			return n
		},
		Lend: func(tb testing.TB) judge.Loan {
			pool := poolOf(tb, srv.DSN("lab"))
			return judge.Loan{
				Store: over(tb, pool, pgstore.Options{Table: table}),
				Works: func() error { return pool.Ping(trial.Within(tb)) },
				End:   func() error { pool.Close(); return nil },
			}
		},
	}
}

// harness acts on a table as people and their tools do.
func harness(srv *databases.Server, table string) storetest.Harness {
	db := srv.DB()
	remove := func(key string) error { return exec(db, "DELETE FROM "+table+" WHERE key = $1", key) }
	return storetest.Harness{
		Open:   func(tb testing.TB) store.Store { return open(tb, srv.DSN("lab"), table) },
		Delete: remove,
		Purge:  remove,
		Put: func(key string, value []byte) error {
			return exec(db, "INSERT INTO "+table+" (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, tombstone = false", key, value)
		},
		Visible: func(key string) (is bool, err error) {
			err = db.QueryRow("SELECT EXISTS (SELECT FROM "+table+" WHERE key = $1 AND NOT tombstone)", key).Scan(&is)
			return is, err
		},
		Interrupt: func() error {
			return exec(db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leader'")
		},
	}
}

func exec(db *sql.DB, text string, args ...any) error {
	_, err := db.Exec(text, args...)
	return err
}

// A standby takes the place of a primary whose commits wait for it. No
// acknowledged write is lost, and none that was read.
func TestASynchronousPair(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		p := newSynchronousPair(tb)
		return judge.Subject{
			Registers: func(tb testing.TB) judge.Registers { return registers(tb, p.primary) },
			Addrs:     []string{p.primary.Addr()},
			Processes: []judge.Process{
				{Name: "the primary", Freeze: func() { p.primary.Freeze() }, Thaw: func() { p.primary.Thaw() }},
				{Name: "the standby", Freeze: func() { p.standby.Freeze() }, Thaw: func() { p.standby.Thaw() }},
			},
			FailOver: p.failOver,
		}
	}, trial.Flags(judge.Options{Cases: []judge.Case{judge.Faults, judge.Outlived}, Keys: 8}))
}

// A pool of database/sql differs from pgx' own pool: it notices the end of a
// connection when it next reads, and opens the connection again.
func TestStoreOverDatabaseSQL(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		srv := lab.OwnPostgreSQL(tb)
		return judge.Subject{
			Addrs:     []string{srv.Addr()},
			Processes: []judge.Process{judge.ProcessOf("the server", srv)},
			Registers: func(tb testing.TB) judge.Registers {
				table := newTable()
				made(tb, srv.DSN("lab"), table)
				r := judge.Registers{Harness: harness(srv, table)}
				r.At = func(tb testing.TB, addr string) store.Store { return openSQL(tb, srv.URL("lab", addr), table) }
				way := natslab.NewRelay(tb, srv.Addr())
				r.Open = func(tb testing.TB) store.Store { return r.At(tb, way.Addr()) }
				r.Interrupt = func() error {
					way.Cut()
					<-time.After(200 * time.Millisecond) // for some looks
					way.Resume()
					return nil
				}
				return r
			},
		}
	}, trial.Flags(judge.Options{Caps: caps, Cases: []judge.Case{
		judge.Contract, judge.Histories, judge.LostAnswers, judge.Unsent, judge.Frozen, judge.Kept,
	}}))
}
