package leader_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A stalling is a follower whose election can be made to stand still, as that
// of a process that gets no processor.
type stalling struct {
	*memstore.Store

	e      leader.Election
	writes atomic.Int32  // to the group's record
	gate   chan struct{} // nil: it does not stand still
}

func (s *stalling) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if w.Key == "g" {
		s.writes.Add(1)
	}
	return s.Store.CompareAndSwap(ctx, w)
}

// Watch tells those that do not stand still of the control record a little after
// the record.
func (s *stalling) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	return s.Store.Watch(ctx, keys, func(e store.Entry) {
		if e.Key != "g" && s.gate == nil {
			time.Sleep(jitter)
		}
		deliver(e)
	})
}

func stallingFollower(t *testing.T, shared *memstore.Store) *stalling {
	t.Helper()
	s := &stalling{Store: shared, gate: make(chan struct{})}
	cfg := config("b")
	cfg.Hooks.Note = func(n leader.Note) {
		if n.Kind == leader.NoteBadToken {
			<-s.gate
		}
	}
	s.e = start(t, s, cfg)
	mustBe(t, s.e, leader.StateFollower)
	return s
}

// during has the election stand still while f runs, and waits until it has
// taken in what has come meanwhile.
func (s *stalling) during(t *testing.T, f func()) {
	t.Helper()
	if err := s.e.ValidateToken(t.Context()); !errors.Is(err, leader.ErrNotLeader) {
		t.Fatal(err)
	}
	synctest.Wait() // the hook that is told of that stands still
	f()
	s.gate <- struct{}{}
	synctest.Wait()
}

// When a process goes on that stood still for longer than a lease, a challenge
// is due, and the renewals that say otherwise have arrived. Those come first,
// whichever of the two woke it.
func TestWhoStoodStillHearsTheRenewalsBeforeItChallenges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		a := start(t, shared, config("a"))
		b := stallingFollower(t, shared)
		for range 20 { // chance decides what wakes it
			b.during(t, func() { time.Sleep(2 * wait) })
			mustLead(t, a, b.e)
		}
		if n := b.writes.Load(); n > 0 {
			t.Errorf("a record that was renewed was challenged %d times", n)
		}
	})
}

// Who hears of a vacancy and of the pause that led to it at once does not
// campaign for the group.
func TestWhoStoodStillHearsOfAPauseBeforeItClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		a := start(t, shared, config("a"))
		time.Sleep(2 * heartbeat) // who starts later has met no race, and claims a vacancy at once
		b := stallingFollower(t, shared)
		b.during(t, func() {
			if err := a.Pause(t.Context(), "upgrade"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if e, _ := stored(t, shared); !e.Tombstone {
				t.Errorf("the leader has not left: %+v", e)
			}
		})
		if n := b.writes.Load(); n > 0 {
			t.Errorf("a group that is paused was campaigned for by %d writes", n)
		}
		if err := a.Resume(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(heartbeat)
		if !a.IsLeader() && !b.e.IsLeader() {
			t.Error("nobody leads after the pause")
		}
	})
}

// The first word of the control record may be that of a pause. Nobody campaigns
// between hearing of it and obeying it.
func TestWhoStartsInAPausedGroupWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		put(t, shared, record.ControlKey("g"), record.Control{Paused: &record.Pause{By: "ops"}})
		b := &stalling{Store: shared}
		b.e = start(t, b, config("b"))
		time.Sleep(2 * ttl)
		if n := b.writes.Load(); n > 0 || b.e.Status().Barred != leader.ReasonPaused {
			t.Errorf("%d writes: %v", n, status(b.e))
		}
	})
}
