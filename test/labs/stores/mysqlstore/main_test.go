// Package mysqlstore_test judges the store on MariaDB servers that sync
// their files.
package mysqlstore_test

import (
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mysqlstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
)

// lab keeps what the servers of these tests begin with.
var lab databases.Lab

func TestMain(m *testing.M) { trial.Main(m, lab.Close) }

// tables makes their names unique.
var tables atomic.Int64

func newTable() string { return fmt.Sprintf("records%d", tables.Add(1)) }

// open opens a store over its own pool, made by Open.
func open(tb testing.TB, url, table string) *mysqlstore.Store {
	tb.Helper()
	s, err := mysqlstore.Open(trial.Within(tb), url+"&create=true&table="+table)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// made opens a store, and makes its table.
func made(tb testing.TB, url, table string) *mysqlstore.Store {
	tb.Helper()
	s := open(tb, url, table)
	if _, err := s.Check(trial.Within(tb), store.CheckRequest{}); err != nil {
		tb.Fatal(err)
	}
	return s
}

// over returns a store over the pool.
func over(tb testing.TB, db *sql.DB, opts mysqlstore.Options) *mysqlstore.Store {
	tb.Helper()
	s, err := mysqlstore.New(db, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// poolOf returns a pool by a data source name, closed when the test ends.
func poolOf(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}
