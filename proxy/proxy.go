package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/store"
)

// A Proxy carries connections to the leader of one group. Its methods may be
// called concurrently.
type Proxy struct {
	group   string
	opts    Options
	observe func(context.Context, leader.Observer) error
	count   counters

	mu     sync.Mutex
	routes map[*route]struct{} // one for each Serve
}

// New returns a proxy for a group whose record lives in a NATS key-value
// bucket. The connection stays the caller's. The error matches
// leader.ErrInvalidConfig.
func New(nc *nats.Conn, bucket, group string, opts Options) (*Proxy, error) {
	if nc == nil {
		return nil, &leader.ConfigError{Field: "connection", Value: nil, Rule: "is required"}
	}
	return newProxy(group, opts, func(ctx context.Context, o leader.Observer) error {
		return leader.ObserveFunc(ctx, nc, bucket, group, o)
	})
}

// NewWithStore is [New] on any store. The store stays the caller's.
func NewWithStore(st store.Store, group string, opts Options) (*Proxy, error) {
	if st == nil {
		return nil, &leader.ConfigError{Field: "store", Value: nil, Rule: "is required"}
	}
	return newProxy(group, opts, func(ctx context.Context, o leader.Observer) error {
		return leader.ObserveFuncWithStore(ctx, st, group, o)
	})
}

func newProxy(group string, opts Options, observe func(context.Context, leader.Observer) error) (*Proxy, error) {
	if err := opts.validate(group); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	opts.Logger = opts.Logger.With("group", group)
	return &Proxy{group: group, opts: opts, observe: observe}, nil
}

// Serve accepts connections from the listener and carries them to the leader,
// until ctx is done. Then it drains and returns nil. It closes the listener. It
// returns an error if the listener fails permanently, or
// leader.ErrConnectionClosed if the store's connection was closed, after which
// no leader can be known.
//
// It may be called for several listeners, each of which then observes the group
// by itself. Listeners of other kinds than TCP work if their connections do not
// need more than net.Conn; without a method CloseWrite, the end of one
// direction ends both. A connection that neither has a method SetLinger nor
// leads by NetConn to one that has, as a TLS connection does, cannot be reset:
// where it is cut, its client may read an orderly end.
func (p *Proxy) Serve(ctx context.Context, ln net.Listener) error {
	s := &server{Proxy: p, ln: ln, route: newRoute(p)}
	// The route is needed until the last connection has ended.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()

	var observing sync.WaitGroup
	var observed error
	observing.Go(func() {
		observed = p.observe(life, s.route.observer())
		s.route.lead(leader.LeaderInfo{Group: p.group}) // as nobody knows any more
		stop()
	})
	err := s.accept(ctx)
	_ = ln.Close() // the second time, in most cases
	stop()
	s.drain()
	end()
	observing.Wait()
	return errors.Join(err, observed)
}

// A server is one call of Serve.
type server struct {
	*Proxy
	ln    net.Listener
	route *route
	open  atomic.Int64
	conns sync.WaitGroup

	mu       sync.Mutex
	yielding map[*readahead]context.CancelCauseFunc // clients that others may take the slot of
}

// delay returns the wait after the nth failure in a row to accept a connection,
// or to connect to a leader.
func delay(n int) time.Duration {
	return backoff.Policy{Initial: 5 * time.Millisecond, Max: 500 * time.Millisecond}.Steady(n)
}

// accept accepts connections until ctx is done. Like net/http, it outlives
// errors that pass, such as a want of file descriptors.
func (s *server) accept(ctx context.Context) error {
	for failures := 0; ; {
		conn, err := s.ln.Accept()
		var passing interface{ Temporary() bool }
		switch {
		case err == nil:
			failures = 0
			s.admit(ctx, conn)
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the listener was closed, as it is to be
		case errors.As(err, &passing) && passing.Temporary():
			s.opts.Logger.Warn("cannot accept a connection", "error", err)
			failures++
			if !backoff.Sleep(ctx, delay(failures)) {
				return nil
			}
		default:
			return fmt.Errorf("proxy: accept: %w", err)
		}
	}
}

// admit has a connection served, unless there are too many.
func (s *server) admit(ctx context.Context, client net.Conn) {
	s.count.accepted.Add(1)
	if s.open.Add(1) > int64(s.opts.MaxConns) && !s.yield() {
		s.open.Add(-1)
		s.refuse(client, errFull)
		return
	}
	s.count.open.Add(1)
	s.conns.Go(func() {
		defer s.open.Add(-1)
		defer s.count.open.Add(-1)
		s.serve(ctx, client)
	})
}

func (s *server) serve(ctx context.Context, client net.Conn) {
	keepAlive(client)
	ahead := &readahead{conn: client}
	defer ahead.wait() // the client is closed then
	l, err := s.connect(ctx, ahead)
	if err != nil {
		s.refuse(client, err)
		return
	}
	defer s.route.leave(l)
	s.count.carried.Add(1)
	l.carry(&s.count)
}

// mayYield notes that a waiting client may have gone.
func (s *server) mayYield(client *readahead, leave context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.yielding == nil {
		s.yielding = map[*readahead]context.CancelCauseFunc{}
	}
	s.yielding[client] = leave
}

// stays notes that a client waits no more.
func (s *server) stays(client *readahead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.yielding, client)
}

// yield has a client that may have gone leave, and reports whether there was
// one.
func (s *server) yield() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for client, leave := range s.yielding {
		delete(s.yielding, client)
		leave(errFull)
		return true
	}
	return false
}

// refuse resets a connection that was carried nowhere.
func (s *server) refuse(client net.Conn, err error) {
	s.count.refuse(err)
	s.opts.Logger.Debug("connection refused", "client", client.RemoteAddr(), "error", err)
	reset(client)
}

// drain lets connections end by themselves for a time, and cuts the rest.
func (s *server) drain() {
	ended := make(chan struct{})
	go func() { s.conns.Wait(); close(ended) }()
	timer := time.NewTimer(max(0, s.opts.Drain))
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	s.route.close()
	<-ended
}
