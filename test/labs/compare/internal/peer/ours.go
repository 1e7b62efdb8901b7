package peer

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// ours is this project.
type ours struct{}

func (ours) Name() string   { return "leader" }
func (ours) Module() string { return "github.com/seed-ff2cb582/leader" }
func (ours) Store() Kind    { return NATS }
func (ours) Answers() bool  { return true }

// A heartbeat of a third of the TTL is the most that is allowed, and what the
// documentation shows.
func (ours) LeaseFor(ttl time.Duration) (Lease, bool) { return Lease{ttl, ttl / 3}, true }
func (ours) BeatFor(heartbeat time.Duration) Lease    { return Lease{3 * heartbeat, heartbeat} }

// Broadcasts: the bucket that the lab makes republishes each record under this
// prefix.
func (ours) Broadcasts() string { return "leader." + Bucket + "." }

// Plain is the same in a bucket that does not republish.
func (ours) Plain() Library { return plain{} }

func (ours) Connect(address string, opts Options) (Client, error) {
	nc, err := connectNATS(address, opts)
	if err != nil {
		return nil, err
	}
	// One store for all elections of the connection, as a program with many of
	// them has it.
	st, err := natsstore.New(nc, Bucket, natsstore.Options{Create: &natsstore.BucketConfig{}, WatchWholeBucket: true})
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &ourClient{nc: nc, bucket: Bucket, store: st}, nil
}

type ourClient struct {
	nc     *nats.Conn
	bucket string
	store  *natsstore.Store // nil: the elections share one by themselves
}

func (c *ourClient) Close() {
	if c.store != nil {
		c.store.Close()
	}
	c.nc.Close()
}

func (c *ourClient) Join(ctx context.Context, as Candidacy) (Candidate, error) {
	o := &ourCandidate{as: as}
	cfg := leader.ElectionConfig{
		Bucket: c.bucket, Group: as.Group, InstanceID: as.ID, TTL: as.Lease.TTL, HeartbeatInterval: as.Lease.Heartbeat, DeleteOnStop: true,
		Hooks: leader.Hooks{Call: o.called},
		// The site has made the bucket on servers of its own: there was none
		// before, and the others do not ask either.
		AcquireGrace: leader.GraceOff,
	}
	var err error
	if c.store != nil {
		o.Election, err = leader.NewElectionWithStore(c.store, cfg)
	} else {
		o.Election, err = leader.NewElection(c.nc, cfg)
	}
	if err != nil {
		return nil, err
	}
	o.OnPromote(o.promoted)
	o.OnDemote(func() {})
	// The candidate outlives the call.
	return o, o.Start(context.WithoutCancel(ctx))
}

type ourCandidate struct {
	leader.Election
	as     Candidacy
	term   atomic.Pointer[context.Context] // of the latest term
	claims atomic.Int64
}

func (o *ourCandidate) promoted(ctx context.Context, _ string) {
	o.term.Store(&ctx)
	if o.as.Promoted != nil {
		o.as.Promoted()
	}
}

func (o *ourCandidate) called(c leader.Call) {
	switch c.Kind {
	case "acquire":
		o.claims.Add(1)
	case "renew":
		if c.Outcome == store.OK && o.as.Renewed != nil {
			o.as.Renewed(c.Sent)
		}
	}
}

func (o *ourCandidate) Works() bool {
	term := o.term.Load()
	return term != nil && (*term).Err() == nil
}

func (o *ourCandidate) Follows(id string) bool {
	s := o.Status()
	return s.State == leader.StateFollower && s.LeaderID == id
}

func (o *ourCandidate) Claims() int { return int(o.claims.Load()) }

func (o *ourCandidate) Stop(ctx context.Context) error {
	return o.StopWithContext(ctx, leader.StopOptions{DeleteKey: true, WaitForDemote: true})
}

// connectNATS connects as a program does that goes on when its server comes
// back. It serves every library on NATS.
func connectNATS(address string, opts Options) (*nats.Conn, error) {
	options := []nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectJitter(0, 0), nats.RetryOnFailedConnect(true),
		// The default prints what the faults of this lab provoke.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	if opts.Dial != nil {
		options = append(options, nats.SetCustomDialer(natsDialer(opts.Dial)))
	}
	return nats.Connect("nats://"+address, options...)
}

// natsDialer is a nats.CustomDialer.
type natsDialer func(ctx context.Context, address string) (net.Conn, error)

func (d natsDialer) Dial(_, address string) (net.Conn, error) {
	return d(context.Background(), address)
}
