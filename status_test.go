package leader_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func TestLeaderInfoReadsAsASentence(t *testing.T) {
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

func TestStatusIsCompleteInEveryState(t *testing.T) {
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
		// It has ended with its vacancy, before anybody followed.
		demand(a, leader.ElectionStatus{
			State: leader.StateStopped, LastTransition: time.Now(), Reason: leader.ReasonStopped,
			Acquired: follows.Acquired, Renewed: time.Now().UTC().Truncate(time.Millisecond),
		})
		mustLead(t, b, a)
		if s := b.Status(); s.Term <= 1 || s.Reason != leader.ReasonVacant || s.Token == r.Token {
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
		time.Sleep(1 + contention)
		if id := b.LeaderID(); id != "" || b.Status().LeaderID != "" {
			t.Errorf("still %q", id)
		}
	})
}

func TestFollowersSeeTheAttributesOfTheLeader(t *testing.T) {
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

// A distant store cannot be reached while the test sets that. It watches.
type distant struct {
	store.Watcher

	check, watch atomic.Bool
}

func (d *distant) Check(context.Context, store.CheckRequest) (store.Report, error) {
	if d.check.Load() {
		return store.Report{}, store.ErrTransient
	}
	return store.Report{}, nil
}

func (d *distant) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	if d.watch.Load() {
		return nil, store.ErrTransient
	}
	return d.Watcher.Watch(ctx, keys, deliver)
}

// A follower writes nothing and reads nothing: only its following shows that a
// trouble at its start is over.
func TestStatusShowsNoErrorOnceAFollowerFollows(t *testing.T) {
	for name, far := range map[string]func(*distant) *atomic.Bool{
		"check": func(d *distant) *atomic.Bool { return &d.check },
		"watch": func(d *distant) *atomic.Bool { return &d.watch },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				mustLead(t, start(t, st, config("a")))
				d := &distant{Watcher: st}
				far(d).Store(true)
				b := start(t, d, config("b"))
				time.Sleep(time.Minute)
				if s := b.Status(); !errors.Is(s.LastError, store.ErrTransient) {
					t.Errorf("for a store that cannot be reached the status shows %v", s.LastError)
				}
				far(d).Store(false)
				time.Sleep(time.Minute)
				mustBe(t, b, leader.StateFollower)
				if s := b.Status(); s.LastError != nil || !s.LastErrorAt.IsZero() {
					t.Errorf("still shows %v of %v", s.LastError, s.LastErrorAt)
				}
			})
		})
	}
}

func TestStatusShowsNoErrorOnceAPollingFollowerReadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		mustLead(t, start(t, mem, config("a")))
		st := &controlOnly{Store: mem}
		b := start(t, st, config("b"))
		st.refuses.Store(true)
		time.Sleep(2 * heartbeat)
		if s := b.Status(); !errors.Is(s.LastError, store.ErrPermanent) {
			t.Errorf("after a read that failed the status shows %v", s.LastError)
		}
		st.refuses.Store(false)
		time.Sleep(2 * heartbeat)
		mustBe(t, b, leader.StateFollower)
		if s := b.Status(); s.LastError != nil {
			t.Errorf("still shows %v", s.LastError)
		}
	})
}

func TestStatesAndConnectionsHaveTheSpecifiedNames(t *testing.T) {
	for got, want := range map[string]string{
		leader.StateInit: "INIT", leader.StateCandidate: "CANDIDATE", leader.StateLeader: "LEADER",
		leader.StateFollower: "FOLLOWER", leader.StateDemoted: "DEMOTED", leader.StateStopped: "STOPPED",
		store.Connected.String(): "CONNECTED", store.Disconnected.String(): "DISCONNECTED", store.Closed.String(): "CLOSED",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestTokenIsEmptyUnlessTheCandidateLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a, b := start(t, f.Client("a"), config("a")), start(t, f.Client("b"), config("b"))
		mustLead(t, a, b)
		if a.Token() == "" || a.Token() != a.Status().Token || b.Token() != "" || b.Status().Token != "" {
			t.Errorf("tokens %q and %q", a.Token(), b.Token())
		}
		f.BlackHole("a")
		time.Sleep(trust)
		if a.Token() != "" || a.Status().Token != "" {
			t.Error("the token outlives the trust")
		}
		f.Heal("a")
		halt(t, a, b)
		if a.Token() != "" || b.Token() != "" {
			t.Error("a token after the end")
		}
	})
}
