package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/store"
)

// always has each such call of a system fail. A keeper that spins is let go
// after a while, so that the test ends.
func always(which string, err error) func(string) error {
	var n atomic.Int32
	return func(call string) error {
		if call != which || n.Add(1) > 5000 {
			return nil
		}
		return err
	}
}

func TestFailuresOfAFollowerArePaced(t *testing.T) {
	for name, c := range map[string]struct {
		err         error
		first, most int
	}{
		// A look before anybody leads; then a look and an announcement, or two of
		// each: the news of a leader may come when a step has just seen it.
		"others are always ahead":    {discovery.ErrChanged, 8, 200},
		"the system is out of order": {errors.New("503"), 5, 150},
		"the client is closed":       {fmt.Errorf("the client is closing: %w", context.Canceled), 5, 150},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, g := &system{}, newStage(t)
				s.fail(always("announce", c.err))
				f := g.follow("x", s)
				g.stand("a")
				if calls, _ := s.counts(); calls > c.first {
					t.Errorf("%d calls at once", calls)
				}
				pass(time.Minute)
				if calls, _ := s.counts(); calls > c.most || f.count(discovery.Failed) < 15 {
					t.Errorf("%d calls in a minute, %d reports", calls, f.count(discovery.Failed))
				}
				s.fail(nil)
				pass(2 * time.Second)
				demand(t, s, "a")
			})
		})
	}
}

// The entry of another is in its place, and cannot be removed.
func TestFailedRemovalsOfACandidateArePaced(t *testing.T) {
	for name, err := range map[string]error{
		"others are always ahead":    discovery.ErrChanged,
		"the system is out of order": errors.New("503"),
		"the client is closed":       fmt.Errorf("the client is closing: %w", context.Canceled),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, g := &system{}, newStage(t)
				s.fail(always("withdraw", err))
				b := g.join("b", s)
				if err := b.Pause(t.Context(), "maintenance"); err != nil {
					t.Fatal(err)
				}
				s.tamper(discovery.Entry{Group: "reports", Instance: "z", Term: 0, Correlation: "z"})
				pass(time.Minute)
				if calls, _ := s.counts(); calls > 300 || b.count(discovery.Failed) < 2 {
					t.Errorf("%d calls in a minute, %d reports", calls, b.count(discovery.Failed))
				}
				s.fail(nil)
				pass(time.Minute)
				demand(t, s, "")
			})
		})
	}
}

// It changes the entry as soon as it is whole.
func TestAFollowerPacesRepairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		g.follow("x", watched{s})
		g.stand("a")
		pass(10 * time.Second)
		_, before := s.counts()
		for range 60_000 {
			if e := s.stands(); e.Address == "192.0.2.1:80" {
				e.Address = "203.0.113.9:666"
				s.tamper(e)
			}
			pass(time.Millisecond)
		}
		if _, after := s.counts(); after-before > 80 {
			t.Errorf("%d repairs in a minute", after-before)
		}
	})
}

// The leader died while the follower was cut off, and so did its successor, of
// which the follower knows nothing. The record that it finds when it is back
// may be of any age.
func TestARecordThatIsFoundAfterAnInterruptionIsNotAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		f := g.follow("x", s)
		a := g.stand("a")
		pass(10 * time.Second)
		demand(t, s, "a")
		g.group.Store("x").CutOff()
		s.tamper(discovery.Entry{}) // another follower removes it
		pass(time.Second)
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		b := g.stand("b")
		pass(2 * lease)
		if !b.IsLeader() {
			t.Fatal("nobody leads")
		}
		b.CutOff()
		pass(time.Hour)
		s.hear()
		g.group.Store("x").Reconnect()
		pass(time.Minute)
		if log := s.hear(); len(log) != 0 {
			t.Errorf("%v", log)
		}
		g.stand("c") // and a living one is heard of
		pass(2 * lease)
		demand(t, s, "c")
		f.stop()
	})
}

// The leader led all the time.
func TestAFollowerThatIsBackAnnouncesWithTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{mortal: true}, newStage(t)
		g.follow("x", mortal{s})
		g.stand("a")
		pass(10 * time.Second)
		g.group.Store("x").CutOff()
		pass(time.Minute)
		demand(t, s, "") // it ran out
		g.group.Store("x").Reconnect()
		pass(3 * time.Second)
		for range 100 {
			demand(t, s, "a")
			pass(100 * time.Millisecond)
		}
	})
}

// A secret store is one that may not be watched, or not be read.
type secret struct {
	store.Store

	watch, read error
}

func (s secret) WatchPattern(_ context.Context, _ string, _ func(store.Entry), present func(error)) (stop func(), err error) {
	if s.watch != nil {
		return nil, s.watch
	}
	present(s.read)
	return func() {}, nil
}

func TestAFollowerReportsThatItCannotObserve(t *testing.T) {
	denied := fmt.Errorf("%w: permission denied", store.ErrPermanent)
	for name, st := range map[string]secret{"watch": {watch: denied}, "read": {read: denied}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, g := &system{}, newStage(t)
				st.Store = g.group.Store("x")
				f := g.followBy(st, s)
				pass(10 * time.Minute)
				if n := f.count(discovery.Failed); n != 1 {
					t.Errorf("%d reports, want one", n)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				if len(f.all) > 0 && (!errors.Is(f.all[0].Err, store.ErrPermanent) || f.all[0].Entry.Group != "reports") {
					t.Errorf("%+v", f.all[0])
				}
			})
		})
	}
}

// The call takes longer than the window, and the term goes on.
func TestACallThatIsTooSlowForTheWindowIsNotReportedAsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		a := g.join("a", deaf{s})
		f := g.follow("x", deaf{s})
		pass(time.Minute)
		for who, e := range map[string]*events{"Keep": &a.events, "Follow": &f.events} {
			e.mu.Lock()
			if len(e.all) == 0 {
				t.Errorf("%s reports nothing", who)
			}
			for _, ev := range e.all {
				if strings.Contains(ev.Err.Error(), "the term is over") {
					t.Errorf("%s: %v", who, ev.Err)
					break
				}
			}
			e.mu.Unlock()
		}
	})
}
