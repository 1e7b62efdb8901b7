package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
	"github.com/seed-ff2cb582/leader/store/feed"
)

// maxValue is the size in bytes of the largest value that a Store takes. Values
// go through the server's memory several times, and a record needs a few
// hundred bytes.
const maxValue = 1 << 20

// A Store is a table of records. Its methods may be called concurrently.
type Store struct {
	*base.Store // all but Check and Get
	*client
}

var _ store.Checker = (*Store)(nil)

// A client sends the statements, each once, on a connection of the pool.
type client struct {
	pool    pool
	names   names
	create  bool
	timeout time.Duration
	listens bool        // to notifications
	writes  atomic.Bool // the user may, as Check found, and is a candidate
	deaf    int         // how often Follow heard nothing, in a row; its own

	swap, read, list, warmText string
}

// New returns a Store over the user's own pool, which it does not close. It
// does not contact the server; [Store.Check] does.
//
// While something is watched, one connection that the pool made is taken out of
// it to listen, and does not count among the pool's.
func New(pool *pgxpool.Pool, opts Options) (*Store, error) {
	return newStore(pool, opts, nil)
}

func newStore(pool *pgxpool.Pool, opts Options, release func() error) (*Store, error) {
	c := &client{pool: pgxPool{pool}}
	return c.store(pool == nil, source{reader{c}}, opts, release)
}

// NewSQL is [New] over the user's own pool of database/sql, which has to be of
// pgx's driver (sql.Open("pgx", …), with github.com/jackc/pgx/v5/stdlib
// imported); Check refuses others.
//
// Such a pool lends no connection permanently, so none listens: watches read by
// the clock, at least twice in a heartbeat. Nor is a renewal always one round
// trip: the driver checks a connection that was idle for a second before it
// uses it. All else is as with New.
func NewSQL(db *sql.DB, opts Options) (*Store, error) {
	c := &client{pool: sqlPool{db}}
	return c.store(db == nil, reader{c}, opts, nil)
}

// store returns the Store of a client; none: it has no pool.
func (c *client) store(none bool, sys base.System, opts Options, release func() error) (*Store, error) {
	n, err := parseTable(opts.Table)
	faults := []error{err}
	if none {
		faults = append(faults, errors.New("pool: must not be nil"))
	}
	s, err := base.New(sys, base.Options{
		Name: "table " + n.table, MaxValue: maxValue, Timeout: opts.Timeout, Every: opts.Every, Logger: opts.Logger, Release: release,
	})
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	c.names, c.create, c.timeout = n, opts.Create, cmp.Or(opts.Timeout, DefaultTimeout)
	c.swap, c.read, c.list, c.warmText = n.fill(swapSQL), n.fill(readSQL), n.fill(listSQL), n.fill(warmSQL)
	_, c.listens = sys.(feed.Follower)
	return &Store{s, c}, nil
}

// Get implements [store.Store]. It reads from the primary.
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	return s.Store.Get(context.WithValue(ctx, awaited{}, true), key)
}

// awaited marks the context of a read for which a caller waits.
type awaited struct{}

// Swap implements [base.System]. It sends one statement, once.
func (c reader) Swap(ctx context.Context, w store.Write) (uint64, error) {
	conn, err := c.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.release()
	value := w.Value
	if value == nil {
		value = []byte{} // nil is NULL
	}
	var revision *int64
	// Scan returns when the server is ready for the next statement, and so
	// after the commit: the row itself may come before.
	err = conn.QueryRow(ctx, c.swap, pgx.QueryExecModeExec, w.Key, int64(w.Expected), value, w.Tombstone).Scan(&revision)
	switch {
	case err != nil:
		return 0, c.explain(conn, classifyWrite(err), fmt.Errorf("key %q: %w", w.Key, err))
	case revision == nil:
		return 0, fmt.Errorf("%w: table %s, key %q: not at revision %d", store.ErrConflict, c.names.table, w.Key, w.Expected)
	}
	return uint64(*revision), nil
}

// acquire returns a connection of the pool. Nothing was sent if it fails.
func (c *client) acquire(ctx context.Context) (*lent, error) {
	conn, err := c.pool.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: no connection to the database: %w", classifyConnect(err), err)
	}
	return conn, nil
}

// entries returns the records that a statement reads. after, if there is one,
// is called with the connection when they are read.
func (c *client) entries(ctx context.Context, after func(context.Context, *lent), text string, args ...any) ([]store.Entry, error) {
	conn, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.release()
	rows, err := conn.Query(ctx, text, append([]any{pgx.QueryExecModeExec}, args...)...)
	if err == nil {
		var entries []store.Entry
		entries, err = collect(rows)
		if err == nil {
			if after != nil {
				after(ctx, conn)
			}
			return entries, nil
		}
	}
	return nil, c.explain(conn, classifyRead(err), err)
}

// collect reads the rows of readSQL and listSQL.
func collect(rows pgx.Rows) (entries []store.Entry, err error) {
	defer rows.Close()
	for rows.Next() {
		var standby bool
		var key *string
		var revision *int64
		var tombstone *bool
		var value []byte
		if err := rows.Scan(&standby, &key, &revision, &tombstone, &value); err != nil {
			return nil, err
		}
		if standby {
			return nil, errStandby
		}
		if key != nil && revision != nil && tombstone != nil {
			entries = append(entries, store.Entry{Key: *key, Revision: uint64(*revision), Tombstone: *tombstone, Value: value})
		}
	}
	return entries, rows.Err()
}
