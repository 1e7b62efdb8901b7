package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The leader itself may have withdrawn what the system remembers.
func TestAFollowerThatBeginsLateAnnouncesNoneThatWasWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{remember: true}, newStage(t)
		x := g.follow("x", s)
		g.stand("a")
		demand(t, s, "a")
		x.stop()
		pass(500 * time.Millisecond)
		s.tamper(discovery.Entry{})
		g.follow("y", s)
		pass(time.Second) // the first renewal that it hears
		demand(t, s, "")
		pass(time.Second)
		demand(t, s, "a")
	})
}

// Another follower announced it again, and it is gone once more.
func TestAnEntryThatIsGoneTwiceWaitsForARenewalTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		st := &mute{Store: g.group.Store("x")}
		g.followBy(st, watched{s})
		g.stand("a")
		pass(500 * time.Millisecond)
		e := s.stands()
		s.tamper(discovery.Entry{})
		synctest.Wait()
		s.tamper(e)
		pass(time.Second) // a renewal
		st.mute.Store(true)
		s.tamper(discovery.Entry{})
		s.hear()
		pass(lease)
		if log := s.hear(); len(log) != 0 {
			t.Errorf("%v", log)
		}
	})
}

// It looks once an hour, and also receives the renewal.
func TestARemovedEntryComesBackWithTheRenewalItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		g.followEvery(time.Hour, g.group.Store("x"), watched{s})
		g.stand("a")
		pass(10*time.Second + 500*time.Millisecond)
		s.tamper(discovery.Entry{})
		pass(400 * time.Millisecond)
		demand(t, s, "")
		pass(200 * time.Millisecond)
		demand(t, s, "a")
	})
}

func TestALookThatTheWatchAsksForRefreshesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{mortal: true}, newStage(t)
		g.follow("x", watchedMortal{mortal{s}})
		g.stand("a")
		var refreshed atomic.Int32
		s.fail(func(call string) error {
			if call == "refresh" {
				refreshed.Add(1)
			}
			return nil
		})
		for range 100 {
			s.mu.Lock()
			for _, changed := range s.changed {
				changed()
			}
			s.mu.Unlock()
			pass(100 * time.Millisecond)
			demand(t, s, "a")
		}
		if n := refreshed.Load(); n > 10 {
			t.Errorf("%d times in ten seconds", n)
		}
	})
}

func TestIntervalIsShortEnoughForExpiringEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{mortal: true}, newStage(t)
		g.followEvery(time.Hour, g.group.Store("x"), mortal{s})
		g.stand("a")
		for range 100 {
			demand(t, s, "a")
			pass(100 * time.Millisecond)
		}
	})
}

// A record that it finds does not show its age, but it outdates the terms
// before it.
func TestTheEntryOfAnEarlierTermIsRemovedForARecordThatIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		a := g.stand("a")
		pass(500 * time.Millisecond)
		s.tamper(discovery.Entry{Group: "reports", Instance: "z", Term: a.Term().Number - 1, Correlation: "z"})
		g.follow("x", s)
		demand(t, s, "")
	})
}

// Two histories of one store count terms alike.
func TestAnEntryOfTheSameNumberAndAnotherTermIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		a := g.stand("a")
		pass(500 * time.Millisecond)
		s.tamper(discovery.Entry{Group: "reports", Instance: "z", Term: a.Term().Number, Correlation: "z"})
		f := g.follow("x", s)
		pass(time.Minute)
		demand(t, s, "z")
		if n := f.count(discovery.Superseded); n != 1 {
			t.Errorf("%d reports, want 1", n)
		}
	})
}

func TestALaterTermThatWasWithdrawnIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{remember: true}, newStage(t)
		s.tamper(discovery.Entry{Group: "reports", Instance: "z", Term: 1 << 40, Correlation: "z"})
		s.tamper(discovery.Entry{})
		f := g.follow("x", s)
		g.stand("a")
		pass(time.Minute)
		demand(t, s, "")
		if n := f.count(discovery.Superseded); n != 1 {
			t.Errorf("%d reports, want 1", n)
		}
	})
}

// A watching system counts its watches.
type watching struct {
	*system

	n *atomic.Int32
}

func (w watching) Watch(ctx context.Context, group string, changed func()) error {
	w.n.Add(1)
	defer w.n.Add(-1)
	return watched{w.system}.Watch(ctx, group, changed)
}

func TestTheEntryOfALeaderlessGroupIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		var keeps, follows atomic.Int32
		g.follow("x", watching{s, &follows})
		a := g.join("a", watching{s, &keeps})
		if keeps.Load() != 1 || follows.Load() != 1 {
			t.Errorf("%d and %d watches while one leads", keeps.Load(), follows.Load())
		}
		if err := a.Pause(t.Context(), "maintenance"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if keeps.Load() != 0 || follows.Load() != 0 {
			t.Errorf("%d and %d watches while nobody leads", keeps.Load(), follows.Load())
		}
	})
}

// A brittle system's watches report nothing, and break.
type brittle struct {
	*system

	breaks chan struct{}
}

func (b brittle) Watch(ctx context.Context, _ string, _ func()) error {
	select {
	case <-b.breaks:
		return errors.New("the connection was lost")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestMissedChangesAreReadWhenAWatchBreaksAndWhenItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		b := brittle{s, make(chan struct{})}
		g.followEvery(time.Hour, g.group.Store("x"), b)
		g.stand("a")
		pass(10*time.Second + 500*time.Millisecond)
		whole := s.stands()
		spoil := func() {
			e := whole
			e.Address = "203.0.113.9:666"
			s.tamper(e)
		}
		repaired := func(when string) {
			t.Helper()
			if e := s.stands(); !e.Same(whole) {
				t.Errorf("%s: %+v is stored", when, e)
			}
		}
		spoil()
		b.breaks <- struct{}{}
		synctest.Wait()
		repaired("when it breaks")
		pass(time.Minute)
		b.breaks <- struct{}{}
		synctest.Wait()
		spoil() // while nothing watches
		pass(time.Minute)
		repaired("when it is back")
	})
}

func TestARepairThatWasUndoneIsMadeAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		g.follow("x", watched{s})
		g.stand("a")
		pass(10 * time.Second)
		whole := s.stands()
		for range 2 {
			e := whole
			e.Address = "203.0.113.9:666"
			s.tamper(e)
			synctest.Wait()
		}
		pass(300 * time.Millisecond)
		if e := s.stands(); !e.Same(whole) {
			t.Errorf("%+v stands", e)
		}
	})
}

func TestACallGivenUpAtTheEndIsNotAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		f := g.follow("x", deaf{s})
		g.stand("a")
		f.stop()
		if n := f.count(discovery.Failed); n != 0 {
			t.Errorf("%d reports", n)
		}
	})
}

// A troubled store reports when it cannot read the current state.
type troubled struct {
	store.Store

	deliver *func(store.Entry)
	present *func(error)
}

func (s troubled) WatchPattern(_ context.Context, _ string, deliver func(store.Entry), present func(error)) (stop func(), err error) {
	*s.deliver, *s.present = deliver, present
	return func() {}, nil
}

func TestATroubleThatComesAgainIsReportedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		st := troubled{g.group.Store("x"), new(func(store.Entry)), new(func(error))}
		f := g.followBy(st, s)
		g.stand("a")
		denied := fmt.Errorf("%w: permission denied", store.ErrPermanent)
		// The first entry is news of who leads, and the second a renewal.
		for want := 1; want <= 3; want++ {
			for range 3 {
				(*st.present)(denied)
				synctest.Wait()
			}
			if n := f.count(discovery.Failed); n != want {
				t.Errorf("%d reports, want %d", n, want)
			}
			pass(time.Second)
			e, err := st.Get(t.Context(), "reports")
			if err != nil {
				t.Fatal(err)
			}
			(*st.deliver)(e)
			synctest.Wait()
		}
	})
}

// A closable store is one whose connection the test closes.
type closable struct {
	store.Store

	closed *atomic.Bool
	tell   chan func(store.ConnState)
}

func (c closable) ConnState() store.ConnState {
	if c.closed.Load() {
		return store.Closed
	}
	return store.Connected
}

func (c closable) OnConnState(f func(store.ConnState)) (stop func()) {
	c.tell <- f
	return func() {}
}

func TestFollowEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := closable{memstore.New(), new(atomic.Bool), make(chan func(store.ConnState), 8)}
		ended := make(chan error, 1)
		go func() {
			ended <- discovery.FollowWithStore(t.Context(), st, "reports", &system{}, discovery.Options{})
		}()
		synctest.Wait()
		st.closed.Store(true)
		close(st.tell)
		for f := range st.tell {
			f(store.Closed)
		}
		if err := <-ended; !errors.Is(err, leader.ErrConnectionClosed) {
			t.Error(err)
		}
	})
}
