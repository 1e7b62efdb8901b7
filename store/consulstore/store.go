package consulstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
)

// The values of [Options.Prefix] and [Options.Timeout] if those are zero.
const (
	DefaultPrefix  = "leader/"
	DefaultTimeout = 5 * time.Second
)

// MaxValue is the size in bytes of the largest value that a Store takes. In the
// encoding of a transaction it fits into an agent's txn_max_req_len, which is
// 512 KiB by default.
const MaxValue = 256 << 10

// Options are the settings of a Store. The zero value is a good one.
type Options struct {
	// Prefix is what the registers' names begin with in Consul's key-value
	// store, usually with a slash at its end, never with one at its beginning.
	// Empty means [DefaultPrefix]. Stores of different prefixes share nothing
	// if neither is the beginning of the other.
	Prefix string
	// Timeout bounds a call whose context has no deadline, and a read for the
	// watches. Zero means [DefaultTimeout].
	Timeout time.Duration
	// Logger hears, at level error, of a panic in a function that a watch was
	// given and, at level warning, of blocking queries that broke off. Nil
	// is silent.
	Logger *slog.Logger
}

// calls is how many calls are under way at a time, each on a connection. An
// agent allows all clients of one address 200 by default
// (limits.http_max_conns_per_client), and cuts off who opens more.
const calls = 64

// A Store is a [store.Store] over the keys of one prefix. It is also a
// [store.Watcher], [store.PatternWatcher], [store.ConnReporter],
// [store.Checker] and [store.Opened]. Its methods may be called concurrently.
type Store struct {
	*feed.Feed // Watch, WatchPattern, ConnState, OnConnState

	client *api.Client
	names  names
	opts   Options
	closed atomic.Bool
	// slots has one token for each call under way.
	slots chan struct{}
	// release gives up the connections, if they are the store's own.
	release func()
}

var (
	_ store.Watcher        = (*Store)(nil)
	_ store.PatternWatcher = (*Store)(nil)
	_ store.ConnReporter   = (*Store)(nil)
	_ store.Checker        = (*Store)(nil)
	_ store.Opened         = (*Store)(nil)
)

// New returns a store over the client's Consul: its agent, its datacenter, its
// token. It sends nothing; use [Store.Check] to learn whether Consul can be
// reached and suits. The client stays the caller's.
func New(client *api.Client, opts Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("consulstore: client: must not be nil")
	}
	if opts.Timeout < 0 {
		return nil, fmt.Errorf("consulstore: options: Timeout %v: must not be negative", opts.Timeout)
	}
	if opts.Prefix == "" {
		opts.Prefix = DefaultPrefix
	}
	if err := validPrefix(opts.Prefix); err != nil {
		return nil, fmt.Errorf("consulstore: options: Prefix %q: %w", opts.Prefix, err)
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	s := &Store{client: client, names: names(opts.Prefix), opts: opts, slots: make(chan struct{}, calls), release: func() {}}
	s.Feed = feed.New(source{s}, feed.Options{Timeout: opts.Timeout, Logger: opts.Logger})
	return s, nil
}

// validPrefix demands what an agent takes in the path of a request and gives
// back unchanged (agent/kvs_endpoint.go, KVSEndpoint and validateKVKey).
func validPrefix(prefix string) error {
	if !store.ValidKey(strings.TrimSuffix(prefix, "/")) || strings.HasPrefix(prefix, "/") || strings.Contains(prefix, "//") ||
		strings.Contains("/"+prefix, "/./") {
		return errors.New("must be one that agents take: letters, digits and -_=/. in segments that are neither empty nor a dot")
	}
	return nil
}

// Prefix returns what the registers' names begin with in Consul.
func (s *Store) Prefix() string { return s.opts.Prefix }

// Close ends all watches and waits until the store's goroutines are gone. Later
// calls fail with [store.ErrClosed]. The client of a store that [New] made
// stays as it is. Close may be called more than once, and not by a function
// that a watch was given.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.Feed.Close()
	s.release()
	return nil
}

// open fails if the store is closed.
func (s *Store) open() error {
	if s.closed.Load() {
		return fmt.Errorf("%w: Consul, prefix %q", store.ErrClosed, s.opts.Prefix)
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

// enter waits for the call's turn. It fails if ctx is done first.
func (s *Store) enter(ctx context.Context) (leave func(), err error) {
	if ctx.Err() == nil {
		select {
		case s.slots <- struct{}{}:
			return func() { <-s.slots }, nil
		case <-ctx.Done():
		}
	}
	return nil, fmt.Errorf("%w: not sent: %w", store.ErrTransient, context.Cause(ctx))
}
