package mysqlstore_test

import (
	"database/sql"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// url is that of the server for its user with all rights.
func url(srv *databases.Server) string { return srv.URL("lab", srv.Addr()) }

// harness gives each claim a table of its own. The stores reach the server
// by a way that may be cut.
func harness(tb testing.TB, srv *databases.Server) storetest.Harness {
	tb.Helper()
	table := newTable()
	made(tb, url(srv), table)
	db := srv.DB()
	way := &cuttable{Proxy: natslab.NewProxy(tb, srv.Addr())}
	return storetest.Harness{
		Open: func(tb testing.TB) store.Store {
			s := over(tb, poolOf(tb, "lab@tcp("+way.Addr()+")/lab"), mysqlstore.Options{Table: table, Every: 10 * time.Millisecond})
			way.add(s)
			return s
		},
		Delete: func(key string) error { return exec(db, "DELETE FROM "+table+" WHERE name = ?", key) },
		Put: func(key string, value []byte) error {
			return exec(db, "INSERT INTO "+table+" (name, value) VALUES (?, ?) ON DUPLICATE KEY UPDATE value = VALUES(value), tombstone = FALSE", key, value)
		},
		Purge: func(key string) error { return exec(db, "DELETE FROM "+table+" WHERE name = ?", key) },
		Visible: func(key string) (is bool, err error) {
			err = db.QueryRow("SELECT EXISTS (SELECT 1 FROM "+table+" WHERE name = ? AND NOT tombstone)", key).Scan(&is)
			return is, err
		},
		Interrupt: func() error { way.interrupt(); return nil },
	}
}

// cuttable is the way of some stores to their server.
type cuttable struct {
	*natslab.Proxy
	mu     sync.Mutex
	stores []*mysqlstore.Store
}

func (c *cuttable) add(s *mysqlstore.Store) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores = append(c.stores, s)
}

// interrupt cuts the way until each store that looks has noticed. A connection
// that is merely lost is made anew by its pool, and no read meets that.
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

func TestConformance(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	storetest.Run(t, func(tb testing.TB) storetest.Harness { return harness(tb, srv) }, storetest.Caps{MaxValue: 1 << 20})
}
