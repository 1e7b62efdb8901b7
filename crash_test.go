package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// blowUp makes the election's goroutine panic in our own code.
func blowUp(e Election) {
	candidate := e.(election).c //nolint:errcheck,forcetypeassert // there is no other
	done, cancel := context.WithCancel(context.Background())
	cancel() // nobody waits for an answer
	_ = candidate.Inspect(done, func(machine.State) { panic("boom") })
}

func TestRunReturnsAnInternalPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElection(memstore.New(), ElectionConfig{Group: "g", InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second}, nil)
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

// A role whose election has crashed stays, stopped, and reports why; it leaves
// room for others, and can be added again.
func TestCrashedRoleReportsItAndCanBeAddedAgain(t *testing.T) {
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
		e := m.Election(crashed)
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
		blowUp(m.Election(other))
		if err := m.Stop(); !errors.Is(err, ErrPanicked) {
			t.Errorf("Stop: %v", err)
		}
	})
}

// A role whose election has ended by itself is asked of nobody: its leader
// would hand it over to a candidate that is not there.
func TestRoleWhoseElectionHasEndedIsNotAskedFor(t *testing.T) {
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
			e := y.Election(n)
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

// A read from before a lease ran out does not show that it did: the request
// itself may have taken as long.
func TestLeaseThatWasNotReadAfterItsEndHasNotRunOut(t *testing.T) {
	now := time.Now()
	state := observed{info: LeaderInfo{Group: "g", ID: "a", Term: 1, Until: now.Add(-time.Second)}, rev: 5, at: now.Add(-time.Minute)}
	w := &handing{h: Handover{Request: Request{Op: OpPause, Group: "g"}}, sent: now}
	w.arrived(state)
	if w.done(now) {
		t.Error("done by an old state")
	}
	state.read = now.Add(-2 * time.Second)
	w.arrived(state)
	if w.done(now) {
		t.Error("done by a read that began while the lease lasted")
	}
	state.read = now
	w.arrived(state)
	if !w.done(now) || w.h.Vacancy.Reason != ReasonExpired {
		t.Errorf("not done by a read after its end: %+v", w.h)
	}
}
