package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
)

// maxValue is the size in bytes of the largest value that a Store takes. Values
// go through the server's memory several times, and a record needs a few
// hundred bytes.
const maxValue = 1 << 20

// A Store is a table of records. Its methods may be called concurrently.
type Store struct {
	*feed.Feed // Watch, WatchPattern, ConnState, OnConnState, Pace
	*client
	own bool // the pool is the Store's
}

var (
	_ store.Opened         = (*Store)(nil)
	_ store.Watcher        = (*Store)(nil)
	_ store.PatternWatcher = (*Store)(nil)
	_ store.ConnReporter   = (*Store)(nil)
	_ store.Checker        = (*Store)(nil)
)

// A client sends the statements, each once, on a connection of the pool.
type client struct {
	pool    pool
	names   names
	create  bool
	timeout time.Duration
	closed  atomic.Bool
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
	c, err := newClient(pool == nil, pgxPool{pool}, opts)
	if err != nil {
		return nil, err
	}
	return &Store{client: c, Feed: c.feed(source{reader{c}}, opts)}, nil
}

// NewSQL is [New] over the user's own pool of database/sql, which has to be of
// pgx's driver (sql.Open("pgx", …), with github.com/jackc/pgx/v5/stdlib
// imported); Check refuses others.
//
// Such a pool lends no connection for good, so none listens: what is watched is
// read by the clock, at least twice in a heartbeat. Nor is a renewal always one
// round trip: the driver asks a connection that was idle for a second whether
// it is still there. All else is as with New.
func NewSQL(db *sql.DB, opts Options) (*Store, error) {
	c, err := newClient(db == nil, sqlPool{db}, opts)
	if err != nil {
		return nil, err
	}
	return &Store{client: c, Feed: c.feed(reader{c}, opts)}, nil
}

func newClient(none bool, p pool, opts Options) (*client, error) {
	n, err := validate(none, opts)
	if err != nil {
		return nil, err
	}
	return &client{
		pool: p, names: n, create: opts.Create, timeout: cmp.Or(opts.Timeout, DefaultTimeout),
		swap: n.fill(swapSQL), read: n.fill(readSQL), list: n.fill(listSQL), warmText: n.fill(warmSQL),
	}, nil
}

func (c *client) feed(s feed.Source, opts Options) *feed.Feed {
	_, c.listens = s.(feed.Follower)
	return feed.New(s, feed.Options{Every: opts.Every, Timeout: c.timeout, Logger: opts.Logger})
}

// Close ends the watches, and has later calls fail with store.ErrClosed. The
// pool is closed too if [Open] made it; one that was given to [New] stays. It
// returns nil, and may be called more than once.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.Feed.Close()
	if s.own {
		s.pool.close()
	}
	return nil
}

// Get implements [store.Store]. It reads from the primary.
func (c *client) Get(ctx context.Context, key string) (store.Entry, error) {
	if !store.ValidKey(key) {
		return store.Entry{}, fmt.Errorf("%w: key %q", store.ErrInvalid, key)
	}
	entries, err := c.entries(ctx, nil, c.read, []string{key})
	if err != nil {
		return store.Entry{}, err
	}
	if len(entries) == 0 {
		return store.Entry{Key: key}, nil
	}
	return entries[0], nil
}

// CompareAndSwap implements [store.Store]. It sends one statement, once.
func (c *client) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	switch {
	case !store.ValidKey(w.Key):
		return 0, fmt.Errorf("%w: key %q", store.ErrInvalid, w.Key)
	case len(w.Value) > maxValue:
		return 0, fmt.Errorf("%w: key %q: a value of %d bytes, and %d are the most", store.ErrInvalid, w.Key, len(w.Value), maxValue)
	case w.Expected > math.MaxInt64:
		return 0, fmt.Errorf("%w: key %q: no revision is as large as %d", store.ErrConflict, w.Key, w.Expected)
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
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

// bounded gives a call without a deadline that of the options.
func (c *client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.timeout)
}

// acquire returns a connection of the pool. Nothing was sent if it fails.
func (c *client) acquire(ctx context.Context) (*lent, error) {
	if c.closed.Load() {
		return nil, fmt.Errorf("%w: table %s", store.ErrClosed, c.names.table)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: nothing was sent: %w", store.ErrTransient, context.Cause(ctx))
	}
	conn, err := c.pool.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: no connection to the database: %w", classifyConnect(err), err)
	}
	return conn, nil
}

// entries returns the records that a statement reads. after, if there is one,
// is called with the connection when they are read.
func (c *client) entries(ctx context.Context, after func(context.Context, *lent), text string, args ...any) ([]store.Entry, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
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
