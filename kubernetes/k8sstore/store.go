package k8sstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// DefaultTimeout is the value of [Options.Timeout] if that is zero.
const DefaultTimeout = base.DefaultTimeout

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
	*base.Store // all but Check
	*client
}

var _ store.Checker = (*Store)(nil)

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
	return newStore(client, opts, nil)
}

func newStore(api rest.Interface, opts Options, release func() error) (*Store, error) {
	if c, is := api.(*rest.RESTClient); api == nil || is && c == nil {
		return nil, errors.New("k8sstore: client: must not be nil, and not a fake clientset's")
	}
	if v := api.APIVersion(); v != coordinationv1.SchemeGroupVersion {
		return nil, fmt.Errorf("k8sstore: client: must be of %v, and is of %v: use clientset.CoordinationV1().RESTClient()", coordinationv1.SchemeGroupVersion, v)
	}
	c := &client{api: api, names: names(opts.Prefix), opts: opts}
	s, err := base.New(source{c}, base.Options{
		Name: "Kubernetes, namespace " + opts.Namespace, MaxValue: MaxValue, Timeout: opts.Timeout, Logger: opts.Logger, Release: release,
	})
	if err := errors.Join(opts.check(), err); err != nil {
		return nil, fmt.Errorf("k8sstore: %w", err)
	}
	return &Store{s, c}, nil
}

func (o Options) check() error {
	var faults []error
	if o.Namespace == "" {
		faults = append(faults, errors.New("options: Namespace: must not be empty"))
	}
	if !validPrefix(o.Prefix) {
		faults = append(faults, fmt.Errorf("options: Prefix %q: must begin a name of RFC 1123 (lower-case letters, digits, dots, hyphens), without two hyphens in a row", o.Prefix))
	}
	return errors.Join(faults...)
}

// A client sends the requests.
type client struct {
	api   rest.Interface
	names names
	opts  Options
	known memory
}

// Namespace returns where the Leases are.
func (c *client) Namespace() string { return c.opts.Namespace }

// LeaseName returns the name of the Lease that is the register of a key.
func (c *client) LeaseName(key string) string { return c.names.lease(key) }

// request begins a request about Leases. client-go repeats what was answered
// with 429 or 5xx and a Retry-After, writes as well, and the second answer to a
// write that was applied is a false conflict: the store and the election pace
// their own.
func (c *client) request(verb string) *rest.Request {
	return c.api.Verb(verb).MaxRetries(0).Throttle(nil).BackOffWithContext(nil).
		Namespace(c.opts.Namespace).Resource("leases")
}

// quiet keeps client-go from logging an error that the caller gets.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }
