package mysqlstore_test

import (
	"database/sql"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// url is the URL of the server for its user with all rights.
func url(srv *databases.Server) string { return srv.URL("lab", srv.Addr()) }

func TestStore(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		srv := lab.OwnMariaDB(tb)
		return judge.Subject{
			Registers: func(tb testing.TB) judge.Registers { return registers(tb, srv) },
			Addrs:     []string{srv.Addr()},
			Processes: []judge.Process{judge.ProcessOf("the server", srv)},
			Faults: []histories.Fault{{Name: "sessions are killed", Happen: func(*rand.Rand) error {
				srv.Exec("KILL SOFT USER lab@'%'")
				return nil
			}}},
		}
	}, trial.Flags(judge.Options{Caps: storetest.Caps{MaxValue: 1 << 20}}))
}

// registers are the registers of a new table.
func registers(tb testing.TB, srv *databases.Server) judge.Registers {
	tb.Helper()
	table := newTable()
	made(tb, url(srv), table)
	return judge.Registers{
		Harness: harness(tb, srv, table),
		At:      func(tb testing.TB, addr string) store.Store { return open(tb, srv.URL("lab", addr), table) },
		Unreached: func(tb testing.TB, addr string) store.Store {
			return over(tb, poolOf(tb, "lab@tcp("+addr+")/lab"), mysqlstore.Options{Table: table})
		},
		Lend: func(tb testing.TB) judge.Loan {
			db := poolOf(tb, srv.DSN("lab"))
			return judge.Loan{
				Store: over(tb, db, mysqlstore.Options{Table: table}),
				Works: func() error { return db.PingContext(trial.Within(tb)) },
				End:   db.Close,
			}
		},
	}
}

// harness acts on a table as people and their tools do. Its stores reach the
// server by a way that may be cut.
func harness(tb testing.TB, srv *databases.Server, table string) storetest.Harness {
	tb.Helper()
	db := srv.DB()
	way := &cuttable{Relay: natslab.NewRelay(tb, srv.Addr())}
	remove := func(key string) error { return exec(db, "DELETE FROM "+table+" WHERE name = ?", key) }
	return storetest.Harness{
		Open: func(tb testing.TB) store.Store {
			s := over(tb, poolOf(tb, "lab@tcp("+way.Addr()+")/lab"), mysqlstore.Options{Table: table, Every: 10 * time.Millisecond})
			way.add(s)
			return s
		},
		Delete: remove,
		Purge:  remove,
		Put: func(key string, value []byte) error {
			return exec(db, "INSERT INTO "+table+" (name, value) VALUES (?, ?) ON DUPLICATE KEY UPDATE value = VALUES(value), tombstone = FALSE", key, value)
		},
		Visible: func(key string) (is bool, err error) {
			err = db.QueryRow("SELECT EXISTS (SELECT 1 FROM "+table+" WHERE name = ? AND NOT tombstone)", key).Scan(&is)
			return is, err
		},
		Interrupt: func() error { way.interrupt(); return nil },
	}
}

// cuttable is the way of some stores to their server.
type cuttable struct {
	*natslab.Relay
	mu     sync.Mutex
	stores []*mysqlstore.Store
}

func (c *cuttable) add(s *mysqlstore.Store) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores = append(c.stores, s)
}

// interrupt cuts the connection until each store that looks has noticed. A
// connection that is merely lost is reopened by its pool, and no read notices
// it.
func (c *cuttable) interrupt() {
	c.Cut()
	c.mu.Lock()
	stores := slices.Clone(c.stores)
	c.mu.Unlock()
	for _, s := range stores {
		for limit := time.Now().Add(200 * time.Millisecond); s.ConnState() == store.Connected && time.Now().Before(limit); {
			<-time.After(time.Millisecond)
		}
	}
	c.Resume()
}

// deadlock is the server's word for a transaction to be repeated.
const deadlock = 1213

// exec executes a statement as a person would: once more after a deadlock.
func exec(db *sql.DB, text string, args ...any) error {
	for {
		_, err := db.Exec(text, args...)
		if answer, ok := errors.AsType[*mysql.MySQLError](err); !ok || answer.Number != deadlock {
			return err
		}
	}
}

// A replica takes the place of a primary whose commits wait for it. No
// acknowledged write is lost, and none that was read.
func TestASemiSynchronousPair(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		p := newWaitingPair(tb, "AFTER_SYNC", endless)
		return judge.Subject{
			Registers: func(tb testing.TB) judge.Registers { return registers(tb, p.primary) },
			Addrs:     []string{p.primary.Addr()},
			Processes: []judge.Process{
				{Name: "the primary", Freeze: func() { p.primary.Freeze() }, Thaw: func() { p.primary.Thaw() }},
				{Name: "the replica", Freeze: func() { p.replica.Freeze() }, Thaw: func() { p.replica.Thaw() }},
			},
			FailOver: p.succeed,
		}
	}, trial.Flags(judge.Options{Cases: []judge.Case{judge.Faults, judge.Outlived}, Keys: 8}))
}
