// Package pgstore_test judges the store on PostgreSQL servers that sync
// their files.
package pgstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
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
func open(tb testing.TB, url, table string) *pgstore.Store {
	tb.Helper()
	s, err := pgstore.Open(trial.Within(tb), url+"&create=true&table="+table)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// made opens a store, and makes its table.
func made(tb testing.TB, url, table string) *pgstore.Store {
	tb.Helper()
	s := open(tb, url, table)
	if _, err := s.Check(trial.Within(tb), store.CheckRequest{}); err != nil {
		tb.Fatal(err)
	}
	return s
}

// over returns a store over the pool, which is closed when the test ends.
func over(tb testing.TB, pool *pgxpool.Pool, opts pgstore.Options) *pgstore.Store {
	tb.Helper()
	s, err := pgstore.New(pool, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// poolOf returns a pool on the server.
func poolOf(tb testing.TB, url string, tweaks ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	for _, tweak := range tweaks {
		tweak(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(tb.Context()), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}
