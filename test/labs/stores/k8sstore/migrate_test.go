//go:build kube

package k8sstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/test/internal/roll"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A fifth of the times that client-go's documentation recommends, and a lease
// of this library that they have to wait out for as long: k8sstore writes the
// TTL and a tenth into the Lease, in whole seconds.
const (
	oldLease    = 3 * time.Second
	oldDeadline = 2 * time.Second
	oldRetry    = 400 * time.Millisecond
	newTTL      = 2 * time.Second
	newLease    = 3 * time.Second
)

// A rollout is from client-go's leader election to ours, on one Lease.
type rollout struct {
	*testing.T
	*roll.Judge

	server  *kubelab.Server
	opts    k8sstore.Options
	admin   *kubectl
	release bool // client-go's ReleaseOnCancel
	all     []*roll.Instance
	old     []*oldInstance
	paths   map[*roll.Instance]*natslab.Relay

	mu      sync.Mutex
	beside  int           // how often ours was promoted while client-go's work went on
	longest time.Duration // for how long it went on then
}

// oldGroup is the name of the Lease.
const oldGroup = "group"

// TestRollFromClientGo rolls three instances of an unmodified client-go to this
// library and back, and again, and then cuts off the leader of either side, for
// which the other waits. It fails if two worked at one instant, one of this
// library and the other by a lease that it holds. docs/guides/migrating/client-go.md
// contains its output.
func TestRollFromClientGo(t *testing.T) {
	t.Parallel()
	srv := kubelab.Start(t)
	load(t, srv)
	for name, release := range map[string]bool{"ReleaseOnCancel": true, "no ReleaseOnCancel": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := k8sstore.Options{Namespace: newNamespace(srv)}
			m := &rollout{
				T: t, Judge: roll.Keep(t), server: srv, opts: opts, admin: newKubectl(t, srv, opts.Namespace),
				release: release, paths: map[*roll.Instance]*natslab.Relay{},
			}
			m.toAndFro()
		})
	}
}

func (m *rollout) toAndFro() {
	all := []*roll.Instance{m.theirs("a"), m.theirs("b"), m.theirs("c")}
	m.Await("client-go leads", all...)
	m.Idle()
	for _, step := range []struct {
		what  string
		start func(string) *roll.Instance
		mixed time.Duration // for how long the last to be replaced leads beside the others' successors
	}{
		{"to ours", m.ours, 11 * oldLease / 10}, {"back to client-go", m.theirs, newLease}, {"to ours again", m.ours, 0},
	} {
		all = m.Replace(all, m.late(step.start), roll.Hooks{Mixed: func() { m.renewed(step.mixed) }})
		m.Await(step.what, all...)
		m.Logf("%s: nobody led for %v", step.what, m.Idle())
	}
	all = m.cutOff(all, m.theirs)
	m.Logf("our leader cut off: nobody led for %v", m.Idle())
	m.cutOff(all, m.ours)
	m.Logf("client-go's leader cut off: nobody had the Lease for %v", m.Idle())

	natslab.Eventually(m, "client-go's work ends that was cut off", func(context.Context) error {
		for _, o := range m.old {
			if o.working() {
				return errors.New(o.Name + " works")
			}
		}
		return nil
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Logf("this library led beside a lease of client-go 0 times, and %d times when client-go's work went on after the end of its own lease, for %v at most", m.beside, m.longest.Round(time.Millisecond))
}

// late starts an instance when another leads, as if it took its time. So the
// time without a leader is measured for candidates that already wait, and not
// until the first try of a new one.
func (m *rollout) late(start func(string) *roll.Instance) func(string) *roll.Instance {
	return func(name string) *roll.Instance {
		m.Await("one that is there leads", m.all...)
		return start(name)
	}
}

// renewed waits until the leader has led for this long, by the Lease's
// renewals, and so candidates that ignore renewals would have succeeded it.
func (m *rollout) renewed(d time.Duration) {
	var first time.Time
	natslab.Eventually(m, "the leader renews", func(context.Context) error {
		at := m.admin.get(oldGroup).Spec.RenewTime
		switch {
		case at == nil:
			return errors.New("never renewed")
		case first.IsZero():
			first = at.Time
		case at.Sub(first) > d:
			return nil
		}
		return errors.New("not for long enough")
	})
}

// cutOff takes the network from the leader, for which instances wait that start
// starts in the others' place. It returns those, one of which leads.
func (m *rollout) cutOff(all []*roll.Instance, start func(string) *roll.Instance) (others []*roll.Instance) {
	for _, i := range all {
		if !i.Works() {
			i.Stop()
			others = append(others, start(fmt.Sprintf("%d", len(m.all))))
		}
	}
	m.renewed(0) // they can have heard of it
	leads := m.Await("one leads that is left", all...)
	m.paths[leads].Hold(natslab.ToServer, natslab.ToClient)
	m.Await("another leads after "+leads.Name+" was cut off", others...)
	m.Cleanup(m.paths[leads].Resume) // before it is stopped, which a later cleanup would be too late for
	return others
}

func (m *rollout) add(i *roll.Instance, path *natslab.Relay) *roll.Instance {
	m.all, m.paths[i] = append(m.all, i), path
	return i
}

// ours starts an instance that elects by this library.
func (m *rollout) ours(name string) *roll.Instance {
	path := natslab.NewRelay(m, m.server.Addr)
	e, err := leader.NewElectionWithStore(open(m, kubelab.Through(m.server.Admin(), path.Addr()), m.opts), leader.ElectionConfig{
		Group: oldGroup, InstanceID: name, TTL: newTTL, HeartbeatInterval: newTTL / 4,
		Hooks: leader.Hooks{Transition: func(t leader.Transition) {
			if t.To == leader.StateLeader {
				m.promoted()
			}
			m.Look()
		}},
	})
	if err != nil {
		m.Fatal(err)
	}
	return m.add(m.Ours(e, name), path)
}

// promoted notes who of client-go's works on.
func (m *rollout) promoted() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.old {
		if o.working() {
			m.beside++
			o.beside(time.Now())
		}
	}
}

// An oldInstance is a process that elects by an unmodified client-go. It is
// judged by the lease that it has: what it does when that is over is its own
// affair, and is measured.
type oldInstance struct {
	*roll.Instance

	mu      sync.Mutex
	works   bool      // from OnStartedLeading until the context that this got ends
	renewed time.Time // when it began the latest renewal that it knows to be applied; zero: it released, or tried to
	stint   uint64    // counts the times without a break that it had the Lease
	since   time.Time // when ours was promoted while it worked; else zero
}

// note hears of its writes.
func (o *oldInstance) note(renewed time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if renewed.Sub(o.renewed) >= oldLease { // the one of before was over, or this is the first
		o.stint++
	}
	o.renewed = renewed
}

// lawful is the stint that it is in: it works, and its lease lasts.
func (o *oldInstance) lawful() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.works || time.Since(o.renewed) >= oldLease {
		return 0
	}
	return o.stint
}

func (o *oldInstance) working() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.works
}

func (o *oldInstance) beside(since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = since
}

// took handles client-go's report that it leads. The report comes from a
// separate goroutine, and so may come after the report that it does not.
func (o *oldInstance) took(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.works = ctx.Err() == nil
}

// left returns for how long it worked beside ours.
func (o *oldInstance) left() (beside time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.works = false
	if !o.since.IsZero() {
		beside, o.since = time.Since(o.since), time.Time{}
	}
	return beside
}

// theirs starts an instance as before.
func (m *rollout) theirs(name string) *roll.Instance {
	path := natslab.NewRelay(m, m.server.Addr)
	client, err := coordinationclient.NewForConfig(kubelab.Through(m.server.Admin(), path.Addr()))
	if err != nil {
		m.Fatal(err)
	}
	o := &oldInstance{}
	loop, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: witness{&resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: m.opts.Namespace, Name: oldGroup}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}, o.note},
		LeaseDuration: oldLease, RenewDeadline: oldDeadline, RetryPeriod: oldRetry, ReleaseOnCancel: m.release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				o.took(ctx)
				m.Look()
			},
			OnStoppedLeading: func() {
				beside := o.left()
				m.mu.Lock()
				defer m.mu.Unlock()
				m.longest = max(m.longest, beside)
			},
		},
	})
	if err != nil {
		m.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(m.Context()))
	var running sync.WaitGroup
	o.Instance = &roll.Instance{Name: name, Stint: o.lawful, Stop: func() {
		cancel()
		running.Wait()
	}}
	m.mu.Lock()
	m.old = append(m.old, o)
	m.mu.Unlock()
	m.Add(o.Instance)
	running.Go(func() {
		for ctx.Err() == nil { // if the machine stalls it loses its lease, and takes part again
			loop.Run(ctx)
		}
	})
	m.Cleanup(o.Stop)
	return m.add(o.Instance, path)
}

// load changes other Leases meanwhile, two hundred times a second where the
// server can. Each change waits for the one before, so that a busy machine has
// less to do and no pile of it.
func load(t *testing.T, srv *kubelab.Server) {
	const writers = 8
	client, err := coordinationclient.NewForConfig(srv.Admin())
	if err != nil {
		t.Fatal(err)
	}
	leases := client.Leases(newNamespace(srv))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	var writes atomic.Int64
	begun := time.Now()
	for i := range writers {
		name := fmt.Sprintf("load-%d", i)
		if _, err := leases.Create(natslab.Within(t), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			tick := time.NewTicker(writers * 5 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				change := fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, n)
				if _, err := leases.Patch(ctx, name, types.MergePatchType, []byte(change), metav1.PatchOptions{}); err == nil {
					writes.Add(1) // what matters is that there is something to do
				}
				<-tick.C
			}
		})
	}
	t.Cleanup(func() {
		took := time.Since(begun)
		cancel()
		running.Wait()
		t.Logf("beside it %.0f writes a second", float64(writes.Load())/took.Seconds())
	})
}
