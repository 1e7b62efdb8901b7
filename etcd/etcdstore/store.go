package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// The values of [Options.Prefix] and [Options.Timeout] if those are zero.
const (
	DefaultPrefix  = "leader/"
	DefaultTimeout = base.DefaultTimeout
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
	*base.Store // all but Check
	*client

	// forget ends the wait for the client's end.
	forget func() bool
}

var _ store.Checker = (*Store)(nil)

// New returns a store over the client's etcd. It sends nothing; use
// [Store.Check] to learn whether etcd can be reached and suits. The client
// stays the caller's: the store does not close it. When the client is closed,
// the store is.
//
// A namespace that the caller has put around the client's KV and Watcher does
// not apply; name it in [Options.Prefix].
func New(client *clientv3.Client, opts Options) (*Store, error) {
	return newStore(client, opts, nil)
}

func newStore(etcd *clientv3.Client, opts Options, release func() error) (*Store, error) {
	if etcd == nil || etcd.ActiveConnection() == nil {
		return nil, errors.New("etcdstore: client: must not be nil, and must have a connection")
	}
	opts.Prefix = cmp.Or(opts.Prefix, DefaultPrefix)
	conn := roomy{etcd.ActiveConnection()}
	c := &client{
		etcd: etcd, kv: pb.NewKVClient(conn), watch: pb.NewWatchClient(conn), cluster: pb.NewClusterClient(conn),
		names: names(opts.Prefix),
	}
	s, err := base.New(source{c}, base.Options{
		Name: "etcd, prefix " + opts.Prefix, MaxValue: MaxValue, Timeout: opts.Timeout, Logger: opts.Logger, Release: release,
	})
	if err != nil {
		return nil, fmt.Errorf("etcdstore: %w", err)
	}
	return &Store{s, c, context.AfterFunc(etcd.Ctx(), func() { _ = s.Close() })}, nil
}

// Close is [base.Store.Close]. The client of a store that [New] made stays open.
func (s *Store) Close() error {
	s.forget()
	return s.Store.Close()
}

// A client sends the requests.
type client struct {
	etcd    *clientv3.Client
	kv      pb.KVClient
	watch   pb.WatchClient
	cluster pb.ClusterClient
	names   names
}

// Prefix returns what the registers' names begin with in etcd.
func (c *client) Prefix() string { return string(c.names) }

// closed reports whether the client was closed, by its owner or by Close.
func (c *client) closed() bool { return c.etcd.Ctx().Err() != nil }
