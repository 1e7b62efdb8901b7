package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
)

// The values of [Options.Prefix] and [Options.Timeout] if those are zero.
const (
	DefaultPrefix  = "leader/"
	DefaultTimeout = 5 * time.Second
)

// MaxValue is the size in bytes of the largest value that a Store takes. It
// fits into etcd's --max-request-bytes, which is 1.5 MiB by default.
const MaxValue = 1 << 20

// Options are the settings of a Store. The zero value is a good one.
type Options struct {
	// Prefix is what the registers' names begin with in etcd, usually with a
	// slash at its end. Empty means [DefaultPrefix]. Stores of different
	// prefixes share nothing if neither is the beginning of the other.
	Prefix string
	// Timeout bounds a call whose context has no deadline, and a read for the
	// watches. Zero means [DefaultTimeout].
	Timeout time.Duration
	// Logger hears, at level error, of a panic in a function that a watch was
	// given and, at level warning, of a watch of etcd that broke off. Nil
	// is silent.
	Logger *slog.Logger
}

// A Store is a [store.Store] over the keys of one prefix. It is also a
// [store.Watcher], [store.PatternWatcher], [store.ConnReporter],
// [store.Checker] and [store.Opened]. Its methods may be called concurrently.
type Store struct {
	*feed.Feed // Watch, WatchPattern, ConnState, OnConnState

	client  *clientv3.Client
	kv      pb.KVClient
	watch   pb.WatchClient
	cluster pb.ClusterClient
	names   names
	opts    Options
	closed  atomic.Bool
	// forget ends the wait for the client's end.
	forget func() bool
	// release closes the client, if it is the store's own.
	release func() error
}

var (
	_ store.Watcher        = (*Store)(nil)
	_ store.PatternWatcher = (*Store)(nil)
	_ store.ConnReporter   = (*Store)(nil)
	_ store.Checker        = (*Store)(nil)
	_ store.Opened         = (*Store)(nil)
)

// New returns a store over the client's etcd. It sends nothing; use
// [Store.Check] to learn whether etcd can be reached and suits. The client
// stays the caller's: the store does not close it. When the client is closed,
// the store is.
//
// A namespace that the caller has put around the client's KV and Watcher does
// not apply; name it in [Options.Prefix].
func New(client *clientv3.Client, opts Options) (*Store, error) {
	if client == nil || client.ActiveConnection() == nil {
		return nil, errors.New("etcdstore: client: must not be nil, and must have a connection")
	}
	if opts.Timeout < 0 {
		return nil, fmt.Errorf("etcdstore: options: Timeout %v: must not be negative", opts.Timeout)
	}
	if opts.Prefix == "" {
		opts.Prefix = DefaultPrefix
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	conn := roomy{client.ActiveConnection()}
	s := &Store{
		client: client, kv: pb.NewKVClient(conn), watch: pb.NewWatchClient(conn), cluster: pb.NewClusterClient(conn),
		names: names(opts.Prefix), opts: opts, release: func() error { return nil },
	}
	s.Feed = feed.New(source{s}, feed.Options{Timeout: opts.Timeout, Logger: opts.Logger})
	s.forget = context.AfterFunc(client.Ctx(), s.shut)
	return s, nil
}

// Prefix returns what the registers' names begin with in etcd.
func (s *Store) Prefix() string { return s.opts.Prefix }

// Close ends all watches and waits until the store's goroutines are gone. Later
// calls fail with [store.ErrClosed]. The client of a store that [New] made
// stays open. Close may be called more than once, and not by a function that a
// watch was given.
func (s *Store) Close() error {
	s.forget()
	s.shut()
	return s.release()
}

func (s *Store) shut() {
	s.closed.Store(true)
	s.Feed.Close()
}

// open fails if the store is closed.
func (s *Store) open() error {
	if s.closed.Load() || s.client.Ctx().Err() != nil {
		return fmt.Errorf("%w: etcd, prefix %q", store.ErrClosed, s.opts.Prefix)
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
