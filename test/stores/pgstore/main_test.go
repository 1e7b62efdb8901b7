// Package pgstore_test judges the store on PostgreSQL servers that sync
// their files.
package pgstore_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/pgstore"
	"github.com/seed-ff2cb582/leader/test/databases"
)

// lab keeps what the servers of these tests begin with.
var lab databases.Lab

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := lab.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}))
}

// within returns a context that ends with the lab's patience.
func within(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), databases.Patience)
	tb.Cleanup(cancel)
	return ctx
}

// tables makes their names unique.
var tables atomic.Int64

func newTable() string { return fmt.Sprintf("records%d", tables.Add(1)) }

// open opens a store over a pool of its own, made by Open.
func open(tb testing.TB, url, table string) *pgstore.Store {
	tb.Helper()
	s, err := pgstore.Open(within(tb), url+"&create=true&table="+table)
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
	if _, err := s.Check(within(tb), store.CheckRequest{}); err != nil {
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

func must(tb testing.TB, s store.Store, w store.Write) uint64 {
	tb.Helper()
	rev, err := s.CompareAndSwap(within(tb), w)
	if err != nil {
		tb.Fatal(err)
	}
	return rev
}

func get(tb testing.TB, s store.Store, key string) store.Entry {
	tb.Helper()
	e, err := s.Get(within(tb), key)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// outcome fails the test unless err is of the class, and contains what a person
// needs.
func outcome(tb testing.TB, err error, want store.Outcome, words ...string) {
	tb.Helper()
	if got := store.Classify(err); got != want {
		tb.Fatalf("got %v, want %v: %v", got, want, err)
	}
	for _, w := range words {
		if !strings.Contains(fmt.Sprint(err), w) {
			tb.Errorf("the error does not say %q: %v", w, err)
		}
	}
}
