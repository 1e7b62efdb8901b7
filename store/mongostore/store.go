package mongostore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
)

// The values of [Options.Collection] and [Options.Timeout] if those are zero.
const (
	DefaultCollection = "leader"
	DefaultTimeout    = 5 * time.Second
)

// MaxValue is the size in bytes of the largest value that a Store takes. It is
// far below the 16 MiB of a document.
const MaxValue = 1 << 20

// Options are the settings of a Store. The zero value is a good one.
type Options struct {
	// Collection is the collection that holds the registers, and nothing else.
	// MongoDB makes it with the first write. Empty means [DefaultCollection].
	Collection string
	// Timeout bounds a call whose context has no deadline, and a read for the
	// watches. Zero means [DefaultTimeout].
	Timeout time.Duration
	// Logger hears, at level error, of a panic in a function that a watch was
	// given and, at level warning, of a change stream that broke off. Nil
	// is silent.
	Logger *slog.Logger
}

// A Store is a [store.Store] over one collection. It is also a
// [store.Watcher], [store.PatternWatcher], [store.ConnReporter],
// [store.Checker] and [store.Opened]. Its methods may be called concurrently.
type Store struct {
	*feed.Feed // Watch, WatchPattern, ConnState, OnConnState

	db     *mongo.Database
	reads  *mongo.Collection // with a linearizable read concern, at the primary
	opts   Options
	closed atomic.Bool
	// release disconnects the client, if it is the store's own.
	release func() error
}

var (
	_ store.Watcher        = (*Store)(nil)
	_ store.PatternWatcher = (*Store)(nil)
	_ store.ConnReporter   = (*Store)(nil)
	_ store.Checker        = (*Store)(nil)
	_ store.Opened         = (*Store)(nil)
)

// New returns a store over a collection of the database. It sends nothing; use
// [Store.Check] to learn whether MongoDB can be reached and suits. The
// database's client stays the caller's. Concerns, preferences and retries that
// it is configured with do not apply.
func New(db *mongo.Database, opts Options) (*Store, error) {
	if db == nil {
		return nil, errors.New("mongostore: database: must not be nil")
	}
	if opts.Timeout < 0 {
		return nil, fmt.Errorf("mongostore: options: Timeout %v: must not be negative", opts.Timeout)
	}
	if opts.Collection == "" {
		opts.Collection = DefaultCollection
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	linearizable := options.Collection().SetReadConcern(readconcern.Linearizable()).SetReadPreference(readpref.Primary())
	s := &Store{db: db, reads: db.Collection(opts.Collection, linearizable), opts: opts, release: func() error { return nil }}
	s.Feed = feed.New(source{s}, feed.Options{Timeout: opts.Timeout, Logger: opts.Logger})
	return s, nil
}

// Close ends all watches and waits until the store's goroutines are gone. Later
// calls fail with [store.ErrClosed]. The client of a store that [New] made
// stays connected. Close may be called more than once, and not by a function
// that a watch was given.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.Feed.Close()
	return s.release()
}

// open fails if the store is closed.
func (s *Store) open() error {
	if s.closed.Load() {
		return fmt.Errorf("%w: MongoDB, collection %q", store.ErrClosed, s.opts.Collection)
	}
	return nil
}

// bounded gives a call without a deadline the store's.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.opts.Timeout)
}
