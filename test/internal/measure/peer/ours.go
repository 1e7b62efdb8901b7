package peer

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// Ours is this project.
type Ours struct{}

// Name implements [Library].
func (Ours) Name() string { return "leader" }

// Module implements [Library].
func (Ours) Module() string { return "github.com/seed-ff2cb582/leader" }

// Store implements [Library].
func (Ours) Store() Store { return NATS{} }

// Answers implements [Library].
func (Ours) Answers() bool { return true }

// LeaseFor returns a heartbeat of a third of the TTL, which is the most that is
// allowed, and what the documentation shows.
func (Ours) LeaseFor(ttl time.Duration) (Lease, bool) { return Lease{ttl, ttl / 3}, true }

// BeatFor implements [Library].
func (Ours) BeatFor(heartbeat time.Duration) Lease { return Lease{3 * heartbeat, heartbeat} }

// Broadcasts implements [Broadcaster]: the bucket that the lab makes republishes
// each record under this prefix.
func (Ours) Broadcasts() string { return "leader." + Bucket + "." }

// Plain is the same in a bucket that does not republish.
func (Ours) Plain() Library { return plain{} }

// Connect implements [Library].
func (Ours) Connect(address string, opts Options) (Client, error) {
	nc, err := ConnectNATS(address, opts)
	if err != nil {
		return nil, err
	}
	// All elections of the connection share one store, as in a program with
	// many of them.
	st, err := natsstore.New(nc, Bucket, natsstore.Options{Create: &natsstore.BucketConfig{}, WatchWholeBucket: true})
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &OurClient{conn: nc, Bucket: Bucket, Store: st}, nil
}

// OurClient is the client of [Ours].
type OurClient struct {
	Bucket string
	Store  *natsstore.Store // nil: the elections share one by themselves
	conn   *nats.Conn
}

// Close ends the connection.
func (c *OurClient) Close() {
	if c.Store != nil {
		c.Store.Close()
	}
	c.conn.Close()
}

// Join implements [Client].
func (c *OurClient) Join(ctx context.Context, as Candidacy) (Candidate, error) {
	return Enter(ctx, as, OurConfig(c.Bucket, as), func(cfg leader.ElectionConfig) (leader.Election, error) {
		if c.Store != nil {
			return leader.NewElectionWithStore(c.Store, cfg)
		}
		return leader.NewElection(c.conn, cfg)
	})
}

// OurConfig is the configuration of a candidate in a bucket that was made for
// the run on separate servers: there was none before, and other libraries do
// not ask either.
func OurConfig(bucket string, as Candidacy) leader.ElectionConfig {
	return leader.ElectionConfig{
		Bucket: bucket, Group: as.Group, InstanceID: as.ID, TTL: as.Lease.TTL, HeartbeatInterval: as.Lease.Heartbeat, DeleteOnStop: true,
		AcquireGrace: leader.GraceOff,
	}
}

// An OurCandidate is a candidate of [Ours], which keeps the reports of its
// hooks. All measurements use it.
type OurCandidate struct {
	leader.Election
	as   Candidacy
	term atomic.Pointer[context.Context] // of the latest term

	mu      sync.Mutex
	calls   map[string]int
	led     time.Time
	left    time.Time
	reason  leader.Reason
	claimed time.Time
}

// Enter starts a candidate. elect makes its election of the configuration, to
// which Enter adds hooks.
func Enter(ctx context.Context, as Candidacy, cfg leader.ElectionConfig, elect func(leader.ElectionConfig) (leader.Election, error)) (_ *OurCandidate, err error) {
	o := &OurCandidate{as: as, calls: make(map[string]int)}
	cfg.Hooks = leader.Hooks{Transition: o.transition, Call: o.called}
	if o.Election, err = elect(cfg); err != nil {
		return nil, err
	}
	o.OnPromote(o.promoted)
	o.OnDemote(func() {})
	// The candidate outlives the call.
	return o, o.Start(context.WithoutCancel(ctx))
}

func (o *OurCandidate) promoted(ctx context.Context, _ string) {
	o.term.Store(&ctx)
	if o.as.Promoted != nil {
		o.as.Promoted()
	}
}

func (o *OurCandidate) transition(t leader.Transition) {
	o.mu.Lock()
	if t.To == leader.StateLeader {
		o.led = t.At
	}
	if t.From == leader.StateLeader {
		o.left, o.reason = t.At, t.Reason
	}
	o.mu.Unlock()
	o.moved()
}

func (o *OurCandidate) called(c leader.Call) {
	o.mu.Lock()
	o.calls[c.Kind]++
	if c.Kind == "acquire" && c.Outcome == store.OK {
		o.claimed = c.Sent
	}
	o.mu.Unlock()
	if c.Kind == "renew" && c.Outcome == store.OK && o.as.Renewed != nil {
		o.as.Renewed(c.Sent)
	}
	o.moved()
}

func (o *OurCandidate) moved() {
	if o.as.Moved != nil {
		o.as.Moved()
	}
}

// Calls is how many calls of a kind it has made.
func (o *OurCandidate) Calls(kind string) int { return get(o, func() int { return o.calls[kind] }) }

// Led is when it began to lead, latest.
func (o *OurCandidate) Led() time.Time { return get(o, func() time.Time { return o.led }) }

// Left is when it ceased to lead, latest.
func (o *OurCandidate) Left() time.Time { return get(o, func() time.Time { return o.left }) }

// Reason is why it ceased to lead, latest.
func (o *OurCandidate) Reason() leader.Reason {
	return get(o, func() leader.Reason { return o.reason })
}

// Claimed is when its latest claim that was applied left.
func (o *OurCandidate) Claimed() time.Time { return get(o, func() time.Time { return o.claimed }) }

func get[T any](o *OurCandidate, field func() T) T {
	o.mu.Lock()
	defer o.mu.Unlock()
	return field()
}

// ID is its InstanceID.
func (o *OurCandidate) ID() string { return o.as.ID }

// Works implements [Candidate].
func (o *OurCandidate) Works() bool {
	term := o.term.Load()
	return term != nil && (*term).Err() == nil
}

// Follows implements [Candidate].
func (o *OurCandidate) Follows(id string) bool {
	s := o.Status()
	return s.State == leader.StateFollower && s.LeaderID == id
}

// Claims implements [Candidate].
func (o *OurCandidate) Claims() int { return o.Calls("acquire") }

// Stop implements [Candidate].
func (o *OurCandidate) Stop(ctx context.Context) error {
	return o.StopWithContext(ctx, leader.StopOptions{DeleteKey: true, WaitForDemote: true})
}

// ConnectNATS connects as a program does that goes on when its server comes
// back. It serves every library on NATS.
func ConnectNATS(address string, opts Options) (*nats.Conn, error) {
	options := []nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectJitter(0, 0), nats.RetryOnFailedConnect(true),
		nats.IgnoreDiscoveredServers(), // they would go round a proxy
		// The default prints what the faults of this lab provoke.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	if opts.Dial != nil {
		options = append(options, nats.SetCustomDialer(natsDialer(opts.Dial)))
	}
	return nats.Connect(address, options...)
}

// natsDialer is a nats.CustomDialer.
type natsDialer func(ctx context.Context, address string) (net.Conn, error)

func (d natsDialer) Dial(_, address string) (net.Conn, error) {
	return d(context.Background(), address)
}
