package leader_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
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

// yield is how long a candidate waits for each of those that are preferred to
// it.
const yield = 50 * time.Millisecond

func ranked(id string, priority int) leader.ElectionConfig {
	cfg := config(id)
	cfg.Priority = priority
	return cfg
}

// Each in turn leaves permanently: the next in order takes over, however the
// order of joining was, and waits for earlier ones that are gone no longer than
// a step each.
func TestPriorityOrdersWhoGoesFirstAtAVacancy(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			st := memstore.New()
			priorities := []int{50, 40, 30, 20, 10, 0, -10}
			es := map[int]leader.Election{}
			for _, i := range rng.Perm(len(priorities)) {
				p := priorities[i]
				es[p] = start(t, st, ranked(fmt.Sprint("p", p), p))
				time.Sleep(time.Duration(rng.Int64N(int64(2 * ttl))))
			}
			time.Sleep(20 * ttl)
			var led []int
			for len(es) > 0 {
				synctest.Wait()
				leads := slices.IndexFunc(priorities, func(p int) bool { return es[p] != nil && es[p].IsLeader() })
				if leads < 0 {
					t.Fatalf("seed %d: nobody leads after %v", seed, led)
				}
				p := priorities[leads]
				led = append(led, p)
				halt(t, es[p])
				delete(es, p)
				time.Sleep(2 * ttl) // in which those who are left make themselves heard
			}
			first := led[0] // the first to join; from then on in order
			rest := slices.Clone(led[1:])
			if !slices.IsSortedFunc(rest, func(a, b int) int { return b - a }) {
				t.Errorf("seed %d: %d led, then %v", seed, first, rest)
			}
		})
	}
}

// The leader of the highest priority crashes: its lease runs out for all at
// once, and the next in order claims.
func TestPriorityOrdersWhoGoesFirstWhenALeaseHasRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		high := start(t, f.Client("high"), ranked("high", 9))
		low, mid := start(t, f.Client("low"), ranked("low", 1)), start(t, f.Client("mid"), ranked("mid", 5))
		time.Sleep(10 * ttl)
		mustLead(t, high, low, mid)
		f.BlackHole("high")
		time.Sleep(wait + heartbeat + yield + jitter)
		mustLead(t, mid, high, low)
	})
}

// In a group whose candidates all have the same priority nobody waits, and its
// records contain no priorities.
func TestEqualPrioritiesHandOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, ranked("a", 7)), start(t, st, ranked("b", 7))
		mustLead(t, a, b)
		time.Sleep(10 * ttl)
		_ = a.Resign(t.Context())
		mustLead(t, b, a) // perhaps after the window of those who were started together
		_ = b.Resign(t.Context())
		mustLeadAtOnce(t, a)
		st = memstore.New()
		c := start(t, st, config("c"))
		mustLead(t, c)
		if e, r := stored(t, st); r.Standings != nil {
			t.Errorf("%s", e.Value)
		}
	})
}

// mustLeadAtOnce demands that e leads without any time passing.
func mustLeadAtOnce(t *testing.T, e leader.Election) {
	t.Helper()
	begun := time.Now()
	synctest.Wait()
	if !e.IsLeader() || time.Since(begun) != 0 {
		t.Fatalf("does not lead at once: %v", status(e))
	}
}

// A candidate that is permanently gone is forgotten after a few terms, and
// delays nobody any more.
func TestStandingWithoutACandidateIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		gone := start(t, st, ranked("gone", 100))
		mustLead(t, gone)
		a, b := start(t, st, ranked("a", 1)), start(t, st, ranked("b", 1))
		halt(t, gone)
		time.Sleep(10 * ttl)
		for range 4 {
			for _, e := range []leader.Election{a, b} {
				if e.IsLeader() {
					_ = e.Resign(t.Context())
					break
				}
			}
			time.Sleep(10 * ttl)
		}
		_, r := stored(t, st)
		if len(r.Standings) != 1 || r.Standings[0] != (record.Standing{Priority: 1}) {
			t.Errorf("%+v", r.Standings)
		}
	})
}

// A foreign record may contain any number of standings; they cost a bounded
// delay.
func TestForeignStandingsDelayByABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		r := record.Record{ID: "stranger", Token: "t", TTL: ttl.Milliseconds()}
		for i := range 100 {
			r.Standings = append(r.Standings, record.Standing{Priority: 1000 + i})
		}
		put(t, st, "g", r)
		a := start(t, st, config("a"))
		time.Sleep(wait + record.MaxStandings*yield + jitter)
		mustLead(t, a)
	})
}

// takeovers are candidates that may take over and be taken over.
func takeover(id string, priority int) leader.ElectionConfig {
	cfg := ranked(id, priority)
	cfg.AllowPriorityTakeover = true
	return cfg
}

const tenure = 10 * ttl // the default MinTenure

func TestPreferredCandidateTakesOverAfterTheMinimumTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		low := candidate(t, st, takeover("low", 1))
		j := newJournal()
		low.OnDemote(func() { time.Sleep(time.Second); j.note("low has stopped") })
		started(t, low)
		mustLead(t, low)
		high := candidate(t, st, takeover("high", 2))
		high.OnLeaderChange(func(l leader.LeaderInfo) {
			if l.ID == "" && l.By != "" {
				j.note("nobody leads: %s by %s for %s", l.Reason, l.By, l.Successor)
			}
		})
		started(t, high)
		other := start(t, st, takeover("other", 1))
		time.Sleep(tenure - time.Nanosecond)
		mustLead(t, low, high, other)
		time.Sleep(heartbeat + time.Second + time.Nanosecond)
		mustLead(t, high, low, other)
		j.demand(t, "low has stopped", "nobody leads: outranked by high for high")
		time.Sleep(100 * tenure)
		mustLead(t, high, low, other)
	})
}

func TestTakeoverNeedsTheConsentOfBoth(t *testing.T) {
	for name, cfgs := range map[string][2]leader.ElectionConfig{
		"the leader does not allow it": {ranked("low", 1), takeover("high", 2)},
		"the other does not ask":       {takeover("low", 1), ranked("high", 2)},
		"equal priorities":             {takeover("low", 2), takeover("high", 2)},
		"a lower priority":             {takeover("low", 3), takeover("high", 2)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				low, high := start(t, st, cfgs[0]), start(t, st, cfgs[1])
				term := low.Term()
				time.Sleep(20 * tenure)
				mustLead(t, low, high)
				if low.Term() != term {
					t.Errorf("term %v after %v", low.Term(), term)
				}
			})
		})
	}
}

// Any program that may write the control record may ask to take over. The
// leader judges that by its own settings, whatever the other has concluded.
func TestLeaderJudgesRequestsToTakeOver(t *testing.T) {
	for name, c := range map[string]struct {
		priority int
		served   time.Duration
		leaves   bool
	}{
		"preferred":            {3, tenure, true},
		"preferred, too early": {3, tenure / 2, false},
		"equal":                {2, tenure, false},
		"not preferred":        {1, tenure, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				a := start(t, st, takeover("a", 2))
				mustLead(t, a)
				term := a.Term()
				time.Sleep(c.served)
				put(t, st, "_ctl.g", record.Control{Stand: &record.Stand{ID: "b", Term: term.Number, Priority: c.priority, Takeover: true}})
				synctest.Wait()
				if left := a.Term() != term; left != c.leaves {
					t.Errorf("it leaves: %v, and is to: %v", left, c.leaves)
				}
			})
		})
	}
}

// A holder that cools down has not started to lead. If it left for a preferred
// one and then lost the race, the next holder would cool down again, and so on,
// with nobody leading.
func TestTakeoverWaitsForTheCoolDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		cfg := takeover("a", 2)
		cfg.AcquireGrace, cfg.MinTenure = leader.GraceOn, heartbeat
		a := start(t, st, cfg)
		synctest.Wait()
		claim, _ := stored(t, st)
		asks := func() {
			put(t, st, "_ctl.g", record.Control{Stand: &record.Stand{ID: "b", Term: claim.Revision, Priority: 3, Takeover: true}})
			synctest.Wait()
		}
		time.Sleep(wait - heartbeat)
		asks()
		if a.IsLeader() {
			t.Fatal("it does not cool down")
		}
		time.Sleep(heartbeat)
		mustLead(t, a)
		if got := a.Term().Number; got != claim.Revision {
			t.Fatalf("term %d, and the claim was %d", got, claim.Revision)
		}
		asks() // it has not served yet, however old the claim is
		mustLead(t, a)
		time.Sleep(heartbeat)
		asks()
		if a.IsLeader() {
			t.Error("it does not leave after its tenure")
		}
	})
}

// Two that are equally preferred take turns only when one of them leaves.
func TestEqualPrioritiesNeverTakeOverFromEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, takeover("a", 5)), start(t, st, takeover("b", 5))
		first := a.Term()
		time.Sleep(50 * tenure)
		mustLead(t, a, b)
		_ = a.Resign(t.Context())
		mustLead(t, b, a)
		second := b.Term()
		time.Sleep(50 * tenure)
		mustLead(t, b, a)
		if a.Term() == first || b.Term() != second {
			t.Errorf("terms %v, %v", a.Term(), b.Term())
		}
	})
}

// A candidate that comes and goes does not make leadership flap: each return
// waits for a tenure.
func TestComingAndGoingDoesNotMakeLeadershipFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		low := start(t, st, takeover("low", 1))
		terms := 0
		low.OnLeaderChange(func(leader.LeaderInfo) {})
		begun := time.Now()
		for time.Since(begun) < 20*tenure {
			cfg := takeover("high", 2)
			cfg.Hooks.Transition = func(tr leader.Transition) {
				if tr.To == leader.StateLeader {
					terms++
				}
			}
			high := start(t, st, cfg)
			time.Sleep(ttl)
			halt(t, high)
			time.Sleep(ttl)
		}
		if terms != 0 {
			t.Errorf("%d terms of a candidate that never stays for a tenure", terms)
		}
	})
}

// Hundreds of equal candidates have one message, and one of them sends it.
func TestCandidatesOfAKnownStandingStaySilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int64
		f := network(t, func(c faultstore.Call) (fate faultstore.Fate) {
			if c.Op == faultstore.CompareAndSwap && c.Key == record.ControlKey("g") {
				writes.Add(1)
			}
			fate.Reply = time.Millisecond
			return fate
		})
		low := start(t, f.Client("low"), takeover("low", 1))
		time.Sleep(time.Second)
		var many []leader.Election
		for i := range 200 {
			id := fmt.Sprint("c", i)
			many = append(many, start(t, f.Client(id), takeover(id, 2)))
		}
		time.Sleep(tenure - time.Second)
		mustLead(t, low)
		if n := writes.Load(); n == 0 || n > 10 {
			t.Errorf("%d writes of the control record by 200 candidates", n)
		}
		time.Sleep(2 * ttl)
		led := 0
		for _, e := range many {
			if e.IsLeader() {
				led++
			}
		}
		if n := writes.Load(); led != 1 || n > 20 {
			t.Errorf("%d lead after %d writes of the control record", led, n)
		}
	})
}

// Of several that are preferred to the leader the most preferred takes over,
// and not each in turn.
func TestMostPreferredCandidateTakesOverFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		p1 := start(t, st, takeover("p1", 1))
		p2, p9, p5 := start(t, st, takeover("p2", 2)), start(t, st, takeover("p9", 9)), start(t, st, takeover("p5", 5))
		time.Sleep(tenure + time.Second)
		mustLead(t, p9, p1, p2, p5)
		if id := p5.LeaderID(); id != "p9" {
			t.Errorf("p5 follows %q", id)
		}
	})
}

func TestUnhealthyCandidateDoesNotTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, h, cfg := memstore.New(), &health{}, takeover("high", 2)
		h.set(func(context.Context) bool { return false })
		cfg.HealthChecker = h
		low, high := start(t, st, takeover("low", 1)), start(t, st, cfg)
		time.Sleep(3 * tenure)
		mustLead(t, low, high)
		h.set(nil)
		time.Sleep(tenure + 2*ttl)
		mustLead(t, high, low)
	})
}

func TestMinTenureIsASetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		cfg := func(id string, p int) leader.ElectionConfig {
			c := takeover(id, p)
			c.MinTenure = time.Hour
			return c
		}
		low, high := start(t, st, cfg("low", 1)), start(t, st, cfg("high", 2))
		time.Sleep(time.Hour - time.Second)
		mustLead(t, low, high)
		time.Sleep(time.Second + heartbeat)
		mustLead(t, high, low)
	})
}

// The request for a takeover may be lost, and the record it is written to be
// contended: it is made again.
func TestLostTakeoverRequestIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		f := network(t, func(c faultstore.Call) (fate faultstore.Fate) {
			if c.Op == faultstore.CompareAndSwap && c.Key == record.ControlKey("g") {
				n++
				fate.Lose = n < 4
			}
			return fate
		})
		low, high := start(t, f.Client("low"), takeover("low", 1)), start(t, f.Client("high"), takeover("high", 2))
		time.Sleep(3 * tenure)
		mustLead(t, high, low)
		if n < 4 {
			t.Errorf("%d writes of the control record", n)
		}
	})
}

// A guarded store refuses writes of control records.
type guarded struct {
	*memstore.Store
	n int
}

func (g *guarded) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if w.Key != record.ControlKey("g") {
		return g.Store.CompareAndSwap(ctx, w)
	}
	g.n++
	return 0, fmt.Errorf("%w: no permission to write %s", store.ErrPermanent, w.Key)
}

// Without the right to write the control record a candidate cannot send its
// priority, and everything else works.
func TestCandidateThatMayNotRequestATakeoverIsLeftOutAndReportsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &guarded{Store: memstore.New()}
		var notes []string
		cfg := takeover("high", 2)
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteTakeover {
				notes = append(notes, n.Text)
			}
		}
		low, high := start(t, st, takeover("low", 1)), start(t, st, cfg)
		time.Sleep(9 * time.Minute)
		mustLead(t, low, high)
		if len(notes) != 1 || st.n != 1 {
			t.Errorf("%d writes of the control record, notes %q", st.n, notes)
		}
		halt(t, low)
		mustLead(t, high)
	})
}

func versioned(id, version string, p leader.VersionPolicy) leader.ElectionConfig {
	cfg := takeover(id, 0)
	cfg.Version, cfg.VersionPolicy = version, p
	return cfg
}

// A rollout with PreferOlder, as Kubernetes' coordinated election has it: the
// old version leads until the last of it has gone, in whatever order programs
// are replaced.
func TestPreferOlderLetsTheOldVersionLeadUntilItsLastIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, versioned("a", "1.9.0", leader.PreferOlder)), start(t, st, versioned("b", "1.9.0", leader.PreferOlder))
		c := start(t, st, versioned("c", "1.10.0", leader.PreferOlder))
		time.Sleep(3 * tenure)
		mustLead(t, a, b, c)
		halt(t, a)
		time.Sleep(2 * yield)
		mustLead(t, b, c)
		time.Sleep(3 * tenure)
		mustLead(t, b, c)
		halt(t, b)
		time.Sleep(2 * yield)
		mustLead(t, c)
		// A rollback: the old version is preferred again.
		d := start(t, st, versioned("d", "1.9.0", leader.PreferOlder))
		time.Sleep(tenure + 2*ttl)
		mustLead(t, d, c)
	})
}

func TestPreferNewerLetsTheNewVersionTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, versioned("a", "v1.9.0", leader.PreferNewer))
		high := versioned("high", "v1.9.0", leader.PreferNewer)
		high.Priority = 100 // the version comes before the priority
		b, c := start(t, st, high), start(t, st, versioned("c", "v1.10.0", leader.PreferNewer))
		time.Sleep(2*tenure + 2*ttl)
		mustLead(t, c, a, b)
		halt(t, c)
		time.Sleep(2 * yield)
		mustLead(t, b, a)
	})
}

// An endless tenure means that nobody is taken over.
func TestHugeMinTenureDoesNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		f := network(t, func(c faultstore.Call) (fate faultstore.Fate) {
			if c.Op == faultstore.CompareAndSwap && c.Key == record.ControlKey("g") {
				asked.Add(1)
			}
			return fate
		})
		cfg := func(id string, p int) leader.ElectionConfig {
			c := takeover(id, p)
			c.MinTenure = math.MaxInt64
			return c
		}
		low, high := start(t, f.Client("low"), cfg("low", 1)), start(t, f.Client("high"), cfg("high", 2))
		time.Sleep(time.Hour)
		mustLead(t, low, high)
		if n := asked.Load(); n != 1 {
			t.Errorf("%d writes of the control record, where one makes the standing known", n)
		}
	})
}

// A record holds only so many standings. A candidate behind all of them has
// nothing to send that the record would show.
func TestCandidateWithoutAPlaceAmongTheStandingsFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int64
		f := network(t, func(c faultstore.Call) (fate faultstore.Fate) {
			if c.Op == faultstore.CompareAndSwap && c.Key == record.ControlKey("g") {
				writes.Add(1)
			}
			return fate
		})
		for p := range 3 * record.MaxStandings {
			id := fmt.Sprint("p", p)
			start(t, f.Client(id), ranked(id, p))
		}
		time.Sleep(100 * ttl)
		synctest.Wait()
		before := writes.Load()
		time.Sleep(1000 * ttl)
		if n := writes.Load() - before; n > 0 {
			t.Errorf("%d writes of the control record long after the start", n)
		}
	})
}

// A claim that takes many attempts begins one term. Each attempt used to age
// the standings by a term, until none was left.
func TestAttemptsOfOneClaimAgeTheStandingsByOneTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 0
		f := network(t, func(c faultstore.Call) (fate faultstore.Fate) {
			if c.Op == faultstore.CompareAndSwap && c.Key == "g" && c.Client == "b" && failures > 0 {
				failures--
				fate.Lose = true
			}
			return fate
		})
		a := start(t, f.Client("a"), ranked("a", 1))
		b := start(t, f.Client("b"), ranked("b", 2))
		start(t, f.Client("c"), ranked("c", 3))
		time.Sleep(2 * ttl)
		mustLead(t, a, b)
		f.Partition("c") // it is there, but does not claim
		failures = 4
		halt(t, a)
		for !b.IsLeader() {
			time.Sleep(time.Millisecond)
		}
		var r record.Record
		if err := json.Unmarshal(f.Entry("g").Value, &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Standings) != 3 || failures > 0 {
			t.Errorf("%d standings of three: %+v", len(r.Standings), r.Standings)
		}
	})
}
