//go:build kube

package k8sstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A swing is one Lease between a candidate of this library and one of an
// unmodified client-go.
type swing struct {
	*testing.T
	name    string
	config  *rest.Config
	opts    k8sstore.Options
	lookout *lookout.Lookout
	ours    atomic.Pointer[leader.Election] // of the latest candidate
	moved   chan struct{}                   // something happened; holds one

	mu       sync.Mutex
	theirs   bool      // client-go leads: from OnStartedLeading to OnStoppedLeading
	since    time.Time // when ours was promoted beside it; else zero
	renewed  time.Time // when client-go began the latest renewal that it knows to be applied; zero: it released, or tried to
	early    int       // promotions of this library within the lease that this gave
	overlaps []time.Duration
	terms    []uint64
}

// theirLease is client-go's LeaseDuration.
const theirLease = time.Second

// A witness is client-go's lock, which reports its writes: note receives the
// start of each renewal that is known to be applied, and the zero time when a
// release begins. client-go itself reports the beginning and the end of its
// lead, either of which may be late, so that these reports cannot show which
// side held the Lease in between.
type witness struct {
	resourcelock.Interface
	note func(renewed time.Time)
}

func (w witness) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return w.write(r, func() error { return w.Interface.Create(ctx, r) })
}

func (w witness) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return w.write(r, func() error { return w.Interface.Update(ctx, r) })
}

// write notes a release when it begins, since it counts as soon as it is
// applied, and a renewal once it is known to be.
func (w witness) write(r resourcelock.LeaderElectionRecord, send func() error) error {
	begun := time.Now()
	if r.HolderIdentity == "" {
		w.note(time.Time{})
	}
	err := send()
	if err == nil && r.HolderIdentity != "" {
		w.note(begun)
	}
	return err
}

func (s *swing) note(renewed time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed = renewed
}

func newSwing(t *testing.T, srv *kubelab.Server, opts k8sstore.Options, name string) *swing {
	t.Helper()
	return &swing{T: t, name: name, config: srv.Admin(), opts: opts, lookout: lookout.Keep(t), moved: make(chan struct{}, 1)}
}

func (s *swing) stir() {
	select {
	case s.moved <- struct{}{}:
	default:
	}
}

func (s *swing) await(what string, cond func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), natslab.Patience)
	defer cancel()
	natslab.Await(ctx, s, what, s.moved, cond, func() string { return "" })
}

func (s *swing) weLead() bool {
	e := s.ours.Load()
	return e != nil && (*e).IsLeader()
}

func (s *swing) theyLead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.theirs
}

// join starts a candidate of this library. end stops it: as a program that is
// shut down, which hands over, or as a program that is permanently cut off.
func (s *swing) join() (end func(release bool)) {
	s.Helper()
	proxy := natslab.NewRelay(s, s.config.Host[len("https://"):])
	st := open(s, kubelab.Through(s.config, proxy.Addr()), s.opts)
	e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
		Group: s.name, InstanceID: "ours", TTL: 800 * time.Millisecond, HeartbeatInterval: 200 * time.Millisecond,
		AcquireGrace: leader.GraceOff, Hooks: leader.Hooks{Transition: s.transition},
	})
	if err != nil {
		s.Fatal(err)
	}
	s.ours.Store(&e)
	s.lookout.Add("ours", e)
	if err := e.Start(context.WithoutCancel(s.Context())); err != nil {
		s.Fatal(err)
	}
	return func(release bool) {
		if !release {
			proxy.Hold(natslab.ToServer, natslab.ToClient)
			s.await("client-go takes over from a silent leader", s.theyLead)
		}
		ctx, cancel := context.WithTimeout(context.Background(), natslab.Patience)
		defer cancel()
		if err := e.StopWithContext(ctx, leader.StopOptions{WaitForDemote: true, DeleteKey: release}); err != nil && release {
			s.Errorf("stopping: %v", err)
		}
		proxy.Resume()
	}
}

// transition compares a promotion of this library with the lease that client-go
// has, and counts the times when client-go still leads beside it.
func (s *swing) transition(t leader.Transition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.To == leader.StateLeader {
		s.terms = append(s.terms, t.Term.Number)
		if since := t.At.Sub(s.renewed); since < theirLease {
			s.early++
			s.Errorf("ours leads %v after client-go began to renew a lease of %v", since, theirLease)
		}
		if s.theirs {
			s.since = time.Now()
		}
	}
	s.stir()
}

// elect starts an unmodified client-go candidate. end stops it: with a release,
// or without one as if it had died.
func (s *swing) elect(release bool) (end func()) {
	s.Helper()
	client, err := coordinationclient.NewForConfig(s.config)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	candidate, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: witness{&resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: s.opts.Namespace, Name: s.name}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: "client-go"},
		}, s.note},
		LeaseDuration: theirLease, RenewDeadline: 700 * time.Millisecond, RetryPeriod: 50 * time.Millisecond, ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { s.took() },
			OnStoppedLeading: s.left,
		},
	})
	if err != nil {
		s.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil { // if the machine stalls it loses its lease, and takes part again
			candidate.Run(ctx)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// took holds client-go's beginning against ours.
func (s *swing) took() {
	if s.weLead() {
		s.Error("client-go has started to lead, and this library still leads")
	}
	s.mu.Lock()
	s.theirs = true
	s.mu.Unlock()
	s.stir()
}

// left measures how long client-go led beside this library, which had waited as
// long as the Lease requires.
func (s *swing) left() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.theirs = false
	if !s.since.IsZero() {
		s.overlaps, s.since = append(s.overlaps, time.Since(s.since)), time.Time{}
	}
	s.stir()
}

var swings = flag.Int("swings", 100, "how often the lead goes to client-go and back")

// client-go's leader election takes a minute and a half to compile, all APIs of
// Kubernetes with it. So these tests have a tag, which make labs gives where
// the server is there.
func TestBesideClientGo(t *testing.T) {
	t.Parallel()
	srv := kubelab.Start(t)
	t.Run("Swings", func(t *testing.T) { t.Parallel(); coexistence(t, srv) })
	t.Run("LateAnswers", func(t *testing.T) { t.Parallel(); lateAnswers(t, srv) })
	t.Run("Loop", func(t *testing.T) { t.Parallel(); loopOverLeases(t, srv) })
}

// coexistence has the lead of some Leases go from ours to client-go and back,
// 100 times in all.
func coexistence(t *testing.T, srv *kubelab.Server) {
	const groups = 5
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	var overlaps []time.Duration
	var early int
	var mu sync.Mutex
	t.Run("Swings", func(t *testing.T) {
		for i := range groups {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				s := newSwing(t, srv, opts, fmt.Sprintf("group-%d", i))
				s.swing(*swings / groups)
				mu.Lock()
				defer mu.Unlock()
				overlaps = append(overlaps, s.overlaps...)
				early += s.early
			})
		}
	})
	var longest time.Duration
	for _, o := range overlaps {
		longest = max(longest, o)
	}
	t.Logf("%d times to client-go and back: ours began within its lease %d times; client-go reported its end after ours had started %d times, by %v at most", *swings, early, len(overlaps), longest)
}

// swing goes to and fro. Each fifth time the leader dies without a word, on
// either side.
func (s *swing) swing(rounds int) {
	end := s.join()
	s.await("ours leads first", s.weLead)
	for i := range rounds {
		dies := i%5 == 4
		resign := s.elect(!dies)
		end(!dies)
		s.await("client-go leads", s.theyLead)
		if s.weLead() {
			s.Error("two lead")
		}
		end = s.join()
		resign()
		s.await("ours leads again", s.weLead)
	}
	end(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 1; i < len(s.terms); i++ {
		if s.terms[i] <= s.terms[i-1] {
			s.Errorf("terms do not grow: %d after %d", s.terms[i], s.terms[i-1])
		}
	}
	if len(s.terms) < rounds {
		s.Errorf("%d terms", len(s.terms))
	}
}

// lateAnswers shows what client-go overlaps by itself. It counts its deadline
// from the answer to a renewal, and others count the lease from the renewal. An
// answer that is late by almost its RenewDeadline has it lead on for up to two
// of them and a RetryPeriod after the renewal was applied, with its usual
// settings 22 s for a lease of 15 s.
//
// A machine that stalls client-go for a lease takes the lead from it, rightly,
// so the scene is set again until client-go holds it through the late answer.
func lateAnswers(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	admin := newKubectl(t, srv, opts.Namespace)
	for scene := range 10 {
		s := newSwing(t, srv, opts, fmt.Sprintf("late-%d", scene))
		if s.lateAnswer(srv, admin) {
			return
		}
	}
	t.Fatal("client-go lost its lease before the late answer, ten times")
}

// lateAnswer plays the scene, and reports whether client-go held the Lease when
// its renewal was applied whose answer came late.
func (s *swing) lateAnswer(srv *kubelab.Server, admin *kubectl) bool {
	direct := s.config
	proxy := natslab.NewRelay(s, srv.Addr)
	s.config = kubelab.Through(direct, proxy.Addr())
	resign := s.elect(false)
	defer resign()
	defer proxy.Resume()
	s.await("client-go leads", s.theyLead)
	s.config = direct
	end := s.join()
	defer end(true)

	proxy.Hold(natslab.ToClient) // the answer to the next renewal
	renewed := admin.get(s.name).ResourceVersion
	var last *coordinationv1.Lease
	natslab.Eventually(s, "client-go renews", func(context.Context) error {
		if last = admin.get(s.name); last.ResourceVersion == renewed {
			return errors.New(renewed)
		}
		return nil
	})
	if holder := last.Spec.HolderIdentity; holder == nil || *holder != "client-go" {
		return false
	}
	<-time.After(600 * time.Millisecond) // the delay of the answer, less than the RenewDeadline of 700 ms
	proxy.Resume()
	<-time.After(20 * time.Millisecond) // it arrives
	proxy.Hold(natslab.ToServer, natslab.ToClient)
	s.await("ours leads", s.weLead)
	if d := admin.get(s.name).Spec.AcquireTime.Sub(last.Spec.RenewTime.Time); d < theirLease {
		s.Errorf("ours claimed %v after client-go renewed a lease of %v", d, theirLease)
	}
	s.await("client-go has stopped", func() bool { return !s.theyLead() })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Logf("with a lease of 1 s, a RenewDeadline of 700 ms, and an answer that came 600 ms late, client-go led on beside ours: %v", s.overlaps)
	return true
}
