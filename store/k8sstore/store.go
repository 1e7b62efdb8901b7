package k8sstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/feed"
)

// DefaultTimeout is the value of [Options.Timeout] if that is zero.
const DefaultTimeout = 5 * time.Second

// MaxValue is the size in bytes of the largest value that a Store takes. Its
// base64 form fits into the 256 KiB that the API server takes for all
// annotations of an object.
const MaxValue = 128 << 10

// Options are the settings of a Store. Namespace is required.
type Options struct {
	// Namespace is where the Leases are. It has to exist.
	Namespace string
	// Prefix is what the Leases' names begin with: lower-case letters, digits,
	// dots, and hyphens, though no two in a row. Empty means that a group's
	// name is its Lease's, as with client-go. Stores of different prefixes
	// share nothing if neither is the beginning of the other.
	Prefix string
	// Timeout bounds a call whose context has no deadline, and a read for the
	// watches. Zero means [DefaultTimeout].
	Timeout time.Duration
	// Logger hears, at level error, of a panic in a function that a watch was
	// given and, at level warning, of a watch of Kubernetes that broke off. Nil
	// is silent.
	Logger *slog.Logger
}

// A Store is a [store.Store] over the Leases of one namespace. It is also a
// [store.Watcher], [store.PatternWatcher], [store.ConnReporter],
// [store.Checker] and [store.Opened]. Its methods may be called concurrently.
type Store struct {
	*feed.Feed // Watch, WatchPattern, ConnState, OnConnState

	client rest.Interface
	names  names
	opts   Options
	known  memory
	closed atomic.Bool
	// release closes the connections, if they are the store's own.
	release func()
}

var (
	_ store.Watcher        = (*Store)(nil)
	_ store.PatternWatcher = (*Store)(nil)
	_ store.ConnReporter   = (*Store)(nil)
	_ store.Checker        = (*Store)(nil)
	_ store.Opened         = (*Store)(nil)
)

// New returns a store over a client of the API group coordination.k8s.io/v1,
// such as the program's own clientset has:
//
//	st, err := k8sstore.New(clientset.CoordinationV1().RESTClient(), k8sstore.Options{Namespace: "default"})
//
// It sends nothing; use [Store.Check] to learn whether the API server can be
// reached and suits. The client stays the caller's. Its rate limiter does not
// apply, since a renewal must not wait behind the program's other requests, nor
// do client-go's retries.
func New(client rest.Interface, opts Options) (*Store, error) {
	if c, is := client.(*rest.RESTClient); client == nil || is && c == nil {
		return nil, errors.New("k8sstore: client: must not be nil, and not that of a fake clientset")
	}
	if v := client.APIVersion(); v != coordinationv1.SchemeGroupVersion {
		return nil, fmt.Errorf("k8sstore: client: must be of %v, and is of %v: use clientset.CoordinationV1().RESTClient()", coordinationv1.SchemeGroupVersion, v)
	}
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("k8sstore: %w", err)
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	s := &Store{client: client, names: names(opts.Prefix), opts: opts, release: func() {}}
	s.Feed = feed.New(source{s}, feed.Options{Timeout: opts.Timeout, Logger: opts.Logger})
	return s, nil
}

func (o Options) check() error {
	var faults []error
	if o.Namespace == "" {
		faults = append(faults, errors.New("options: Namespace: must not be empty"))
	}
	if !validPrefix(o.Prefix) {
		faults = append(faults, fmt.Errorf("options: Prefix %q: must begin a name of RFC 1123 (lower-case letters, digits, dots, hyphens), without two hyphens in a row", o.Prefix))
	}
	if o.Timeout < 0 {
		faults = append(faults, fmt.Errorf("options: Timeout %v: must not be negative", o.Timeout))
	}
	return errors.Join(faults...)
}

// Namespace returns where the Leases are.
func (s *Store) Namespace() string { return s.opts.Namespace }

// LeaseName returns the name of the Lease that is the register of a key.
func (s *Store) LeaseName(key string) string { return s.names.lease(key) }

// Close ends all watches and waits until the store's goroutines are gone. Later
// calls fail with [store.ErrClosed]. A client that [New] was given stays open.
// Close may be called more than once, and not by a function that a watch was
// given.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.Feed.Close()
	s.release()
	return nil
}

// open fails if the store is closed.
func (s *Store) open() error {
	if s.closed.Load() {
		return fmt.Errorf("%w: Kubernetes, namespace %q", store.ErrClosed, s.opts.Namespace)
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

// request begins a request about Leases. client-go repeats what was answered
// with 429 or 5xx and a Retry-After, writes as well, and the second answer to a
// write that was applied is a false conflict: the store and the election pace
// their own.
func (s *Store) request(verb string) *rest.Request {
	return s.client.Verb(verb).MaxRetries(0).Throttle(nil).BackOffWithContext(nil).
		Namespace(s.opts.Namespace).Resource("leases")
}

// quiet keeps client-go from logging what the caller is told by an error.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }
