package others

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderkube"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/measure/peer"
)

// Bridges returns client-go's loop over elections of this project: with the
// contexts of the lock, as its documentation has it, and with the lock alone,
// as a program has that was not changed otherwise. They are measured on demand,
// and are in no table of the comparison.
func Bridges() []peer.Library { return []peer.Library{kube{bound: true}, kube{}} }

// kube is client-go's unmodified leader election with a lock of package
// leaderkube.
type kube struct{ bound bool }

func (k kube) Name() string {
	if k.bound {
		return "leaderkube"
	}
	return "leaderkube, the lock alone"
}

func (kube) Module() string                                { return "k8s.io/client-go" }
func (kube) Store() peer.Store                             { return peer.NATS{} }
func (kube) Answers() bool                                 { return true }
func (kube) LeaseFor(ttl time.Duration) (peer.Lease, bool) { return peer.Ours{}.LeaseFor(ttl) }
func (kube) BeatFor(heartbeat time.Duration) peer.Lease    { return peer.Ours{}.BeatFor(heartbeat) }
func (kube) Broadcasts() string                            { return peer.Ours{}.Broadcasts() }

func (k kube) Connect(address string, opts peer.Options) (peer.Client, error) {
	klog.SetLogger(logr.Discard())
	c, err := peer.Ours{}.Connect(address, opts)
	if err != nil {
		return nil, err
	}
	under, _ := c.(*peer.OurClient) // it is what ours makes
	return &kubeClient{under, k.bound}, nil
}

type kubeClient struct {
	*peer.OurClient

	bound bool
}

func (c *kubeClient) Join(ctx context.Context, as peer.Candidacy) (peer.Candidate, error) {
	k := &kubeCandidate{as: as, gone: make(chan struct{})}
	cfg := leader.ElectionConfig{
		Bucket: c.Bucket, Group: as.Group, InstanceID: as.ID, TTL: as.Lease.TTL, HeartbeatInterval: as.Lease.Heartbeat,
		Hooks: leader.Hooks{Call: k.called}, AcquireGrace: leader.GraceOff,
	}
	timing := leaderkube.TimingFor(cfg)
	var err error
	k.lock, err = leaderkube.NewWithStore[resourcelock.LeaderElectionRecord](c.Store, cfg, leaderkube.Options{Timing: timing})
	if err != nil {
		return nil, err
	}
	// The candidate outlives the call.
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k.cancel = cancel
	started := k.started
	if c.bound {
		run, started = k.lock.Context(run), k.lock.Leading(k.started)
	}
	k.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: k.lock, LeaseDuration: timing.LeaseDuration, RenewDeadline: timing.RenewDeadline, RetryPeriod: timing.RetryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: started, OnStoppedLeading: func() { k.stopped.Store(true) }},
	})
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		defer close(k.gone)
		k.elector.Run(run)
	}()
	return k, nil
}

// A kubeCandidate runs its loop once, as a program of Kubernetes does, which
// then exits.
type kubeCandidate struct {
	as      peer.Candidacy
	lock    *leaderkube.Lock[resourcelock.LeaderElectionRecord]
	elector *leaderelection.LeaderElector
	cancel  context.CancelFunc
	gone    chan struct{} // closed when Run has returned

	term    atomic.Pointer[context.Context]
	stopped atomic.Bool
	claims  atomic.Int64
}

func (k *kubeCandidate) started(ctx context.Context) {
	k.term.Store(&ctx)
	if k.as.Promoted != nil {
		k.as.Promoted()
	}
	<-ctx.Done() // as work does
}

func (k *kubeCandidate) called(c leader.Call) {
	switch c.Kind {
	case "acquire":
		k.claims.Add(1)
	case "renew":
		if c.Outcome == store.OK && k.as.Renewed != nil {
			k.as.Renewed(c.Sent)
		}
	}
}

func (k *kubeCandidate) IsLeader() bool { return k.lock.IsLeader() }

func (k *kubeCandidate) Works() bool {
	term := k.term.Load()
	return term != nil && (*term).Err() == nil && !k.stopped.Load()
}

func (k *kubeCandidate) Follows(id string) bool { return k.elector.GetLeader() == id }

func (k *kubeCandidate) Claims() int { return int(k.claims.Load()) }

func (k *kubeCandidate) Stop(ctx context.Context) error {
	k.cancel()
	select {
	case <-k.gone:
		return k.lock.Close(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}
