package leader

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
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
