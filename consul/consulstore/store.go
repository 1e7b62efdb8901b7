package consulstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// The values of [Options.Prefix] and [Options.Timeout] if those are zero.
const (
	DefaultPrefix  = "leader/"
	DefaultTimeout = base.DefaultTimeout
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
	*base.Store // all but Check
	*client
}

var _ store.Checker = (*Store)(nil)

// New returns a store over the client's Consul: its agent, its datacenter, its
// token. It sends nothing; use [Store.Check] to learn whether Consul can be
// reached and suits. The client stays the caller's: Close leaves it as it is.
func New(client *api.Client, opts Options) (*Store, error) {
	return newStore(client, opts, nil)
}

func newStore(consul *api.Client, opts Options, release func() error) (*Store, error) {
	if consul == nil {
		return nil, errors.New("consulstore: client: must not be nil")
	}
	opts.Prefix = cmp.Or(opts.Prefix, DefaultPrefix)
	if err := validPrefix(opts.Prefix); err != nil {
		return nil, fmt.Errorf("consulstore: options: Prefix %q: %w", opts.Prefix, err)
	}
	opts.Timeout = cmp.Or(opts.Timeout, DefaultTimeout)
	c := &client{consul: consul, names: names(opts.Prefix), opts: opts, slots: make(chan struct{}, calls)}
	s, err := base.New(source{c}, base.Options{
		Name: "Consul, prefix " + opts.Prefix, MaxValue: MaxValue, Timeout: opts.Timeout, Logger: opts.Logger, Release: release,
	})
	if err != nil {
		return nil, fmt.Errorf("consulstore: %w", err)
	}
	return &Store{s, c}, nil
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

// A client sends the requests.
type client struct {
	consul *api.Client
	names  names
	opts   Options
	// slots has one token for each call under way.
	slots chan struct{}
}

// Prefix returns what the registers' names begin with in Consul.
func (c *client) Prefix() string { return c.opts.Prefix }

// enter waits for the call's turn. It fails if ctx is done first.
func (c *client) enter(ctx context.Context) (leave func(), err error) {
	if ctx.Err() == nil {
		select {
		case c.slots <- struct{}{}:
			return func() { <-c.slots }, nil
		case <-ctx.Done():
		}
	}
	return nil, fmt.Errorf("%w: not sent: %w", store.ErrTransient, context.Cause(ctx))
}
