package leader_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The pace of campaigns: docs/spec-coverage.md says which behaviours of earlier
// libraries these show.

func TestSplaySpreadsTheFirstClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, splay = 40, 10 * time.Second
		st, begun := memstore.New(), time.Now()
		claims := make([]time.Duration, n)
		for i := range n {
			cfg := config("a")
			cfg.Group, cfg.Campaign.Splay = fmt.Sprint("g", i), splay
			e := candidate(t, st, cfg)
			e.OnCampaign(func(leader.Reason) {
				if claims[i] == 0 {
					claims[i] = max(time.Since(begun), 1)
				}
			})
			started(t, e)
		}
		time.Sleep(splay)
		synctest.Wait()
		slices.Sort(claims)
		// That 40 uniform draws miss either half happens once in 10¹² runs.
		if claims[0] == 0 || claims[0] > splay/2 || claims[n-1] < splay/2 || claims[n-1] > splay {
			t.Errorf("first claims after %v", claims)
		}
	})
}

func TestWithoutSplayTheFirstClaimIsMadeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		a := start(t, memstore.New(), config("a"))
		if d := time.Since(begun); !a.IsLeader() || d != 0 {
			t.Errorf("after %v: %s", d, status(a))
		}
	})
}

func TestSplayEndsWhenAnotherLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("b")
		cfg.Campaign.Splay = 1000 * time.Hour
		b := start(t, st, cfg)
		a := start(t, st, config("a"))
		mustLead(t, a, b)
		halt(t, a)
		mustLead(t, b, a)
	})
}

// trouble keeps a from its leases for so long that its term ends, on a network
// where b stands by.
func trouble(t *testing.T, backoff time.Duration) (a, b leader.Election) {
	t.Helper()
	f := network(t, nil)
	slow := func(id string) leader.ElectionConfig {
		cfg := config(id)
		cfg.Campaign.Backoff = backoff
		return cfg
	}
	a = start(t, f.Client("a"), slow("a"))
	b = start(t, f.Client("b"), slow("b"))
	time.Sleep(10*heartbeat + heartbeat/2)
	mustLead(t, a, b)
	first := a.Term()
	f.Partition("a")
	time.Sleep(wait + heartbeat)
	if a.IsLeader() {
		t.Fatal("a still leads")
	}
	f.Heal("a")
	time.Sleep(heartbeat)
	if a.IsLeader() == b.IsLeader() {
		t.Fatalf("%s; %s", status(a), status(b))
	}
	if term := max(a.Term().Number, b.Term().Number); term <= first.Number {
		t.Errorf("term %d after %d", term, first.Number)
	}
	return a, b
}

func TestBackoffBringsTheLastLeaderBackAfterAShortOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := trouble(t, 5*time.Second)
		mustLead(t, a, b)
	})
}

func TestWithoutBackoffAnOutageBeyondTheLeaseChangesTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := trouble(t, 0)
		mustLead(t, b, a)
	})
}

func TestFailoverTakesTheBackoffLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const backoff = 20 * time.Second
		f, cfg := network(t, nil), config("b")
		cfg.Campaign.Backoff = backoff
		a := start(t, f.Client("a"), config("a"))
		b := start(t, f.Client("b"), cfg)
		f.BlackHole("a")
		time.Sleep(wait + backoff - 1)
		mustNotLead(t, a, b)
		time.Sleep(1 + jitter)
		mustLead(t, b, a)
	})
}

// A back-off puts off a candidate's own claim, and not the end of another's
// lease.
func TestBackoffDoesNotProlongWhatIsSaidOfASilentLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg, j := network(t, nil), config("b"), newJournal()
		cfg.Campaign.Backoff = time.Hour
		a, b := start(t, f.Client("a"), config("a")), candidate(t, f.Client("b"), cfg)
		b.OnLeaderChange(func(l leader.LeaderInfo) { j.note("%q %s", l.ID, l.Reason) })
		started(t, b)
		f.BlackHole("a")
		time.Sleep(wait - 1)
		if b.LeaderID() != "a" {
			t.Error(status(b))
		}
		time.Sleep(1 + startWindow)
		mustNotLead(t, a, b)
		if id := b.LeaderID(); id != "" || b.Status().LeaderID != "" {
			t.Errorf("still %q", id)
		}
		j.demand(t, `"" started`, `"a" `, `"" expired`)
	})
}

func TestBackoffDoublesWithEachTermOfAnotherUpToItsMaximum(t *testing.T) {
	for _, c := range []struct {
		terms int
		waits time.Duration
	}{{1, time.Second}, {2, 2 * time.Second}, {3, 4 * time.Second}, {4, 5 * time.Second}, {9, 5 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			st, cfg := memstore.New(), config("b")
			cfg.Campaign = leader.CampaignConfig{Backoff: time.Second, MaxBackoff: 5 * time.Second}
			other := start(t, st, config("other-1"))
			b := start(t, st, cfg)
			for i := 1; i < c.terms; i++ {
				id := fmt.Sprint("other-", i+1)
				next := start(t, st, config(id))
				if err := other.Transfer(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				mustLead(t, next, other, b)
				halt(t, other)
				other = next
			}
			halt(t, other)
			time.Sleep(c.waits - 1)
			mustNotLead(t, b)
			time.Sleep(time.Nanosecond)
			mustLead(t, b)
		})
	}
}

func TestBackoffIsForgottenWithATermOfOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("b")
		cfg.Campaign = leader.CampaignConfig{Backoff: time.Second, MaxBackoff: time.Hour}
		halt(t, start(t, st, config("a")))
		b := start(t, st, cfg)
		mustLead(t, b) // it saw nobody lead
		for range 3 {
			c := start(t, st, config("c"))
			if err := b.Transfer(t.Context(), "c"); err != nil {
				t.Fatal(err)
			}
			mustLead(t, c, b)
			halt(t, c)
			time.Sleep(time.Second - 1)
			mustNotLead(t, b)
			time.Sleep(time.Nanosecond)
			mustLead(t, b, c)
		}
	})
}

// A back-off is for a leader in trouble. One that leaves for a reason is not to
// come back before the others have had their turn.
func TestBackoffDoesNotBringBackALeaderThatLeft(t *testing.T) {
	for name, leave := range map[string]func(*testing.T, *memstore.Store, *health, leader.Election){
		"resignation": func(t *testing.T, _ *memstore.Store, _ *health, a leader.Election) { _ = a.Resign(t.Context()) },
		"step-down": func(t *testing.T, st *memstore.Store, _ *health, a leader.Election) {
			put(t, st, record.ControlKey("g"), record.Request{Op: record.OpStepDown, Term: a.Term().Number})
		},
		"deletion": func(_ *testing.T, st *memstore.Store, _ *health, _ leader.Election) { st.Delete("g") },
		"bad health": func(_ *testing.T, _ *memstore.Store, h *health, _ leader.Election) {
			h.set(func(context.Context) bool { return false })
			time.Sleep(4 * heartbeat)
			h.set(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, h, cfg := memstore.New(), &health{}, config("a")
				cfg.Campaign.Backoff, cfg.HealthChecker = 10*wait, h
				a := start(t, st, cfg)
				cfg.InstanceID, cfg.HealthChecker = "b", nil
				b := start(t, st, cfg)
				mustLead(t, a, b)
				leave(t, st, h, a)
				time.Sleep(20 * wait)
				mustLead(t, b, a)
			})
		})
	}
}

// A lease is renewed at a third of its length at the latest, hence well before
// its half, and before three quarters of it, where others renew.
func TestRenewalsLeaveAtAThirdOfTheLeaseAtTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("a")
		cfg.HeartbeatInterval = cfg.TTL / 3
		var sent []time.Time
		cfg.Hooks.Call = func(c leader.Call) {
			if c.Kind == "renew" || c.Kind == "acquire" {
				sent = append(sent, c.Sent)
			}
		}
		a := start(t, memstore.New(), cfg)
		time.Sleep(time.Hour)
		halt(t, a)
		for i := 1; i < len(sent); i++ {
			if d := sent[i].Sub(sent[i-1]); d > ttl/3 {
				t.Fatalf("renewal %d left %v after the one before", i, d)
			}
		}
		if len(sent) < int(time.Hour/ttl)*3 {
			t.Errorf("%d writes in an hour", len(sent))
		}
	})
}

// The wait of a candidate that has just won is longer than any former leader
// may trust its lease.
func TestCoolOffOutlastsTheTrustOfAnyFormerLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a := start(t, f.Client("a"), config("a"))
		mustLead(t, a)
		cfg := config("b")
		cfg.AcquireGrace = leader.GraceOn
		f.BlackHole("a")
		until := a.TrustUntil()
		f.Wipe() // so that b finds nobody
		b := candidate(t, f.Client("b"), cfg)
		var promoted time.Time
		b.OnPromote(func(context.Context, string) { promoted = time.Now() })
		begun := time.Now()
		started(t, b)
		time.Sleep(2 * wait)
		mustLead(t, b, a)
		if promoted.Before(until) || promoted.Sub(begun) < ttl*3/4 {
			t.Errorf("promoted %v after the claim, %v after the former leader's trust", promoted.Sub(begun), promoted.Sub(until))
		}
	})
}

func TestCampaignGoesOnUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		a := candidate(t, f.Client("a"), config("a"))
		if err := a.Start(ctx); err != nil {
			t.Fatal(err)
		}
		for name, harm := range map[string]func(){
			"deletion":   func() { f.Delete("g") },
			"purge":      func() { f.Purge("g") },
			"garbage":    func() { f.Put("g", []byte("garbage")) },
			"partition":  func() { f.Partition("a"); time.Sleep(time.Minute); f.Heal("a") },
			"silence":    func() { f.BlackHole("a"); time.Sleep(time.Minute); f.Heal("a") },
			"lost state": func() { f.Wipe() },
		} {
			mustLead(t, a)
			before := a.Term()
			harm()
			time.Sleep(3 * wait)
			mustLead(t, a)
			if a.Term() == before {
				t.Errorf("%s did not end the term", name)
			}
		}
		cancel()
		mustBe(t, a, leader.StateStopped)
		at := f.Entry("g").Revision
		time.Sleep(time.Hour)
		if now := f.Entry("g").Revision; now != at {
			t.Errorf("the record went on from %d to %d", at, now)
		}
	})
}

// What an operator's delete does: the leader stands down at once, another takes
// over within a lease, and the one that was deposed lets it.
func TestDeletedKeyDeposesTheLeaderAndAnotherTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		for range 5 {
			mustLead(t, a, b)
			first := a.Term()
			st.Delete("g")
			mustNotLead(t, a) // as soon as it hears of it
			time.Sleep(ttl)
			mustLead(t, b, a)
			if !b.Term().Supersedes(first) {
				t.Errorf("%v after %v", b.Term(), first)
			}
			a, b = b, a
		}
	})
}

// Even a leader that hears nothing of the deletion is deposed: its next renewal
// is refused.
func TestDeletedKeyDeposesALeaderThatIsDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Lose: c.Op == faultstore.Event && c.Client == "a"}
		})
		a, b := start(t, f.Client("a"), config("a")), start(t, f.Client("b"), config("b"))
		mustLead(t, a, b)
		f.Delete("g")
		time.Sleep(heartbeat)
		mustNotLead(t, a)
		time.Sleep(wait)
		mustLead(t, b, a)
	})
}

// A follower leaves the store alone: it is told of renewals, and does not ask
// for them.
func TestFollowersDoNotPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			if c.Client == "b" && c.Op != faultstore.Event {
				calls = append(calls, fmt.Sprint(c.Op))
			}
			return faultstore.Fate{}
		})
		a, b := start(t, f.Client("a"), config("a")), start(t, f.Client("b"), config("b"))
		time.Sleep(time.Hour)
		mustLead(t, a, b)
		if len(calls) > 1 { // the watch
			t.Errorf("calls of an hour: %s", strings.Join(calls, ", "))
		}
	})
}
