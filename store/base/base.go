// Package base contains the parts that every store shares: the checks of keys
// and sizes, the deadline of a call, the refusal of calls after Close, the
// watches, and the parameters of a URL. An implementation of [store.Store]
// writes a [System], which has three methods, and embeds a [Store] over it:
//
//	type Store struct {
//		*base.Store // all but Check
//		…
//	}
package base

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
)

// DefaultTimeout is the value of [Options.Timeout] if that is zero.
const DefaultTimeout = 5 * time.Second

// A System sends the requests of a store. It may also be a [feed.Follower]. Its
// methods may be called concurrently.
type System interface {
	feed.Source

	// Swap sends a compare-and-swap at most once, with the outcomes of
	// [store.Store.CompareAndSwap]. Its context has a deadline, its key is
	// valid, its value is not too large, and its expected revision fits into an
	// int64.
	Swap(ctx context.Context, w store.Write) (revision uint64, err error)
}

// Options are the settings of a Store. The zero value is ready.
type Options struct {
	// Name is what errors call the store: "etcd, prefix leader/".
	Name string
	// MaxValue is the size in bytes of the largest value. Default:
	// [store.MaxValue].
	MaxValue int
	// Timeout bounds a call whose context has no deadline, and each read of a
	// watch. Default: [DefaultTimeout].
	Timeout time.Duration
	// Every is the time from one look to the next without news and without a
	// heartbeat ([feed.Options]). Default: 1 s.
	Every time.Duration
	// Logger receives the warnings and errors of the watches. Nil is silent.
	Logger *slog.Logger
	// Release ends the system's connections, if they belong to the store. Close
	// calls it once, after the watches have ended.
	Release func() error
}

// A Store makes a [System] a [store.Opened] with watches. Its methods may be
// called concurrently.
type Store struct {
	*feed.Feed // Watch, WatchPattern, ConnState, OnConnState, Pace

	system  System
	opts    Options
	closed  atomic.Bool
	release func() error
}

var (
	_ store.Opened         = (*Store)(nil)
	_ store.Watcher        = (*Store)(nil)
	_ store.PatternWatcher = (*Store)(nil)
	_ store.ConnReporter   = (*Store)(nil)
)

// New returns a Store over the system, which it does not contact. The error
// lists every option that is not valid.
func New(system System, opts Options) (*Store, error) {
	var faults []error
	if opts.Timeout < 0 {
		faults = append(faults, fmt.Errorf("options: Timeout %v: must not be negative", opts.Timeout))
	}
	if opts.Every < 0 {
		faults = append(faults, fmt.Errorf("options: Every %v: must not be negative", opts.Every))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	opts.MaxValue = cmp.Or(opts.MaxValue, store.MaxValue)
	opts.Timeout = cmp.Or(opts.Timeout, DefaultTimeout)
	s := &Store{
		Feed:   feed.New(system, feed.Options{Every: opts.Every, Timeout: opts.Timeout, Logger: opts.Logger}),
		system: system, opts: opts, release: func() error { return nil },
	}
	if opts.Release != nil {
		s.release = sync.OnceValue(opts.Release)
	}
	return s, nil
}

// Close ends the watches and waits until their goroutines are gone. Later calls
// fail with [store.ErrClosed]. It then ends the connections if the store opened
// them. It may be called more than once, but not by a function that a watch was
// given.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.Feed.Close()
	return s.release()
}

// Begin returns the context of one call of a store, with a deadline. It fails, and nothing
// must be sent, if the store is closed or ctx is done.
func Begin(ctx context.Context, s *Store) (context.Context, context.CancelFunc, error) {
	if s.closed.Load() {
		return nil, nil, fmt.Errorf("%w: %s", store.ErrClosed, s.opts.Name)
	}
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("%w: %s: nothing was sent: %w", store.ErrTransient, s.opts.Name, context.Cause(ctx))
	}
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	return ctx, cancel, nil
}

// Get implements [store.Store] by one read.
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := validKey(key); err != nil {
		return store.Entry{}, err
	}
	ctx, cancel, err := Begin(ctx, s)
	if err != nil {
		return store.Entry{}, err
	}
	defer cancel()
	entries, err := s.system.Read(ctx, []string{key})
	switch {
	case err != nil && s.closed.Load():
		return store.Entry{}, fmt.Errorf("%w: %w", store.ErrClosed, err)
	case err != nil:
		return store.Entry{}, err
	case len(entries) == 0:
		return store.Entry{Key: key}, nil
	}
	return entries[0], nil
}

// CompareAndSwap implements [store.Store]. It sends the write at most once.
func (s *Store) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if err := validKey(w.Key); err != nil {
		return 0, err
	}
	if len(w.Value) > s.opts.MaxValue {
		return 0, fmt.Errorf("%w: key %q: the value has %d bytes: must be at most %d", store.ErrInvalid, w.Key, len(w.Value), s.opts.MaxValue)
	}
	ctx, cancel, err := Begin(ctx, s)
	if err != nil {
		return 0, err
	}
	defer cancel()
	if w.Expected > math.MaxInt64 {
		return 0, fmt.Errorf("%w: key %q: no register has the revision %d", store.ErrConflict, w.Key, w.Expected)
	}
	return s.system.Swap(ctx, w)
}

// Readable returns the error of the first of the request's keys that the user
// may not read. Other failures pass, or show when the election reads.
func Readable(ctx context.Context, s *Store, req store.CheckRequest) error {
	for _, key := range append([]string{req.Key}, req.Reads...) {
		if _, err := s.Get(ctx, key); errors.Is(err, store.ErrPermanent) {
			return err
		}
	}
	return nil
}

// Usable is Readable, and also returns the error of a user who may not write the
// request's key. It sends a write that the system must refuse, since no register
// has the revision that it expects. A request without a key needs no rights.
func Usable(ctx context.Context, s *Store, req store.CheckRequest) error {
	if req.Key == "" {
		return nil
	}
	if err := Readable(ctx, s, req); err != nil {
		return err
	}
	const impossible = 1 << 62
	if _, err := s.CompareAndSwap(ctx, store.Write{Key: req.Key, Expected: impossible}); errors.Is(err, store.ErrPermanent) {
		return err
	}
	return nil // other failures pass, or show when the election writes
}

func validKey(key string) error {
	if store.ValidKey(key) {
		return nil
	}
	if len(key) > store.MaxKey {
		key = key[:store.MaxKey] + "…"
	}
	return fmt.Errorf("%w: key %q", store.ErrInvalid, key)
}

// Because adds to a call's error why its context ended, if it did: many clients
// return an error without the cause.
func Because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// Literal returns what every key begins with that matches the pattern.
func Literal(pattern string) string {
	if i := strings.IndexAny(pattern, "*>"); i >= 0 {
		return pattern[:i]
	}
	return pattern
}
