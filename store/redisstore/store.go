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
	"github.com/seed-ff2cb582/leader/store/feed"
)

// A Store is a [store.Store] over the keys of one prefix. It is also a
// [store.Watcher], [store.PatternWatcher], [store.ConnReporter] and
// [store.Checker]. Its methods may be called concurrently.
type Store struct {
	*feed.Feed
	*client
	own bool // the client is closed with the store
}

var (
	_ store.Watcher        = (*Store)(nil)
	_ store.PatternWatcher = (*Store)(nil)
	_ store.ConnReporter   = (*Store)(nil)
	_ store.Checker        = (*Store)(nil)
	_ store.Opened         = (*Store)(nil)
)

// New returns a store over the keys that begin with [Options.Prefix]. It sends
// nothing; use [Store.Check] to learn whether the server suits. The client
// stays the caller's: the store neither closes it nor changes it. It is a
// *redis.Client, one of Sentinel included (redis.NewFailoverClient), or a
// *redis.ClusterClient; its MaxRetries does not apply to writes.
func New(rdb redis.UniversalClient, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	if err := validate(rdb, opts); err != nil {
		return nil, err
	}
	c := &client{rdb: rdb, opts: opts, database: database(rdb), swap: newScript(swap), adopt: newScript(adopt), examine: newScript(examine)}
	f := feed.New(source{c}, feed.Options{Timeout: opts.Timeout, Logger: opts.Logger})
	return &Store{Feed: f, client: c}, nil
}

// Close ends all watches and waits until no goroutine of the store is left:
// those of calls that were given up end when the client's own timeouts do.
// Later calls fail with store.ErrClosed. The client is closed only if [Open]
// made it. Close may be called more than once.
func (s *Store) Close() error {
	s.Feed.Close()
	s.mu.Lock()
	before := s.closed
	s.closed = true
	s.mu.Unlock()
	var err error
	if s.own && !before {
		err = s.rdb.Close()
	}
	s.calls.Wait()
	return err
}

// Get implements [store.Store] by a read of the key's master. Content that is
// no record of this library gets a revision then, if the user may write;
// without that right it reads as an entry of revision 1.
func (s *Store) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := valid(key); err != nil {
		return store.Entry{}, err
	}
	entries, err := source{s.client}.Read(ctx, []string{key})
	if err != nil {
		return store.Entry{}, err
	}
	return entries[0], nil
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

func valid(key string) error {
	if !store.ValidKey(key) {
		return fmt.Errorf("%w: key %q", store.ErrInvalid, brief(key))
	}
	return nil
}

// brief shortens a key for a text.
func brief(key string) string {
	if len(key) > store.MaxKey {
		return key[:store.MaxKey] + "…"
	}
	return key
}

// name is the key of a register in Redis.
func (c *client) name(key string) string { return c.opts.Prefix + key }

// channel is where writes to a register are published. All databases of a
// server share the channels, so those of others than the first have its number.
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

// bounded gives ctx a deadline if it has none.
func (c *client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.opts.Timeout)
}

// errGivenUp: the context was done before the answer came.
var errGivenUp = errors.New("the call was given up")

// await makes the call, and returns when ctx is done: the client's own calls
// wait for an answer longer than that. What the call would return is lost then.
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

// guarded turns a panic, which may be that of a hook of the caller's client,
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
// are in them. With [Options.Wait] the error says that too few replicas have
// what they wrote and saw: after any command, WAIT waits for all that the
// server had written by then (server.c, processCommand, c->woff).
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
