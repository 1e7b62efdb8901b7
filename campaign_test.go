package leader_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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

func TestFirstClaimIsMadeAtOnceWithoutSplay(t *testing.T) {
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
// where b waits as a follower.
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

func TestOutageBeyondTheLeaseChangesTheLeaderWithoutBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := trouble(t, 0)
		mustLead(t, b, a)
	})
}

func TestBackoffDelaysTheFailover(t *testing.T) {
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
func TestBackoffDoesNotDelayTheReportOfASilentLeader(t *testing.T) {
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
		time.Sleep(1 + contention)
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

func TestATermOfTheCandidateResetsItsBackoff(t *testing.T) {
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

// A back-off is for a leader in trouble. A leader that leaves for a reason must
// not come back before the others have had their turn.
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

// A follower leaves the store alone: the watch reports renewals, and the
// follower does not ask for them.
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
		// The watches of the record and of what drains the instance, and a read
		// where the latter begins before it delivers.
		if len(calls) > 3 {
			t.Errorf("calls of an hour: %s", strings.Join(calls, ", "))
		}
	})
}

// A store that was made within the last lease may have taken the place of a
// store whose leader has not heard of that. The candidate waits for the rest of
// the lease, and no more.
func TestYoungStoreDelaysThePromotionUntilItIsALeaseOld(t *testing.T) {
	for _, c := range []struct {
		grace leader.AcquireGrace
		age   time.Duration
		want  time.Duration
	}{
		{leader.GraceAuto, 0, 0},
		{leader.GraceAuto, 1, wait - 1},
		{leader.GraceAuto, wait / 2, wait / 2},
		{leader.GraceAuto, wait - 1, 1},
		{leader.GraceAuto, wait, 0},
		{leader.GraceAuto, time.Hour, 0},
		{leader.GraceOff, 1, 0},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &checked{Store: memstore.New(), report: store.Report{Age: c.age}}
				cfg := config("a")
				cfg.AcquireGrace = c.grace
				a := start(t, st, cfg)
				if c.want > 0 {
					mustBe(t, a, leader.StateCandidate)
					time.Sleep(c.want - 1)
					mustBe(t, a, leader.StateCandidate)
					if _, r := stored(t, st); r.ID != "a" {
						t.Errorf("the claim is to be held meanwhile: %+v", r)
					}
					time.Sleep(time.Nanosecond)
				}
				mustLead(t, a)
			})
		})
	}
}

// A candidate that starts in a new store logs once why nobody leads. A store
// that was made again between the start and the claim is news.
func TestYoungStoreIsReportedOnce(t *testing.T) {
	for _, ages := range [][]time.Duration{{1, 1}, {time.Hour, 1}} {
		t.Run(fmt.Sprint(ages), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &aging{Store: memstore.New(), ages: ages}
				var told atomic.Int32
				cfg := config("a")
				cfg.Hooks.Note = func(n leader.Note) {
					if n.Kind == leader.NoteWaiting && strings.Contains(n.Text, "made less than a lease ago") && strings.Contains(n.Text, "nobody leads before "+time.Now().Add(wait-1).Format(time.TimeOnly)) {
						told.Add(1)
					}
				}
				a := start(t, st, cfg)
				time.Sleep(wait)
				mustLead(t, a)
				if n := told.Load(); n != 1 {
					t.Errorf("notified %d times", n)
				}
			})
		})
	}
}

// aging is a store that reports an age for each check, and repeats the last
// one.
type aging struct {
	store.Store
	mu   sync.Mutex
	ages []time.Duration
}

func (s *aging) Check(context.Context, store.CheckRequest) (store.Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := s.ages[0]
	if len(s.ages) > 1 {
		s.ages = s.ages[1:]
	}
	return store.Report{Age: age}, nil
}

// A leader from before the store was made leads beside nobody, whether or not
// the one that comes after it stays.
func TestYoungStoreGetsNoVacancy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &checked{Store: memstore.New(), report: store.Report{Age: 1}}
		a := start(t, st, config("a"))
		mustBe(t, a, leader.StateCandidate)
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		if e, r := stored(t, st); e.Tombstone || r.ID != "a" {
			t.Errorf("%+v of %+v", r, e)
		}
	})
}

// Only starting candidates wait for the store's age. A later takeover waits as
// always.
func TestYoungStoreDelaysTheFirstTermAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &checked{Store: memstore.New(), report: store.Report{Age: 1}}
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		time.Sleep(wait)
		mustLead(t, a)
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(heartbeat) // this store is polled
		mustLead(t, b)
	})
}

// A store that drops records may have dropped a leader's, so a candidate that
// finds nothing there cools down. A handover is different, unless the store may
// also go back or the settings ask for a cool-down each time.
func TestHandoverNeedsNoCoolDownWhereRecordsOnlyExpire(t *testing.T) {
	for name, c := range map[string]struct {
		report       store.Report
		grace        leader.AcquireGrace
		first, again time.Duration // before a's promotion, and before b's after it
	}{
		"expires":                {store.Report{Expires: true}, leader.GraceAuto, wait, 0},
		"expires, GraceOn":       {store.Report{Expires: true}, leader.GraceOn, wait, wait},
		"expires, GraceOff":      {store.Report{Expires: true}, leader.GraceOff, 0, 0},
		"expires and goes back":  {store.Report{Expires: true, Forgetful: true}, leader.GraceAuto, wait, wait},
		"goes back":              {store.Report{Forgetful: true}, leader.GraceAuto, wait, wait},
		"keeps what it was told": {store.Report{}, leader.GraceAuto, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &checked{Store: memstore.New(), report: c.report}
				var mu sync.Mutex
				promoted := map[string]time.Time{}
				join := func(id string) leader.Election {
					cfg := config(id)
					cfg.AcquireGrace = c.grace
					e := candidate(t, st, cfg)
					e.OnPromote(func(context.Context, string) {
						mu.Lock()
						defer mu.Unlock()
						promoted[id] = time.Now()
					})
					return started(t, e)
				}
				begun := time.Now()
				a := join("a")
				join("b")
				time.Sleep(2 * wait)
				left := time.Now()
				if err := a.StopWithContext(t.Context(), leader.StopOptions{DeleteKey: true, WaitForDemote: true}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * wait)
				mu.Lock()
				defer mu.Unlock()
				first, again := promoted["a"].Sub(begun), promoted["b"].Sub(left)
				if first != c.first || again < c.again || again > c.again+ttl/2 {
					t.Errorf("promoted after %v and %v, want %v and %v", first, again, c.first, c.again)
				}
			})
		})
	}
}

// A tap counts the writes of the record that pass through a slow network.
type tap struct {
	mu     sync.Mutex
	rng    *rand.Rand
	late   time.Duration // by which an event reaches all watches
	writes int
}

func newTap(t *testing.T, late time.Duration) *tap {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &tap{rng: rand.New(rand.NewPCG(seed, 0)), late: late}
}

func (c *tap) policy(call faultstore.Call) faultstore.Fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch call.Op {
	case faultstore.Event:
		return faultstore.Fate{Delay: time.Duration(c.rng.Int64N(int64(c.late)))}
	case faultstore.CompareAndSwap, faultstore.Get:
		if call.Op == faultstore.CompareAndSwap && call.Key == "g" {
			c.writes++
		}
		return faultstore.Fate{Delay: time.Duration(50+c.rng.IntN(100)) * time.Microsecond}
	default:
		return faultstore.Fate{}
	}
}

// claims returns the writes since the last call.
func (c *tap) claims() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, c.writes = c.writes, 0
	return n
}

// A leader crashes among two hundred, which take four milliseconds to hear of
// any write: a few of them claim, and one leads soon after the lease.
func TestCrashAmongManyMakesFewClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		tap := newTap(t, many*20*time.Microsecond)
		net := network(t, tap.policy)
		es := make([]leader.Election, many)
		for i := range es {
			id := fmt.Sprint("c", i)
			es[i] = candidate(t, net.Client(id), config(id))
			if err := es[i].Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				time.Sleep(2 * heartbeat)
			}
		}
		var claims []int
		for range 5 {
			time.Sleep(10 * ttl)
			i := slices.IndexFunc(es, leader.Election.IsLeader)
			if i < 0 {
				t.Fatal("nobody leads")
			}
			net.BlackHole(fmt.Sprint("c", i))
			time.Sleep(trust)
			tap.claims()
			time.Sleep(wait - trust + contention + 10*time.Millisecond)
			if !slices.ContainsFunc(es, leader.Election.IsLeader) {
				t.Errorf("nobody leads %v after the crash", wait+contention)
			}
			claims = append(claims, tap.claims())
			net.Heal(fmt.Sprint("c", i))
		}
		slices.Sort(claims)
		if claims[len(claims)/2] > 30 {
			t.Errorf("claims: %v", claims)
		}
	})
}

// A stalling is a follower whose election can be stopped, as in a process that
// gets no processor.
type stalling struct {
	*memstore.Store

	e      leader.Election
	writes atomic.Int32  // to the group's record
	gate   chan struct{} // nil: it is not stopped
}

func (s *stalling) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if w.Key == "g" {
		s.writes.Add(1)
	}
	return s.Store.CompareAndSwap(ctx, w)
}

// Watch delivers the control record, to elections that are not stopped, a
// little after the record.
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

// during stops the election while f runs, and waits until it has handled what
// has come meanwhile.
func (s *stalling) during(t *testing.T, f func()) {
	t.Helper()
	if err := s.e.ValidateToken(t.Context()); !errors.Is(err, leader.ErrNotLeader) {
		t.Fatal(err)
	}
	synctest.Wait() // the hook that receives it is stopped
	f()
	s.gate <- struct{}{}
	synctest.Wait()
}

// When a process goes on that was stopped for longer than a lease, a challenge
// is due, and renewals have arrived that forbid it. The renewals are handled
// first, whichever of the two woke it.
func TestStalledFollowerTakesInTheRenewalsBeforeItChallenges(t *testing.T) {
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

// A candidate that hears of a vacancy and, at once, of the pause that led to it
// does not campaign for the group.
func TestStalledFollowerTakesInAPauseBeforeItClaims(t *testing.T) {
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

// The first news of the control record may be a pause. The candidate must not
// campaign between hearing of it and obeying it.
func TestCandidateThatStartsInAPausedGroupWritesNothing(t *testing.T) {
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

// A program that starts must not lead a group that is paused, however early its
// own record is known.
func TestCandidateWaitsForItsControlRecordBeforeItCampaigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, func(c faultstore.Call) (fate faultstore.Fate) {
			if c.Op == faultstore.Event && c.Key == record.ControlKey("g") {
				fate.Delay = ttl / 2
			}
			return fate
		})
		put(t, f.Client("operator"), record.ControlKey("g"), record.Control{Paused: &record.Pause{By: "operator", Reason: "migration"}})
		a := start(t, f.Client("a"), config("a"))
		time.Sleep(10 * ttl)
		mustNotLead(t, a)
		if s := a.Status(); s.Barred != leader.ReasonPaused || time.Since(s.LastTransition) < 10*ttl {
			t.Errorf("%+v", s)
		}
	})
}

// Without the right to read the control record, and where it never arrives, a
// candidate goes on without it.
func TestCandidateThatNeverHearsOfItsControlRecordGoesOnWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, unread{memstore.New()}, config("a"))
		time.Sleep(ttl - time.Nanosecond)
		mustNotLead(t, a)
		time.Sleep(time.Nanosecond)
		mustLead(t, a)
	})
}

// An unread store delivers no control records.
type unread struct{ *memstore.Store }

func (u unread) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	return u.Store.Watch(ctx, keys, func(e store.Entry) {
		if e.Key != record.ControlKey("g") {
			deliver(e)
		}
	})
}

// A follower has no transition when its group is paused or its health check
// begins to fail, so only a note reports what a waiting program waits for.
func TestCandidateReportsWhatKeepsItFromCampaigning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sick atomic.Bool
		st, j := memstore.New(), newJournal()
		ctl := control(t, st)
		if _, err := ctl.Pause(t.Context(), "g", "upgrade"); err != nil {
			t.Fatal(err)
		}
		cfg := config("a")
		cfg.HealthChecker = &health{check: func(context.Context) bool { return !sick.Load() }}
		cfg.HealthCheckInterval, cfg.MaxConsecutiveFailures = heartbeat, 2
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteBarred || n.Kind == leader.NoteUnbarred {
				j.note("%s: %s", n.Kind, n.Text)
			}
		}
		e := start(t, st, cfg)
		time.Sleep(10 * ttl)
		said := []string{`barred: group "g" is paused by "ops" (upgrade): this candidate does not campaign until it is resumed`}
		j.demand(t, said...)

		// A second reason has its own note, and each its end.
		sick.Store(true)
		time.Sleep(10 * ttl)
		said = append(said, "barred: the health check fails: this candidate does not campaign until it passes")
		j.demand(t, said...)
		if _, err := ctl.File(t.Context(), leader.Request{Op: leader.OpResume, Group: "g"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * ttl)
		said = append(said, `unbarred: group "g" is no longer paused`)
		j.demand(t, said...)
		mustNotLead(t, e)
		sick.Store(false)
		time.Sleep(10 * ttl)
		said = append(said, "unbarred: the health check passes again")
		j.demand(t, said...)
		mustLead(t, e)
		if _, err := ctl.Pause(t.Context(), "g", ""); err != nil {
			t.Fatal(err)
		}
		j.demand(t, append(said, `barred: group "g" is paused by "ops": this candidate does not campaign until it is resumed`)...)
	})
}

func TestCoolDownComesBeforeThePromotionWhereTheStoreForgets(t *testing.T) {
	for _, c := range []struct {
		grace     leader.AcquireGrace
		forgetful bool
		cools     bool
	}{
		{leader.GraceAuto, false, false},
		{leader.GraceAuto, true, true},
		{leader.GraceOn, false, true},
		{leader.GraceOff, true, false},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &checked{Store: memstore.New(), report: store.Report{Forgetful: c.forgetful}}
				cfg := config("a")
				cfg.AcquireGrace = c.grace
				a := start(t, st, cfg)
				if !c.cools {
					mustLead(t, a)
					return
				}
				mustBe(t, a, leader.StateCandidate)
				time.Sleep(wait - 1)
				mustBe(t, a, leader.StateCandidate)
				if _, r := stored(t, st); r.ID != "a" || r.Renewal == 0 {
					t.Errorf("the claim is to be held meanwhile: %+v", r)
				}
				time.Sleep(time.Nanosecond)
				mustLead(t, a)
			})
		})
	}
}
