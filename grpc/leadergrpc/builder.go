package leadergrpc

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
)

// Scheme is the scheme of a Builder's targets: leader:///GROUP.
const Scheme = "leader"

// DefaultRetryFor is how long a refused call is sent again by default.
const DefaultRetryFor = 10 * time.Second

// An Observe yields the leader of a group: the current state first, then each
// change, until ctx is done. Errors are those that leader.ObserveWithStore
// yields.
type Observe func(ctx context.Context, group string) iter.Seq2[leader.LeaderInfo, error]

// ObserveStore returns observers of the groups in a store. On NATS,
// leader.Observe with a bucket is one:
//
//	func(ctx context.Context, group string) iter.Seq2[leader.LeaderInfo, error] {
//		return leader.Observe(ctx, nc, "leaders", group)
//	}
func ObserveStore(st store.Store) Observe {
	return func(ctx context.Context, group string) iter.Seq2[leader.LeaderInfo, error] {
		return leader.ObserveWithStore(ctx, st, group)
	}
}

// BuilderOptions are the settings of a Builder. The zero value is a good one.
type BuilderOptions struct {
	// Address returns where clients reach a leader, as host:port (or
	// unix:path); "" if nowhere. An address without a host, ":8080" or
	// "0.0.0.0:8080", leads nowhere. Default: LeaderInfo.Address.
	Address func(leader.LeaderInfo) string
	// ServiceConfig returns the service config for a leader, as JSON; "" for
	// none. An invalid service config counts as none, with a warning, so that
	// no record keeps clients from their leader. Default:
	// LeaderInfo.ConnectionParams.
	ServiceConfig func(leader.LeaderInfo) string
	// ServerName, optional, returns the name for which a leader's certificate
	// must be good. By default it is the channel's authority, which is the same
	// for all leaders. A program that may write the group's record decides on
	// what this function makes of it.
	ServerName func(leader.LeaderInfo) string
	// Repeatable, optional, reports which methods ("/package.Service/Method")
	// may run twice. A unary call of one is also sent again where it fails with
	// Unavailable, as one does whose connection breaks when the leader crashes.
	// That goes beyond a retryPolicy of the service config, by which gRPC does
	// not repeat a call once a part of the answer has come.
	Repeatable func(fullMethod string) bool
	// RetryFor is how long a unary call is sent again, counted from its
	// beginning, as far as its context allows. Then its last error is returned,
	// or Unavailable if no connection to a leader came about meanwhile. A call
	// that is being served is not cut short. 0 means DefaultRetryFor, and a
	// negative one that nothing is sent again.
	RetryFor time.Duration
	// Logger logs changes and troubles. Nil: silent.
	Logger *slog.Logger
}

// A Builder resolves groups to the addresses of their leaders. All channels of
// one Builder share one observer a group. Its methods may be called
// concurrently.
type Builder struct {
	observe Observe
	opts    BuilderOptions

	mu        sync.Mutex
	followers map[string]*follower
}

var _ resolver.Builder = (*Builder)(nil)

// NewBuilder returns a Builder for grpc.WithResolvers. It observes a group
// while a channel to it is open and not idle. An observer's last report stays
// valid when the observer ends by itself, as it does if its store's connection
// is permanently closed.
func NewBuilder(observe Observe, opts BuilderOptions) *Builder {
	if opts.Address == nil {
		opts.Address = func(l leader.LeaderInfo) string { return l.Address }
	}
	if opts.ServiceConfig == nil {
		opts.ServiceConfig = func(l leader.LeaderInfo) string { return string(l.ConnectionParams) }
	}
	if opts.RetryFor == 0 {
		opts.RetryFor = DefaultRetryFor
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Builder{observe: observe, opts: opts, followers: map[string]*follower{}}
}

// DialOptions returns the options that a channel needs to follow leaders: the
// resolver, the interceptor that sends refused calls again, and the handler
// that reports to the interceptor that a call is sent.
func (b *Builder) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithResolvers(b), grpc.WithChainUnaryInterceptor(b.UnaryClient()), grpc.WithStatsHandler(watcher{}),
	}
}

// Scheme implements resolver.Builder.
func (b *Builder) Scheme() string { return Scheme }

// Build implements resolver.Builder.
func (b *Builder) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	group := target.Endpoint()
	if target.URL.Host != "" || !store.ValidKey(group) {
		return nil, fmt.Errorf("leadergrpc: target %q: must be %s:///GROUP", target.String(), Scheme)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.followers[group]
	if f == nil {
		f = follow(b, group)
		b.followers[group] = f
	}
	c := &channel{cc: cc, follower: f}
	c.leave = func() { b.leave(f, c) }
	f.join(c)
	return c, nil
}

// leave takes a channel from a follower, and ends the follower with the last.
func (b *Builder) leave(f *follower, c *channel) {
	if b.part(f, c) {
		f.end()
		<-f.done
	}
}

// part takes a channel from a follower, and reports whether it was the last.
func (b *Builder) part(f *follower, c *channel) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.part(c) > 0 {
		return false
	}
	delete(b.followers, f.group)
	return true
}

// follower returns the follower of a group, nil if no channel follows it.
func (b *Builder) follower(group string) *follower {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.followers[group]
}

// A channel is one that follows a leader, seen from here.
type channel struct {
	cc       resolver.ClientConn
	follower *follower
	leave    func()
	// placed: its last state had an address.
	placed bool
}

// ResolveNow implements resolver.Resolver. gRPC calls it when it cannot connect
// to an address, or has lost its connection there. There is nothing to hurry,
// since changes are pushed, but a place that a server named is left.
func (c *channel) ResolveNow(resolver.ResolveNowOptions) {
	now, _ := c.follower.present()
	c.follower.expire(now)
}

// Close implements resolver.Resolver. With the last channel to a group it
// returns when the observer has.
func (c *channel) Close() { c.leave() }
