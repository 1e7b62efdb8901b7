package leader_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func TestALeaderInfoReadsAsASentence(t *testing.T) {
	for want, info := range map[string]leader.LeaderInfo{
		`"a" leads group "g" in term 7`:                         {Group: "g", ID: "a", Term: 7, Correlation: "0a"},
		`nobody leads group "g": absent`:                        {Group: "g", Reason: leader.ReasonAbsent},
		`nobody leads group "g": unknown`:                       {Group: "g"},
		`nobody leads group "g": stopped, after term 7, by "a"`: {Group: "g", Term: 7, Reason: leader.ReasonStopped, By: "a"},
		`nobody leads group "g": transferred, after term 7, by "ops" (upgrade), for "b" to take over`: {
			Group: "g", Term: 7, Reason: leader.ReasonTransferred, By: "ops", Why: "upgrade", Successor: "b",
		},
		// Every user who may write the record chooses the words.
		`nobody leads group "g": "\x1b[2J", by "ops" ("a\nb")`: {Group: "g", Reason: "\x1b[2J", By: "ops", Why: "a\nb"},
	} {
		if got := info.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestStatusTellsWhatIsKnownInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, begun := memstore.New(), time.Now()
		cfg := config("a")
		cfg.DemoteTimeout, cfg.Address = time.Minute, "10.0.0.1:80"
		a := candidate(t, st, cfg)
		a.OnDemote(func() { time.Sleep(time.Second) })
		demand := func(e leader.Election, want leader.ElectionStatus) {
			t.Helper()
			synctest.Wait()
			want.ConnectionStatus = "CONNECTED"
			if e == a {
				want.Address = cfg.Address
			}
			if got := e.Status(); got != want {
				t.Fatalf("%+v, want\n%+v", got, want)
			}
		}
		demand(a, leader.ElectionStatus{State: leader.StateInit, LastTransition: begun})
		started(t, a)
		time.Sleep(heartbeat + 1)
		_, r := stored(t, st)
		demand(a, leader.ElectionStatus{
			State: leader.StateLeader, IsLeader: true, LeaderID: "a", LeaderTerm: 1, Token: r.Token, Term: 1, TrustUntil: begun.Add(heartbeat + trust),
			LastHeartbeat: begun.Add(heartbeat), LastTransition: begun, Reason: leader.ReasonAbsent, Revision: 2,
			Acquired: begun.UTC(), Renewed: begun.Add(heartbeat).UTC(),
		})
		b := start(t, st, config("b"))
		follows := leader.ElectionStatus{
			State: leader.StateFollower, LeaderID: "a", LeaderTerm: 1, LastTransition: time.Now(), Reason: leader.ReasonFollow,
			Acquired: begun.UTC(), Renewed: begun.Add(heartbeat).UTC(),
		}
		demand(b, follows)
		go func() { _ = a.Stop() }()
		demand(a, leader.ElectionStatus{
			State: leader.StateDemoted, LastTransition: time.Now(), Reason: leader.ReasonStopped, Acquired: follows.Acquired, Renewed: follows.Renewed,
		})
		demand(b, follows)
		time.Sleep(time.Second)
		claimed := time.Now().UTC().Truncate(time.Millisecond)
		demand(a, leader.ElectionStatus{
			State: leader.StateStopped, LeaderID: "b", LeaderTerm: 4, Transitions: 1, LastTransition: time.Now(), Reason: leader.ReasonStopped,
			Acquired: claimed, Renewed: claimed,
		})
		mustLead(t, b, a)
		if s := b.Status(); s.Term <= 1 || s.Reason != leader.ReasonOffered || s.Token == r.Token {
			t.Errorf("%+v", s)
		}
	})
}

func TestLeaderIDGoesEmptyWhenTheLeaseIsSeenExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a, b := start(t, f.Client("a"), config("a")), start(t, f.Client("b"), config("b"))
		f.BlackHole("a", "b") // nobody can take over
		time.Sleep(wait - 1)
		if b.LeaderID() != "a" || a.LeaderID() != "" {
			t.Errorf("%s; %s", status(a), status(b))
		}
		time.Sleep(1 + startWindow)
		if id := b.LeaderID(); id != "" || b.Status().LeaderID != "" {
			t.Errorf("still %q", id)
		}
	})
}

func TestFollowersKnowWhatTheLeaderSaysOfItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("a")
		cfg.Priority, cfg.Address, cfg.Meta = -3, "tcp://[::1]:1", map[string]string{"zone": "eu"}
		cfg.ConnectionParams = []byte("{}\x00\xff")
		a := start(t, st, cfg)
		b := start(t, st, config("b"))
		time.Sleep(10 * heartbeat)
		for _, e := range []leader.Election{a, b} {
			for l := range e.Observe(t.Context()) {
				if l.Group != "g" || l.ID != "a" || l.Term != 1 || l.Priority != -3 || l.Address != cfg.Address || l.Meta["zone"] != "eu" || !l.Until.After(time.Now()) {
					t.Errorf("%+v", l)
				}
				if !bytes.Equal(l.ConnectionParams, cfg.ConnectionParams) {
					t.Errorf("%q", l.ConnectionParams)
				}
				break
			}
		}
		all, err := leader.SnapshotWithStore(t.Context(), st, "*")
		if err != nil || len(all) != 1 || !bytes.Equal(all[0].ConnectionParams, cfg.ConnectionParams) {
			t.Errorf("%v %+v", err, all)
		}
	})
}

// observe notes what a sequence yields, until its context ends.
func observe(ctx context.Context, e leader.Election, j *journal) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for l := range e.Observe(ctx) {
			if l.Reason != leader.ReasonStarted { // it lasts for no time, and may be skipped
				j.note("%q %s", l.ID, l.Reason)
			}
		}
	}()
	return done
}

func TestObserversSeeThePresentStateAndThenEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		b := candidate(t, st, config("b"))
		done := observe(t.Context(), b, j)
		j.demand(t, `"" `)
		a := start(t, st, config("a"))
		started(t, b)
		time.Sleep(10 * heartbeat) // renewals are no change
		j.demand(t, `"" `, `"a" `)
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLead(t, b, a)
		if got := j.all(); got[len(got)-1] != `"b" ` {
			t.Errorf("%q", got)
		}
		halt(t, a, b)
		<-done
		if got := j.all(); got[len(got)-1] != `"" stopped` {
			t.Errorf("the last: %q", got)
		}
	})
}

func TestSlowObserverSkipsStatesAndHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var n atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range a.Observe(ctx) {
				n.Add(1)
				time.Sleep(time.Hour)
			}
		}()
		for range 20 {
			_ = a.Resign(t.Context())
			time.Sleep(2 * wait)
			mustLead(t, a)
		}
		if n.Load() != 1 {
			t.Errorf("read %d states", n.Load())
		}
		cancel()
		<-done
		if n.Load() > 2 {
			t.Errorf("read %d states", n.Load())
		}
	})
}

func TestObserverEndsWithItsContextAndByBreaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, j := start(t, memstore.New(), config("a")), newJournal()
		ctx, cancel := context.WithCancel(t.Context())
		done := observe(ctx, a, j)
		synctest.Wait()
		cancel()
		<-done
		for range a.Observe(t.Context()) {
			break
		}
		halt(t, a)
		done = observe(t.Context(), a, j) // of one that stopped: its last state
		<-done
		j.demand(t, `"a" `, `"" stopped`)
	})
}

// watchGroup notes what an observer without an election sees.
func watchGroup(ctx context.Context, st store.Store, j *journal) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for l, err := range leader.ObserveWithStore(ctx, st, "g") {
			if err != nil {
				j.note("error %v", err)
				continue
			}
			j.note("%q term %d %s", l.ID, l.Term, l.Reason)
		}
	}()
	return done
}

func TestObservingWithoutTakingPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		ctx, cancel := context.WithCancel(t.Context())
		done := watchGroup(ctx, st, j)
		j.demand(t, `"" term 0 absent`)
		a := start(t, st, config("a"))
		time.Sleep(10*heartbeat + 1)
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st.Delete("g")
		synctest.Wait()
		st.Put("g", []byte("garbage"))
		j.demand(t, `"" term 0 absent`, `"a" term 1 `, `"" term 1 resigned`, `"" term 0 deleted`, `"" term 0 overwritten`)
		if e, _ := st.Get(t.Context(), "g"); string(e.Value) != "garbage" {
			t.Error("the observer wrote")
		}
		cancel()
		<-done
	})
}

func TestObserverSeesASilentLeaderExpireAlsoByPolling(t *testing.T) {
	for _, polled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			j, mem := newJournal(), memstore.New()
			var st store.Store = mem
			if polled {
				st = plain{mem}
			}
			put(t, st, "g", record.Record{ID: "x", Token: "t", TTL: ttl.Milliseconds(), Term: 1})
			ctx, cancel := context.WithCancel(t.Context())
			done := watchGroup(ctx, st, j)
			time.Sleep(wait - 1)
			j.demand(t, `"x" term 1 `)
			time.Sleep(time.Nanosecond)
			j.demand(t, `"x" term 1 `, `"" term 1 expired`)
			cancel()
			<-done
		})
	}
}

// A watch says again what it said before when it has been interrupted. That is
// no renewal.
func TestARepeatedObservationDoesNotProlongALeaseForAnObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, j := network(t, nil), newJournal()
		put(t, f.Client("x"), "g", record.Record{ID: "x", Token: "t", TTL: ttl.Milliseconds(), Term: 1})
		ctx, cancel := context.WithCancel(t.Context())
		done := watchGroup(ctx, f.Client("o"), j)
		time.Sleep(ttl)
		f.Partition("o")
		f.Heal("o")
		time.Sleep(wait - ttl)
		j.demand(t, `"x" term 1 `, `"" term 1 expired`)
		cancel()
		<-done
	})
}

func TestObserverIsToldWhenTheStoreCanNotBeWatchedAndTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusals := 0
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			refuse := c.Op == faultstore.Watch && refusals < 3
			if refuse {
				refusals++
			}
			return faultstore.Fate{Refuse: refuse}
		})
		n := 0
		for l, err := range leader.ObserveWithStore(t.Context(), f.Client("o"), "g") {
			if err == nil {
				if n != 3 || l.Reason != leader.ReasonAbsent {
					t.Errorf("%d errors, then %+v", n, l)
				}
				break
			}
			n++
			if !errors.Is(err, store.ErrTransient) || l.Group != "g" {
				t.Errorf("%+v %v", l, err)
			}
		}
	})
}

func TestObserverMayBreakAtAnyTime(t *testing.T) {
	for _, polled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var st store.Store = memstore.New()
			if polled {
				st = newPlain()
			}
			var got []leader.Reason
			for l, err := range leader.ObserveWithStore(t.Context(), st, "g") {
				if err != nil {
					t.Error(err)
				}
				got = append(got, l.Reason)
				break
			}
			if !slices.Equal(got, []leader.Reason{leader.ReasonAbsent}) {
				t.Error(got)
			}
		})
	}
}
