package others

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

// clientgo is Kubernetes' k8s.io/client-go/tools/leaderelection, with a
// resource on NATS where it usually has one in Kubernetes' API.
type clientgo struct{}

func (clientgo) Name() string      { return "client-go" }
func (clientgo) Module() string    { return "k8s.io/client-go" }
func (clientgo) Store() peer.Store { return peer.NATS{} }
func (clientgo) Answers() bool     { return true }

// LeaseFor keeps the proportions of the defaults: LeaseDuration 15 s,
// RenewDeadline 10 s, RetryPeriod 2 s. The record states the lease and the time
// of the renewal in whole seconds. So followers see a renewal in a second, the
// others look the same, and with a lease of one second they take it from a
// leader that is alive.
func (clientgo) LeaseFor(ttl time.Duration) (peer.Lease, bool) {
	return peer.Lease{TTL: ttl, Heartbeat: ttl * 2 / 15}, ttl%time.Second == 0 && ttl >= 2*time.Second
}

// BeatFor rounds the lease up to whole seconds.
func (clientgo) BeatFor(heartbeat time.Duration) peer.Lease {
	ttl := heartbeat * 15 / 2
	return peer.Lease{TTL: (ttl + time.Second - 1).Truncate(time.Second), Heartbeat: heartbeat}
}

func (clientgo) Connect(address string, opts peer.Options) (peer.Client, error) {
	klog.SetLogger(logr.Discard()) // each renewal that a fault prevents would be printed
	nc, err := peer.ConnectNATS(address, opts)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &goClient{nc: nc, js: js}, nil
}

type goClient struct {
	nc *nats.Conn
	js jetstream.JetStream

	mu sync.Mutex
	kv jetstream.KeyValue // nil until somebody joined
}

func (c *goClient) Close() { c.nc.Close() }

// bucket opens the bucket, which the lab has made.
func (c *goClient) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.kv == nil {
		c.kv, err = c.js.KeyValue(ctx, peer.Bucket)
	}
	return c.kv, err
}

func (c *goClient) Join(ctx context.Context, as peer.Candidacy) (peer.Candidate, error) {
	kv, err := c.bucket(ctx)
	if err != nil {
		return nil, err
	}
	g := &goCandidate{as: as, gone: make(chan struct{})}
	deadline := as.Lease.TTL * 2 / 3
	g.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &natsLock{
			kv: kv, candidate: g,
			// As resourcelock.NewFromKubeconfig has it.
			timeout: max(deadline/2, time.Second),
		},
		LeaseDuration: as.Lease.TTL, RenewDeadline: deadline, RetryPeriod: as.Lease.Heartbeat,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: g.started, OnStoppedLeading: func() { g.stopped.Store(true) },
		},
	})
	if err != nil {
		return nil, err
	}
	// The candidate outlives the call.
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g.cancel = cancel
	go func() {
		defer close(g.gone)
		g.elector.Run(run)
	}()
	return g, nil
}

// A goCandidate runs its elector once: it ends with the first term, as a
// program of Kubernetes does, which then exits.
type goCandidate struct {
	as      peer.Candidacy
	elector *leaderelection.LeaderElector
	cancel  context.CancelFunc
	gone    chan struct{} // closed when Run has returned

	term    atomic.Pointer[context.Context]
	stopped atomic.Bool
	claims  atomic.Int64
}

func (g *goCandidate) started(ctx context.Context) {
	g.term.Store(&ctx)
	if g.as.Promoted != nil {
		g.as.Promoted()
	}
}

// IsLeader is the elector's answer for as long as it runs; afterwards it stays
// as it was, and a program has ended.
func (g *goCandidate) IsLeader() bool { return g.elector.IsLeader() && !g.stopped.Load() }

func (g *goCandidate) Works() bool {
	term := g.term.Load()
	return term != nil && (*term).Err() == nil && !g.stopped.Load()
}

func (g *goCandidate) Follows(id string) bool { return g.elector.GetLeader() == id }

func (g *goCandidate) Claims() int { return int(g.claims.Load()) }

func (g *goCandidate) Stop(ctx context.Context) error {
	g.cancel()
	select {
	case <-g.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A natsLock is a resourcelock.Interface over one key of a bucket. Like the
// locks of client-go it remembers the version that it read or wrote last, and
// every update is a compare-and-swap on that.
type natsLock struct {
	kv        jetstream.KeyValue
	candidate *goCandidate
	timeout   time.Duration // of each request
	revision  uint64
}

var resource = schema.GroupResource{Group: "coordination.nats.io", Resource: "leases"}

func (l *natsLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	entry, err := l.kv.Get(ctx, l.candidate.as.Group)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil, apierrors.NewNotFound(resource, l.candidate.as.Group)
	}
	if err != nil {
		return nil, nil, err
	}
	var record resourcelock.LeaderElectionRecord
	if err := json.Unmarshal(entry.Value(), &record); err != nil {
		return nil, nil, err
	}
	l.revision = entry.Revision()
	return &record, entry.Value(), nil
}

func (l *natsLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, func(ctx context.Context, value []byte) (uint64, error) {
		return l.kv.Create(ctx, l.candidate.as.Group, value)
	})
}

func (l *natsLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, func(ctx context.Context, value []byte) (uint64, error) {
		return l.kv.Update(ctx, l.candidate.as.Group, value, l.revision)
	})
}

func (l *natsLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord,
	write func(context.Context, []byte) (uint64, error),
) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	value, err := json.Marshal(record)
	if err != nil {
		return err
	}
	g := l.candidate
	renewal := g.elector.IsLeader()
	if !renewal {
		g.claims.Add(1)
	}
	sent := time.Now()
	revision, err := write(ctx, value)
	if errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return apierrors.NewConflict(resource, g.as.Group, err)
	}
	if err != nil {
		return err
	}
	l.revision = revision
	if renewal && record.HolderIdentity != "" && g.as.Renewed != nil {
		g.as.Renewed(sent)
	}
	return nil
}

func (l *natsLock) RecordEvent(string) {}
func (l *natsLock) Identity() string   { return l.candidate.as.ID }
func (l *natsLock) Describe() string   { return peer.Bucket + "/" + l.candidate.as.Group }
