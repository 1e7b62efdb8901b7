package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/base"
)

// A Store is a [store.Store] over the keys of one prefix. It is also a
// [store.Watcher], [store.PatternWatcher], [store.ConnReporter] and
// [store.Checker]. Its methods may be called concurrently.
type Store struct {
	*base.Store // all but Check
	*client
}

var _ store.Checker = (*Store)(nil)

// New returns a store over the keys that begin with [Options.Prefix]. It sends
// nothing; use [Store.Check] to learn whether the server suits. The client
// stays the caller's: the store neither closes it nor changes it. It is a
// *redis.Client, one of Sentinel included (redis.NewFailoverClient), or a
// *redis.ClusterClient; its MaxRetries does not apply to writes.
func New(rdb redis.UniversalClient, opts Options) (*Store, error) {
	return newStore(rdb, opts, func() error { return nil })
}

func newStore(rdb redis.UniversalClient, opts Options, release func() error) (*Store, error) {
	opts = opts.withDefaults()
	c := &client{rdb: rdb, opts: opts, swap: newScript(swap), adopt: newScript(adopt), examine: newScript(examine)}
	s, err := base.New(source{c}, base.Options{
		Name: "Redis, prefix " + opts.Prefix, MaxValue: MaxValue, Timeout: opts.Timeout, Logger: opts.Logger,
		Release: func() error { return c.close(release) },
	})
	if err := errors.Join(validate(rdb, opts), err); err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	c.database = database(rdb)
	return &Store{s, c}, nil
}

// client is what sends the commands.
type client struct {
	rdb                  redis.UniversalClient
	opts                 Options
	database             string // what channels end in
	swap, adopt, examine script
	untold               sync.Once

	mu     sync.RWMutex // guards closed, and is held while calls grows
	closed bool
	calls  sync.WaitGroup
}

// close ends the connections, and waits for the calls that were given up: they
// end when the client's own timeouts do.
func (c *client) close(release func() error) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	err := release()
	c.calls.Wait()
	return err
}

// name is the key of a register in Redis.
func (c *client) name(key string) string { return c.opts.Prefix + key }

// channel is where writes to a register are published. All databases of a
// server share the channels, so the channels of databases other than the first
// have the database's number.
func (c *client) channel(key string) string { return c.opts.Prefix + key + c.database }

// keyOf returns the register of a channel, or "" if there is none.
func (c *client) keyOf(channel string) string {
	key, ours := strings.CutPrefix(channel, c.opts.Prefix)
	if key, same := strings.CutSuffix(key, c.database); ours && same && store.ValidKey(key) {
		return key
	}
	return ""
}

// database is what the channels of the client's database end in.
func database(rdb redis.UniversalClient) string {
	if c, ok := rdb.(*redis.Client); ok && c.Options().DB != 0 {
		return "@" + strconv.Itoa(c.Options().DB)
	}
	return ""
}

// errGivenUp: the context was done before the answer came.
var errGivenUp = errors.New("the call was given up")

// await makes the call, and returns when ctx is done: the client's own calls
// wait for an answer longer than that. The result of the call is lost then.
func (c *client) await(ctx context.Context, call func(context.Context) error) error {
	c.mu.RLock()
	if c.closed {
		c.mu.RUnlock()
		return redis.ErrClosed
	}
	c.calls.Add(1)
	c.mu.RUnlock()
	done := make(chan error, 1)
	go func() {
		defer c.calls.Done()
		done <- guarded(ctx, call)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errGivenUp, context.Cause(ctx))
	}
}

// guarded turns a panic, which may come from a hook of the caller's client,
// into an error.
func guarded(ctx context.Context, call func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return call(ctx)
}

// A node takes commands.
type node interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// node returns what takes a register's commands. Within a cluster, WAIT belongs
// to the connection of the key's master.
func (c *client) node(ctx context.Context, key string) (node, error) {
	if cluster, ok := c.rdb.(*redis.ClusterClient); ok && c.opts.Wait > 0 {
		return cluster.MasterForKey(ctx, c.name(key))
	}
	return c.rdb, nil
}

// waitLimit bounds how long a server waits for its replicas.
const waitLimit = time.Second

// errReplicas: too few replicas have what was written or read.
var errReplicas = errors.New("too few replicas have it")

// send sends commands on one connection in one flight. Their answers and errors
// are in them. With [Options.Wait] the error reports that too few replicas have
// the data that the commands wrote and saw: after any command, WAIT waits for
// all that the server had written by then (server.c, processCommand, c->woff).
func (c *client) send(ctx context.Context, n node, cmds ...redis.Cmder) error {
	if c.opts.Wait == 0 && len(cmds) == 1 {
		_ = n.Process(ctx, cmds[0])
		return nil
	}
	pipe := n.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd) // it waits in the pipeline
	}
	var waited *redis.Cmd
	if c.opts.Wait > 0 {
		waited = redis.NewCmd(ctx, "wait", c.opts.Wait, strconv.FormatInt(waitLimit.Milliseconds(), 10))
		_ = pipe.Process(ctx, waited)
	}
	_, _ = pipe.Exec(ctx)
	if waited == nil {
		return nil
	}
	have, err := waited.Int()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errReplicas, err)
	case have < c.opts.Wait:
		return fmt.Errorf("%w: %d of %d", errReplicas, have, c.opts.Wait)
	}
	return nil
}
