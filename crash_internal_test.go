package leader

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// blowUp has the election's goroutine panic in code of ours.
func blowUp(e *election) {
	e.mail.put(letter{wait: &waiter{done: func(machine.State) (bool, error) { panic("boom") }}})
}

// A panic of ours ends the election, and nothing else: first the window, then
// the work, then all the rest. The record is left to expire.
func TestAPanicOfOursEndsTheElectionAndNotTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		var mu sync.Mutex
		var told []string
		tell := func(s string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, s)
		}
		cfg := ElectionConfig{Group: "g", InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second, DeleteOnStop: true}
		cfg.Hooks = Hooks{
			Transition: func(tr Transition) {
				if tr.Reason == ReasonCrashed {
					tell(tr.From + " -> " + tr.To)
				}
			},
			Note: func(n Note) {
				if n.Kind == NotePanic && strings.Contains(n.Text, "boom") && strings.Contains(n.Text, "blowUp") {
					tell("note")
				}
			},
		}
		e := newElection(st, cfg)
		var cause error
		e.OnPromote(func(ctx context.Context, _ string) {
			<-ctx.Done()
			cause = context.Cause(ctx)
		})
		e.OnDemote(func() { tell("demoted") })
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !e.IsLeader() {
			t.Fatalf("%+v", e.Status())
		}
		before, _ := st.Get(t.Context(), "g")
		blowUp(e)
		<-e.Done()
		if e.IsLeader() || e.Status().State != StateStopped || e.Status().Reason != ReasonCrashed {
			t.Errorf("%+v", e.Status())
		}
		if l := (*LossError)(nil); !errors.As(cause, &l) || l.Reason != ReasonCrashed {
			t.Errorf("the context ended by %v", cause)
		}
		for name, err := range map[string]error{"Err": e.Err(), "Stop": e.Stop(), "Alive": e.Alive(t.Context())} {
			if !errors.Is(err, ErrPanicked) || !strings.Contains(err.Error(), "boom") {
				t.Errorf("%s: %v", name, err)
			}
		}
		slices.Sort(told)
		if want := []string{"DEMOTED -> STOPPED", "LEADER -> DEMOTED", "demoted", "note"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		if after, _ := st.Get(t.Context(), "g"); after.Revision != before.Revision {
			t.Errorf("something was written by a broken core: %s", after.Value)
		}
	})
}

// The goroutine may be stuck in a hook while another one of ours panics: the
// window closes at once all the same.
func TestAPanicBesideAStuckGoroutineClosesTheWindowAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stuck := false
		cfg := ElectionConfig{Group: "g", InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second}
		cfg.Hooks.Call = func(c Call) {
			if c.Kind == "renew" && !stuck {
				stuck = true
				<-release
			}
		}
		e := newElection(memstore.New(), cfg)
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(cfg.HeartbeatInterval + time.Millisecond)
		synctest.Wait()
		if !e.IsLeader() || !stuck {
			t.Fatalf("%+v", e.Status())
		}
		e.guard("a goroutine", func() { panic("boom") })
		if e.IsLeader() {
			t.Error("leads")
		}
		close(release)
		<-e.Done()
		if !errors.Is(e.Err(), ErrPanicked) {
			t.Error(e.Err())
		}
	})
}

func TestRunReturnsAPanicOfOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(memstore.New(), ElectionConfig{Group: "g", InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second})
		err := run(t.Context(), e, func(ctx context.Context, _ Term) error {
			blowUp(e)
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, ErrPanicked) {
			t.Errorf("Run: %v", err)
		}
	})
}

// A role whose election has crashed stays, stopped, and says why; it leaves room
// for others, and can be added anew.
func TestARoleThatCrashedSaysSoAndCanBeAddedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := NewRoleManagerWithStore(memstore.New(), RoleManagerConfig{
			MaxRoles: 1,
			Election: ElectionConfig{InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"x", "y"} {
			if err := m.Add(t.Context(), Role{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		crashed, other := "x", "y"
		if !m.Election(crashed).IsLeader() {
			crashed, other = other, crashed
		}
		e := m.seats[crashed].e
		blowUp(e)
		<-e.Done()
		time.Sleep(10 * time.Second)
		if !m.Election(other).IsLeader() {
			t.Errorf("the crashed role takes the room of the other: %+v", m.Roles())
		}
		if s := e.Status(); s.State != StateStopped || s.Reason != ReasonCrashed {
			t.Errorf("%+v", s)
		}
		if err := m.Remove(t.Context(), crashed); !errors.Is(err, ErrPanicked) {
			t.Errorf("Remove: %v", err)
		}
		if err := m.Add(t.Context(), Role{Name: crashed}); err != nil {
			t.Errorf("Add: %v", err)
		}
		blowUp(m.seats[other].e)
		if err := m.Stop(); !errors.Is(err, ErrPanicked) {
			t.Errorf("Stop: %v", err)
		}
	})
}

// The goroutine of the callbacks may be late on a busy machine.
func TestTermThatEndsBeforeItsCallbackIsNeitherPromotedNorDemoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(memstore.New(), ElectionConfig{Group: "g", InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second})
		release := make(chan struct{})
		e.handTerm(func() { <-release }, nil)
		e.OnPromote(func(context.Context, string) { t.Error("promoted") })
		e.OnDemote(func() { t.Error("demoted") })
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !e.IsLeader() {
			t.Fatalf("%+v", e.Status())
		}
		go func() { _ = e.Resign(t.Context()) }()
		synctest.Wait()
		_ = e.StopWithContext(t.Context(), StopOptions{})
		close(release)
		<-e.Done()
	})
}

// An election that has ended by a panic of ours takes no offers any more: a
// leader that leaves would else offer its record to nobody.
func TestACrashedFollowerTakesNoOffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		cfg := ElectionConfig{Group: "g", InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second}
		a := newElection(st, cfg)
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cfg.InstanceID = "b"
		b := newElection(st, cfg)
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(cfg.TTL) // a renewal at least, by which b has seen a leader
		synctest.Wait()
		if b.loop.offers == nil || b.loop.offers.stop == nil {
			t.Fatal("b takes no offers")
		}
		blowUp(b)
		<-b.Done()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := st.Offer(ctx, "g", []byte("x")); !errors.Is(err, store.ErrTransient) {
			t.Errorf("an offer after the crash: %v", err)
		}
		_ = a.Stop()
	})
}

// A probe goes on asking an election that has ended.
func TestNothingPilesUpInAnElectionThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(memstore.New(), ElectionConfig{Group: "g", InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		blowUp(e)
		<-e.Done()
		for range 100 {
			_ = e.Alive(t.Context())
		}
		if n := len(e.mail.letters); n > 10 {
			t.Errorf("%d letters wait", n)
		}
	})
}

// A role whose election has ended by itself is asked of nobody: its leader would
// hand it over to a candidate that is not there.
func TestARoleWhoseElectionHasEndedIsNotAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		config := func(id string) RoleManagerConfig {
			return RoleManagerConfig{
				Election: ElectionConfig{InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: time.Second},
				Spread:   SpreadConfig{Enabled: true, Pace: 1},
			}
		}
		names := []string{"r1", "r2"}
		x, err := NewRoleManagerWithStore(st, config("x"))
		if err != nil {
			t.Fatal(err)
		}
		y, err := NewRoleManagerWithStore(st, config("y"))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if err := errors.Join(x.Add(t.Context(), Role{Name: n}), y.Add(t.Context(), Role{Name: n})); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := y.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, n := range names { // follows both, and asks for neither yet
			e, _ := y.Election(n).(*election)
			blowUp(e)
			<-e.Done()
		}
		terms := map[string]uint64{}
		for _, n := range names {
			terms[n] = x.Election(n).Term().Number
			if terms[n] == 0 {
				t.Fatal("x does not lead ", n)
			}
		}
		time.Sleep(time.Minute)
		for _, n := range names {
			if got := x.Election(n).Term().Number; got != terms[n] {
				t.Errorf("%s: term %d, was %d: it was asked away", n, got, terms[n])
			}
		}
		_ = x.Stop()
		_ = y.Stop()
	})
}

// A program that waits for its resignation is told that nothing was released.
func TestAResignationThatACrashCutsShortSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(memstore.New(), ElectionConfig{Group: "g", InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second})
		e.OnPromote(func(context.Context, string) {})
		release := make(chan struct{})
		e.OnDemote(func() { <-release })
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		resigned := make(chan error, 1)
		go func() { resigned <- e.Resign(t.Context()) }()
		synctest.Wait() // the work drains
		blowUp(e)
		synctest.Wait()
		close(release)
		if err := <-resigned; !errors.Is(err, ErrPanicked) {
			t.Errorf("Resign: %v", err)
		}
		<-e.Done()
	})
}

// Any goroutine may close the window, also between the look at it and the call
// of OnPromote.
func TestATermThatEndsAtItsPromotionIsNotDemotedAlone(t *testing.T) {
	e, g := granted(t, time.Hour, time.Hour)
	promoted, demoted := false, false
	e.OnPromote(func(context.Context, string) { promoted = true })
	e.OnDemote(func() { demoted = true })
	called := make(chan struct{})
	e.mu.Lock() // keeps callPromote between the two
	go func() {
		defer close(called)
		e.callPromote(g)
	}()
	for stacks := make([]byte, 1<<20); !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("promoteCallbacks")); {
		runtime.Gosched()
	}
	g.close(ReasonCrashed)
	e.mu.Unlock()
	<-called
	e.callDemote(g)
	if promoted != demoted {
		t.Errorf("promoted: %v, demoted: %v", promoted, demoted)
	}
}
