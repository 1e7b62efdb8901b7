//go:build kube

package k8sstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/leaderkube"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A relay is a Lease that loops of client-go hand on, by whatever lock.
type relay struct {
	*testing.T
	leading chan string // the candidate that was ordered to lead

	mu     sync.Mutex
	active map[string]bool // whose work has not ended
	beside int             // how often another was ordered to lead beside it
}

// run starts a loop. quit ends it as SIGTERM does, and returns when it has
// ended.
func (r *relay) run(id string, lock resourcelock.Interface, timing leaderkube.Timing, bind func(context.Context) context.Context) (quit func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	work := func(ctx context.Context) {
		r.mu.Lock()
		if len(r.active) > 0 {
			r.beside++
		}
		r.active[id] = true
		r.mu.Unlock()
		r.leading <- id
		<-ctx.Done()
		r.mu.Lock()
		delete(r.active, id)
		r.mu.Unlock()
	}
	if l, ok := lock.(*leaderkube.Lock[resourcelock.LeaderElectionRecord]); ok {
		work = l.Leading(work)
	}
	loop, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true, LeaseDuration: timing.LeaseDuration, RenewDeadline: timing.RenewDeadline, RetryPeriod: timing.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: work, OnStoppedLeading: func() {}},
	})
	if err != nil {
		r.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { loop.Run(bind(ctx)) })
	return func() {
		cancel()
		running.Wait()
	}
}

func (r *relay) led() string {
	r.Helper()
	select {
	case id := <-r.leading:
		return id
	case <-time.After(natslab.Patience):
		r.Fatal("nobody leads")
		return ""
	}
}

// loopOverLeases has loops of client-go hand on a Lease: over elections of this
// library, and, beside it, over client-go's own lock.
func loopOverLeases(t *testing.T, srv *kubelab.Server) {
	namespace := newNamespace(srv)
	const rounds = 10
	// Each leader hands over, so nothing waits for these leases, and a machine
	// that stalls for seconds ends none.
	timing := leaderkube.Timing{LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 500 * time.Millisecond}
	client, err := coordinationclient.NewForConfig(srv.Admin())
	if err != nil {
		t.Fatal(err)
	}
	ours := func(r *relay, id string) func() {
		st := open(r, srv.Admin(), k8sstore.Options{Namespace: namespace})
		lock, err := leaderkube.NewWithStore[resourcelock.LeaderElectionRecord](st, leader.ElectionConfig{
			Group: "ours", InstanceID: id, TTL: 30 * time.Second, HeartbeatInterval: time.Second, AcquireGrace: leader.GraceOff,
		}, leaderkube.Options{Timing: timing})
		if err != nil {
			r.Fatal(err)
		}
		quit := r.run(id, lock, timing, lock.Context)
		return func() {
			quit()
			if err := lock.Close(natslab.Within(r)); err != nil {
				r.Error(err)
			}
		}
	}
	theirs := func(r *relay, id string) func() {
		return r.run(id, &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: "theirs"}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: id},
		}, timing, func(ctx context.Context) context.Context { return ctx })
	}
	for name, join := range map[string]func(*relay, string) func(){"leaderkube": ours, "LeaseLock": theirs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &relay{T: t, leading: make(chan string, 1), active: map[string]bool{}}
			quit := join(r, "0")
			r.led()
			var took []time.Duration
			for i := range rounds {
				next := join(r, fmt.Sprint(i+1))
				// It has heard of the leader, and is at some point between two
				// questions.
				<-time.After(timing.RetryPeriod * 3)
				begun := time.Now()
				quit()
				if id := r.led(); id != fmt.Sprint(i+1) {
					t.Errorf("%s leads", id)
				}
				took, quit = append(took, time.Since(begun)), next
			}
			quit()
			slices.Sort(took)
			t.Logf("%d handovers over a Lease, RetryPeriod %v: p50 %v, longest %v; %d times beside work that had not ended",
				rounds, timing.RetryPeriod, took[rounds/2], took[rounds-1], r.beside)
			if name == "leaderkube" && r.beside > 0 {
				t.Errorf("two worked at once, %d times", r.beside)
			}
		})
	}
}
