package discovery_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// lease is a lease as others see it: with the drift of clocks.
const lease = ttl * 11 / 10

// A follower is one call of FollowWithStore.
type follower struct {
	events

	t     *testing.T
	end   context.CancelFunc
	ended chan error
}

// stop ends it, and waits for that.
func (f *follower) stop() {
	f.t.Helper()
	f.end()
	if err := <-f.ended; err != nil {
		f.t.Error(err)
	}
	f.ended <- nil
}

// follow follows the group over a separate connection.
func (s *stage) follow(id string, a discovery.Announcer) *follower {
	s.t.Helper()
	return s.followBy(s.group.Store(id), a)
}

func (s *stage) followBy(st store.Store, a discovery.Announcer) *follower {
	s.t.Helper()
	return s.followEvery(0, st, a)
}

// followEvery has a follower look that often.
func (s *stage) followEvery(interval time.Duration, st store.Store, a discovery.Announcer) *follower {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{t: s.t, end: cancel, ended: make(chan error, 1)}
	go func() {
		f.ended <- discovery.FollowWithStore(ctx, st, "reports", a, discovery.Options{Interval: interval, Report: f.note})
	}()
	s.t.Cleanup(f.stop)
	synctest.Wait()
	return f
}

func TestAFollowerAnnouncesTheLeaderThatItObserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		f := g.follow("x", s)
		a := g.stand("a")
		want := discovery.Entry{
			Group: "reports", Instance: "a", Term: a.Term().Number, Correlation: a.Term().Correlation(), Address: "192.0.2.1:80",
			Meta: map[string]string{"zone": "x"},
		}
		if e := s.stands(); !e.Same(want) || e.TTL <= 0 || e.TTL > lease/2 {
			t.Fatalf("%+v is stored, want %+v", e, want)
		}
		b := g.stand("b")
		begun := time.Now()
		g.group.Promote("b")
		synctest.Wait()
		demand(t, s, "b")
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("the entry changed %v after the handover", took)
		}
		pass(time.Minute)
		if _, writes := s.counts(); writes > 3 {
			t.Errorf("%d writes for two leaders", writes)
		}
		if err := errors.Join(a.Stop(), b.Stop()); err != nil {
			t.Fatal(err)
		}
		begun = time.Now()
		synctest.Wait()
		demand(t, s, "")
		if time.Since(begun) != 0 || f.count(discovery.Announced) != 2 {
			t.Errorf("it took %v, and was announced %d times", time.Since(begun), f.count(discovery.Announced))
		}
	})
}

// No other candidate is left: the follower alone removes the entry.
func TestADeadLeadersEntryGoesWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		g.follow("x", s)
		a := g.stand("a")
		pass(10 * time.Second)
		a.CutOff()
		last := a.Status().LastHeartbeat
		pass(time.Until(last.Add(lease)) - time.Millisecond)
		demand(t, s, "a")
		pass(2 * time.Millisecond)
		demand(t, s, "")
	})
}

func TestAFollowerThatIsCutOffRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		f := g.follow("x", s)
		a := g.stand("a")
		pass(10 * time.Second)
		g.group.Store("x").CutOff()
		pass(5 * time.Minute)
		demand(t, s, "a")
		if f.count(discovery.Failed) == 0 {
			t.Error("no event was reported")
		}
		g.group.Store("x").Reconnect()
		pass(time.Minute)
		demand(t, s, "a")
		if n := f.count(discovery.Removed); n != 0 {
			t.Errorf("removed %d times", n)
		}
		// The leader dies while the follower is cut off.
		g.group.Store("x").CutOff()
		a.CutOff()
		pass(time.Minute)
		demand(t, s, "a")
		g.group.Store("x").Reconnect()
		pass(time.Minute)
		demand(t, s, "")
	})
}

// A mute store reports no change, and may answer reads from a replica that is
// behind as far.
type mute struct {
	store.Store

	mute, behind atomic.Bool
	last         atomic.Pointer[store.Entry]
}

func (m *mute) Get(ctx context.Context, key string) (store.Entry, error) {
	if e := m.last.Load(); m.behind.Load() && e != nil {
		return *e, nil
	}
	return m.Store.Get(ctx, key)
}

func (m *mute) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	return m.Store.(store.Watcher).Watch(ctx, keys, func(e store.Entry) { //nolint:forcetypeassert,errcheck // the memory store's is one
		if !m.mute.Load() {
			m.last.Store(&e)
			deliver(e)
		}
	})
}

func TestAFollowerAsksTheStoreBeforeItRemoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		st := &mute{Store: g.group.Store("x")}
		f := g.followBy(st, s)
		g.stand("a")
		pass(10 * time.Second)
		demand(t, s, "a")
		st.mute.Store(true)
		pass(5 * time.Minute)
		demand(t, s, "a")
		if n := f.count(discovery.Removed); n != 0 {
			t.Errorf("removed %d times", n)
		}
	})
}

func TestAFollowerWhoseStoreLagsBehindDisturbsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		st := &mute{Store: g.group.Store("x")}
		f := g.followBy(st, s)
		g.follow("y", s)
		g.stand("a")
		pass(10 * time.Second)
		st.mute.Store(true)
		st.behind.Store(true)
		pass(5 * time.Minute)
		demand(t, s, "a")
		if n := f.count(discovery.Removed); n != 1 {
			t.Errorf("removed %d times, want once", n)
		}
	})
}

func TestARecordThatIsFoundIsAnnouncedWhenItIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		a := g.stand("a")
		pass(500 * time.Millisecond)
		g.follow("x", s)
		demand(t, s, "")
		pass(100 * time.Millisecond)
		demand(t, s, "")
		pass(time.Second)
		demand(t, s, "a")
		// It is dead, and one that begins now cannot know since when.
		term := a.Term().Number
		a.CutOff()
		pass(ttl)
		g.follow("y", s)
		pass(time.Second)
		demand(t, s, "")
		late := &system{}
		late.tamper(discovery.Entry{Group: "reports", Instance: "a", Term: term + 1, Correlation: "?"})
		g.follow("z", late)
		pass(2 * lease)
		demand(t, late, "a") // of a term of which nothing is known
	})
}

func TestTheEntryOfALeaderThatDiedBeforeIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		a := g.stand("a")
		f := g.follow("x", s)
		pass(2 * time.Second)
		f.stop()
		a.CutOff()
		pass(time.Hour)
		demand(t, s, "a")
		g.follow("y", s)
		pass(lease - time.Millisecond)
		demand(t, s, "a")
		pass(2 * time.Millisecond)
		demand(t, s, "")
	})
}

// The leader withdraws when its trust window closes, which is before its lease
// has run out for others.
func TestAFollowerDoesNotUndoTheLeadersWithdrawal(t *testing.T) {
	for name, remember := range map[string]bool{"the system remembers": true, "it forgets": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, g := &system{remember: remember}, newStage(t)
				a := g.join("a", watched{s})
				g.follow("x", watched{s})
				pass(10 * time.Second)
				a.CutOff()
				pass(time.Until(a.TrustUntil()) + time.Millisecond)
				demand(t, s, "")
				s.hear()
				pass(lease)
				if log := s.hear(); len(log) != 0 {
					t.Errorf("%v", log)
				}
			})
		})
	}
}

// The leader has left, and the follower has not heard of it.
func TestAFollowerAnnouncesNoneThatRenewsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		st := &mute{Store: g.group.Store("x")}
		a := g.join("a", watched{s})
		g.followBy(st, watched{s})
		pass(10 * time.Second)
		st.mute.Store(true)
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		demand(t, s, "")
		s.hear()
		pass(time.Minute)
		if log := s.hear(); len(log) != 0 {
			t.Errorf("%v", log)
		}
	})
}

func TestAFollowerProlongsNothingBeyondTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{mortal: true}, newStage(t)
		g.follow("x", mortal{s})
		a := g.stand("a")
		pass(10 * time.Second)
		a.CutOff()
		end := a.Status().LastHeartbeat.Add(lease)
		pass(time.Until(end) - time.Millisecond)
		s.fail(func(string) error { return errors.New("no route to host") })
		pass(2 * time.Millisecond)
		demand(t, s, "")
	})
}

func TestAFollowerRepairsWithTheNextRenewal(t *testing.T) {
	for name, tamper := range tampering() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, g := &system{}, newStage(t)
				f := g.follow("x", watched{s})
				g.stand("a")
				pass(10 * time.Second)
				before := s.stands()
				tamper(s)
				pass(2200 * time.Millisecond) // a look, and a renewal
				if e := s.stands(); !e.Same(before) || s.damaged {
					t.Errorf("%+v is stored, want %+v", e, before)
				}
				if f.count(discovery.Repaired) != 1 {
					t.Error("not reported")
				}
			})
		})
	}
}

func TestTheWriterOfAnExpiringEntryRefreshesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{mortal: true}, newStage(t)
		x, y := g.follow("x", watchedMortal{mortal{s}}), g.follow("y", watchedMortal{mortal{s}})
		a := g.stand("a")
		for range 100 {
			pass(100 * time.Millisecond)
			demand(t, s, "a")
		}
		if n := x.count(discovery.Announced) + y.count(discovery.Announced); n != 1 {
			t.Errorf("announced %d times", n)
		}
		owner, other := x, y
		if y.count(discovery.Announced) == 1 {
			owner, other = y, x
		}
		owner.stop()
		pass(lease/2 + lease/3 + 2*time.Second) // it runs out, that is seen, and the leader renews
		demand(t, s, "a")
		if other.count(discovery.Repaired) != 1 {
			t.Error("nobody took over")
		}
		s.hear()
		// From now on nobody is left.
		a.CutOff()
		last := a.Status().LastHeartbeat
		other.stop()
		pass(time.Until(last.Add(lease)))
		demand(t, s, "")
	})
}

// A watchedMortal system has entries that expire, and a watch.
type watchedMortal struct{ mortal }

func (w watchedMortal) Watch(ctx context.Context, group string, changed func()) error {
	return watched{w.system}.Watch(ctx, group, changed)
}

func TestFollowersBesideTheLeadersKeeperWriteNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{mortal: true}, newStage(t)
		g.join("a", mortal{s})
		pass(100 * time.Millisecond)
		own := &system{}
		g.follow("x", counted{mortal{s}, own})
		g.follow("y", counted{mortal{s}, own})
		pass(time.Hour)
		if calls, _ := own.counts(); calls != 0 {
			t.Errorf("%d writes in an hour", calls)
		}
		demand(t, s, "a")
	})
}

// A counted system is one whose writes another counts as calls.
type counted struct {
	mortal

	by *system
}

func (c counted) Announce(ctx context.Context, e discovery.Entry, stands discovery.Standing) error {
	_ = c.by.at("announce")
	return c.mortal.Announce(ctx, e, stands)
}

func (c counted) Refresh(ctx context.Context, e discovery.Entry, stands discovery.Standing) error {
	_ = c.by.at("refresh")
	return c.mortal.Refresh(ctx, e, stands)
}

func TestAFollowerLeavesALaterTermAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{remember: true}, newStage(t)
		f := g.follow("x", s)
		s.tamper(discovery.Entry{Group: "reports", Instance: "z", Term: 1 << 40, Correlation: "z"})
		a := g.stand("a")
		pass(10 * time.Minute)
		demand(t, s, "z")
		if n := f.count(discovery.Superseded); n != 1 {
			t.Errorf("%d reports, want 1", n)
		}
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		demand(t, s, "z")
		if log := s.hear(); !slices.Equal(log, []string{"tamper z"}) {
			t.Errorf("%v", log)
		}
	})
}

// Its bytes reach the system when the term is over and another's entry is
// there.
func TestAFollowersLateWriteReplacesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		late := make(chan struct{})
		s.hold(late)
		g.follow("x", s)
		a := g.stand("a")
		s.hold(nil)
		a.CutOff()
		g.join("b", s)
		pass(2 * ttl)
		demand(t, s, "b")
		s.hear()
		close(late)
		pass(time.Minute)
		if log := s.hear(); len(log) != 0 {
			t.Errorf("written since: %v", log)
		}
	})
}

func TestAFollowersCallEndsWithTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		late := make(chan struct{})
		defer close(late)
		s.hold(late)
		g.follow("x", s)
		a := g.stand("a") // its entry is on its way
		s.hold(nil)
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		b := g.stand("b")
		if !b.IsLeader() {
			t.Fatal("nobody leads")
		}
		demand(t, s, "b") // without a wait for Options.Timeout
	})
}

func TestFollowRefusesWhatItCannotFollow(t *testing.T) {
	st := memstore.New()
	for name, err := range map[string]error{
		"nothing":  discovery.FollowWithStore(t.Context(), nil, "", nil, discovery.Options{Interval: -1, Timeout: -1}),
		"pattern":  discovery.FollowWithStore(t.Context(), st, "a.*", &system{}, discovery.Options{}),
		"control":  discovery.FollowWithStore(t.Context(), st, "_ctl.a", &system{}, discovery.Options{}),
		"no conn":  discovery.Follow(t.Context(), nil, "leaders", "a", &system{}, discovery.Options{}),
		"negative": discovery.FollowWithStore(t.Context(), st, "a", &system{}, discovery.Options{Timeout: -1}),
	} {
		if !errors.Is(err, leader.ErrInvalidConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A leader that finds itself unfit reports it: its term is over although it was
// not asked to end.
func TestAnUnfitLeadersEntryGoesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := &system{}, newStage(t)
		g.follow("x", s)
		fit := new(fitness)
		fit.Store(true)
		cfg := g.group.Config("a")
		cfg.HealthChecker, cfg.HealthCheckInterval = fit, time.Second
		a, err := leader.NewElectionWithStore(g.group.Store("a"), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		demand(t, s, "a")
		fit.Store(false)
		for a.IsLeader() {
			pass(10 * time.Millisecond)
		}
		demand(t, s, "")
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// A record that others overwrote or deleted proves nothing about the leader.
func TestAFollowerMakesNothingOfARecordThatOthersDestroy(t *testing.T) {
	for name, value := range map[string][]byte{"overwritten": []byte("?"), "deleted": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, g := &system{}, newStage(t)
				g.follow("x", s)
				a := g.stand("a")
				pass(10 * time.Second)
				a.CutOff()
				st := g.group.Store("operator")
				e, err := st.Get(t.Context(), "reports")
				if err != nil {
					t.Fatal(err)
				}
				_, err = st.CompareAndSwap(t.Context(), store.Write{Key: "reports", Expected: e.Revision, Value: value, Tombstone: value == nil})
				if err != nil {
					t.Fatal(err)
				}
				pass(2 * lease)
				demand(t, s, "a")
				g.stand("b")
				pass(2 * lease)
				demand(t, s, "b")
			})
		})
	}
}
