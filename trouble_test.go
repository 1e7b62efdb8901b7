package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

func TestDisconnectGraceEndsTheTermBeforeTheTrustDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, cfg := network(t, nil), config("a")
		cfg.DisconnectGracePeriod = 500 * time.Millisecond
		a := candidate(t, f.Client("a"), cfg)
		var ctx context.Context
		a.OnPromote(func(c context.Context, _ string) { ctx = c }) //nolint:fatcontext // looked at later
		mustLead(t, started(t, a))
		f.Partition("a")
		if s := a.Status().ConnectionStatus; s != "DISCONNECTED" {
			t.Error(s)
		}
		time.Sleep(500*time.Millisecond - 1)
		mustLead(t, a)
		f.Heal("a") // in time
		time.Sleep(time.Minute)
		mustLead(t, a)
		if s := a.Status().ConnectionStatus; s != "CONNECTED" {
			t.Error(s)
		}
		f.Partition("a")
		time.Sleep(500 * time.Millisecond)
		mustNotLead(t, a)
		if l := (*leader.LossError)(nil); !errors.As(context.Cause(ctx), &l) || l.Reason != leader.ReasonDisconnected {
			t.Error(context.Cause(ctx))
		}
		f.Heal("a")
		time.Sleep(2 * ttl)
		mustLead(t, a)
	})
}

// reporting is a network whose answers take so long, and on which a says that
// it is disconnected, whatever comes in. It bears 500 writes.
func reporting(t *testing.T, answer time.Duration, leads func()) (*faultstore.Faults, leader.Election) {
	t.Helper()
	f, cfg := network(t, func(c faultstore.Call) faultstore.Fate {
		if c.Op == faultstore.CompareAndSwap && c.N == 500 {
			t.Errorf("%d writes", c.N)
		}
		return faultstore.Fate{Reply: answer, Lose: c.N >= 500}
	}), config("a")
	cfg.DisconnectGracePeriod = 100 * time.Millisecond
	f.Report(store.Disconnected, "a")
	a := candidate(t, f.Client("a"), cfg)
	a.OnPromote(func(context.Context, string) { leads() })
	return f, started(t, a)
}

// The report of a lost connection and the answer to a claim travel by different
// ways: the claim is granted when the grace is over already.
func TestAClaimThatIsGrantedAfterTheGracePromotesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		f, a := reporting(t, 200*time.Millisecond, func() {
			if down {
				t.Error("promoted while the connection was down for longer than the grace")
			}
		})
		time.Sleep(10 * ttl)
		mustNotLead(t, a)
		down = false
		f.Report(store.Connected, "a")
		time.Sleep(2 * ttl)
		mustLead(t, a)
	})
}

// Who cannot keep what it wins would claim, leave, write a vacancy and claim
// again as fast as the store answers.
func TestALostConnectionOverWhichAnswersComeInIsNoHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a := reporting(t, time.Millisecond, func() {})
		for range 20 { // and when it flaps
			time.Sleep(ttl)
			f.Report(store.Connected, "a")
			time.Sleep(ttl / 10)
			f.Report(store.Disconnected, "a")
		}
		f.Report(store.Connected, "a")
		time.Sleep(2 * ttl)
		mustLead(t, a)
	})
}

func TestWithoutGraceADisconnectedLeaderLastsAsLongAsItsTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a := start(t, f.Client("a"), config("a"))
		f.Partition("a")
		time.Sleep(trust - 1)
		mustLead(t, a)
		time.Sleep(time.Nanosecond)
		mustNotLead(t, a)
	})
}

func TestUnhealthyLeaderReleasesAndFollowsUntilItRecovers(t *testing.T) {
	for name, sick := range map[string]func(context.Context) bool{
		"says no": func(context.Context) bool { return false },
		"panics":  func(context.Context) bool { panic("boom") },
		"hangs":   func(context.Context) bool { time.Sleep(20 * time.Second); return true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, h, cfg := memstore.New(), &health{}, config("a")
				cfg.HealthChecker = h
				a, b := start(t, st, cfg), start(t, st, config("b"))
				time.Sleep(10*time.Second + 1)
				mustLead(t, a, b)
				h.set(sick)
				time.Sleep(2 * heartbeat)
				mustLead(t, a, b) // the default is three failures in a row
				time.Sleep(3 * heartbeat)
				mustLead(t, b, a)
				halt(t, b)
				time.Sleep(10 * wait)
				mustNotLead(t, a) // unfit, although nobody leads
				if name == "says no" && a.Status().State != leader.StateCandidate {
					t.Error(status(a))
				}
				h.set(nil)
				time.Sleep(20*time.Second + wait)
				mustLead(t, a)
			})
		})
	}
}

func TestFailuresOfHealthCountOnlyInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, h, cfg := 0, &health{}, config("a")
		h.set(func(context.Context) bool { n++; return n%3 == 0 })
		cfg.HealthChecker = h
		a := start(t, memstore.New(), cfg)
		time.Sleep(time.Hour)
		mustLead(t, a)
	})
}

// A check that respects its context and ends with it has failed once, and not
// again when its answer is read.
func TestSlowHealthCheckFailsOnce(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			n, h, cfg := 0, &health{}, config("a")
			h.set(func(ctx context.Context) bool {
				n++
				if n <= 2 {
					<-ctx.Done()
					return false
				}
				return true
			})
			cfg.HealthChecker = h
			a := candidate(t, memstore.New(), cfg)
			a.OnDemote(func() {
				if n <= 3 {
					t.Errorf("demoted after %d checks", n)
				}
			})
			started(t, a)
			time.Sleep(20 * heartbeat)
			mustLead(t, a)
		})
	}
}

func TestHealthIsAskedEachHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, cfg := &health{}, config("a")
		h.set(func(context.Context) bool { time.Sleep(heartbeat * 9 / 10); return true })
		cfg.HealthChecker = h
		a := start(t, memstore.New(), cfg)
		time.Sleep(100*heartbeat + heartbeat/2)
		begun := time.Now()
		halt(t, a) // waits for the check that is under way
		if d := time.Since(begun); h.n != 100 || d != heartbeat*4/10 {
			t.Fatalf("%d checks, stopped within %v", h.n, d)
		}
	})
}

func TestStopDoesNotHangWithAHealthCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, cfg := &health{}, config("a")
		h.set(func(context.Context) bool { time.Sleep(time.Minute); return true })
		cfg.HealthChecker = h
		a := start(t, memstore.New(), cfg)
		time.Sleep(heartbeat * 3 / 2)
		begun := time.Now()
		halt(t, a)
		if d := time.Since(begun); d > heartbeat {
			t.Fatalf("stopped within %v", d)
		}
		time.Sleep(time.Minute)
	})
}

// A check that outlives its own time is not waited for once more, and one that
// respects its context is told of the stop as soon as the work is.
func TestAHealthCheckDelaysNoStopBeyondItsOwnTime(t *testing.T) {
	const work = 5 * heartbeat
	for name, c := range map[string]struct {
		check func(context.Context) bool
		at    time.Duration // when the stop is asked for; a check begins at each heartbeat
		want  time.Duration
	}{
		"respects its context": {func(ctx context.Context) bool { <-ctx.Done(); return true }, 1100 * time.Millisecond, 0},
		"ignores it":           {func(context.Context) bool { time.Sleep(time.Minute); return true }, 1100 * time.Millisecond, 900 * time.Millisecond},
		"ignores it for long":  {func(context.Context) bool { time.Sleep(time.Minute); return true }, 2500 * time.Millisecond, 0},
		"ends in time":         {func(context.Context) bool { time.Sleep(heartbeat / 2); return true }, 1100 * time.Millisecond, 400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stops := map[string]func(leader.HealthChecker) func() error{
					"election": func(h leader.HealthChecker) func() error {
						cfg := config("a")
						cfg.HealthChecker = h
						return start(t, memstore.New(), cfg).Stop
					},
					"manager": func(h leader.HealthChecker) func() error {
						cfg := spreading("a")
						cfg.Election.HealthChecker = h
						return newFleet(t, 2).start(memstore.New(), cfg).Stop
					},
				}
				for kind, begin := range stops {
					h := &health{}
					h.set(c.check)
					stop := begin(h)
					time.Sleep(c.at)
					begun := time.Now()
					if err := stop(); err != nil {
						t.Error(err)
					}
					if took := time.Since(begun); took != c.want {
						t.Errorf("%s: the stop took %v, want %v", kind, took, c.want)
					}
				}
				time.Sleep(2 * time.Minute)
			})
		})
	}
	t.Run("while the work stops", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, cfg, ended := &health{}, config("a"), time.Time{}
			h.set(func(ctx context.Context) bool { <-ctx.Done(); ended = time.Now(); return false })
			cfg.HealthChecker, cfg.HealthCheckInterval = h, work
			a := candidate(t, memstore.New(), cfg)
			a.OnDemote(func() { time.Sleep(work / 2) })
			a.OnPromote(func(context.Context, string) {})
			mustLead(t, started(t, a))
			time.Sleep(work + heartbeat)
			begun := time.Now()
			halt(t, a)
			if !ended.Equal(begun) || time.Since(begun) != work/2 {
				t.Errorf("the check ended %v after the stop was asked for, and that took %v", ended.Sub(begun), time.Since(begun))
			}
		})
	})
}

// An unfit candidate does not campaign, but tells its program all the same that
// the leader is gone.
func TestUnfitFollowerSeesASilentLeaderExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, h, cfg, j := network(t, nil), &health{}, config("b"), newJournal()
		h.set(func(context.Context) bool { return false })
		cfg.HealthChecker = h
		a, b := start(t, f.Client("a"), config("a")), candidate(t, f.Client("b"), cfg)
		b.OnLeaderChange(func(l leader.LeaderInfo) { j.note("%q %s", l.ID, l.Reason) })
		started(t, b)
		time.Sleep(10 * heartbeat)
		f.BlackHole("a")
		time.Sleep(wait + startWindow)
		mustNotLead(t, a, b)
		j.demand(t, `"" started`, `"a" `, `"" expired`)
		if b.LeaderID() != "" {
			t.Error(b.LeaderID())
		}
	})
}

func TestRenewalsAreRetriedUntilTheTrustEndsUnlessAttemptsAreBounded(t *testing.T) {
	for _, attempts := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			var refuse atomic.Bool
			failed := 0
			f := network(t, func(c faultstore.Call) faultstore.Fate {
				return faultstore.Fate{Refuse: refuse.Load() && c.Op == faultstore.CompareAndSwap}
			})
			cfg := config("a")
			cfg.RetryConfig = leader.RetryConfig{MaxAttempts: attempts, InitialBackoff: 100 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, Jitter: 1e-9}
			var lost leader.Transition
			cfg.Hooks.Transition = func(tr leader.Transition) {
				if tr.From == leader.StateLeader {
					lost = tr
				}
			}
			cfg.Hooks.Note = func(n leader.Note) {
				if n.Kind == leader.NoteFailed {
					failed++
				}
			}
			a := start(t, f.Client("a"), cfg)
			mustLead(t, a)
			begun := time.Now()
			refuse.Store(true)
			time.Sleep(ttl)
			mustNotLead(t, a)
			refuse.Store(false)
			after := lost.At.Sub(begun).Round(time.Millisecond)
			if attempts == 0 && (lost.Reason != leader.ReasonTrustExpired || after != trust) {
				t.Errorf("%s after %v", lost.Reason, after)
			}
			if attempts == 2 && (lost.Reason != leader.ReasonRetriesSpent || after != heartbeat+100*time.Millisecond) {
				t.Errorf("%s after %v", lost.Reason, after)
			}
			if failed < 2 {
				t.Errorf("%d failures noted", failed)
			}
			time.Sleep(2 * ttl)
			mustLead(t, a)
		})
	}
}

func TestRenewalWithoutAnAnswerIsResolvedAndTheTermGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{LoseReply: c.Op == faultstore.CompareAndSwap && c.N%5 == 3, Lose: c.Op == faultstore.Event}
		})
		j, cfg := newJournal(), config("a")
		cfg.Hooks.Note = func(n leader.Note) { j.note("%s", n.Kind) }
		a := start(t, f.Client("a"), cfg)
		term := a.Term()
		time.Sleep(time.Minute)
		mustLead(t, a)
		if a.Term() != term || j.count(leader.NoteResolved) == 0 {
			t.Fatalf("%v, was %v; %q", a.Term(), term, j.all())
		}
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

func TestPermanentFaultIsReturnedByStartWhichMayBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := fmt.Errorf("%w: the bucket is missing", store.ErrPermanent)
		st := &checked{Store: memstore.New(), err: fault}
		a := candidate(t, st, config("a"))
		for range 2 {
			if err := a.Start(t.Context()); !errors.Is(err, fault) {
				t.Fatal(err)
			}
			mustBe(t, a, leader.StateInit)
		}
		st.repair()
		mustLead(t, started(t, a))
	})
}

func TestStoreThatCanNotBeReachedIsAwaited(t *testing.T) {
	for _, fault := range []error{store.ErrTransient, store.ErrUnknown, errors.New("of no class")} {
		synctest.Test(t, func(t *testing.T) {
			st, j, cfg := &checked{Store: memstore.New(), err: fault}, newJournal(), config("a")
			cfg.Hooks.Note = func(n leader.Note) { j.note("%s %s", n.Kind, n.Text) }
			a := start(t, st, cfg)
			time.Sleep(time.Hour)
			mustBe(t, a, leader.StateInit)
			st.repair()
			time.Sleep(2 * ttl)
			mustLead(t, a)
			// Said at once, and then once a minute, however often it is tried.
			if n := j.count("not-ready " + fault.Error()); n < 50 || n > 61 {
				t.Errorf("%d notes", n)
			}
		})
	}
}

func TestWatchThatCanNotBeSetUpIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		refuse.Store(true)
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Refuse: refuse.Load() && c.Op == faultstore.Watch}
		})
		a := start(t, f.Client("a"), config("a"))
		time.Sleep(time.Hour)
		mustNotLead(t, a)
		refuse.Store(false)
		time.Sleep(2 * ttl)
		mustLead(t, a)
	})
}

func TestStoreWithoutAWatchIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newPlain()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		time.Sleep(10*time.Second + heartbeat/2)
		mustLead(t, a, b)
		if b.LeaderID() != "a" {
			t.Error(status(b))
		}
		put(t, st, record.ControlKey("g"), record.Request{Op: record.OpTransfer, Term: a.Term().Number, Successor: "b"})
		time.Sleep(2 * heartbeat)
		mustLead(t, b, a)
		if err := b.StopWithContext(t.Context(), leader.StopOptions{}); err != nil { // silent
			t.Fatal(err)
		}
		time.Sleep(wait + heartbeat + jitter)
		mustLead(t, a, b)
	})
}

// A write that replaces the record of a leader whose trust window is open ends
// the term, whatever it holds, and nothing else.
func TestForeignWriteOverALeadersRecordCostsTheTermOnly(t *testing.T) {
	put := func(value string) func(*memstore.Store) {
		return func(st *memstore.Store) { st.Put("g", []byte(value)) }
	}
	for name, c := range map[string]struct {
		do     func(*memstore.Store)
		reason leader.Reason
	}{
		"garbage":            {put("garbage\x00\xff"), leader.ReasonOverwritten},
		"a large value":      {put(strings.Repeat("x", 512<<10)), leader.ReasonOverwritten},
		"a large record":     {put(`{"id":"x","token":"` + strings.Repeat("y", 64<<10) + `"}`), leader.ReasonOverwritten},
		"nothing":            {put(""), leader.ReasonOverwritten},
		"an empty object":    {put("{}"), leader.ReasonOverwritten},
		"null":               {put("null"), leader.ReasonOverwritten},
		"an array":           {put(`[{"id":"x"}]`), leader.ReasonOverwritten},
		"deep objects":       {put(strings.Repeat(`{"a":`, 3000)), leader.ReasonOverwritten},
		"deep arrays":        {put(`{"meta":` + strings.Repeat("[", 15000) + `}`), leader.ReasonOverwritten},
		"wrong types":        {put(`{"id":7,"token":true,"ttl":"long"}`), leader.ReasonOverwritten},
		"a negative TTL":     {put(`{"id":"x","token":"y","ttl":-5}`), leader.ReasonOverwritten},
		"a huge number":      {put(`{"id":"x","token":"y","ttl":1e400}`), leader.ReasonOverwritten},
		"a huge term":        {put(`{"id":"x","token":"y","ttl":1000,"term":18446744073709551615}`), leader.ReasonOverwritten},
		"a vacancy, no mark": {put(`{"reason":"operator","by":"operator"}`), leader.ReasonOverwritten},
		"another claim":      {put(`{"id":"x","token":"y","ttl":500}`), leader.ReasonSuperseded},
		"a deletion":         {func(st *memstore.Store) { st.Delete("g") }, leader.ReasonDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, cfg := memstore.New(), config("a")
				var lost leader.Reason
				cfg.Hooks.Transition = func(tr leader.Transition) {
					if tr.Event == leader.EventDemoted {
						lost = tr.Reason
					}
				}
				a, b := start(t, st, cfg), start(t, st, config("b"))
				mustLead(t, a, b)
				first := a.Term()
				c.do(st)
				synctest.Wait()
				if lost != c.reason || a.Term() == first {
					t.Errorf("the term ended as %q, want %q: %s", lost, c.reason, status(a))
				}
				time.Sleep(2 * wait)
				if a.IsLeader() == b.IsLeader() {
					t.Fatalf("%s; %s", status(a), status(b))
				}
				// Both still take part.
				from, to := a, b
				if b.IsLeader() {
					from, to = b, a
				}
				if err := from.Resign(t.Context()); err != nil {
					t.Fatal(err)
				}
				mustLead(t, to, from)
			})
		})
	}
}

// What another program wrote says nothing of its lease's length: it is bounded
// by the store's, then by the setting, then by a guess that is warned of.
func TestWhatStoodThereBeforeBlocksForTheLeaseThatItMayHave(t *testing.T) {
	const hour = leader.MaxTTL
	for name, c := range map[string]struct {
		value           string
		foreign, maxAge time.Duration
		lease           time.Duration
		warned          bool
	}{
		"garbage":                           {"garbage", 0, 0, ttl, true},
		"a plain name":                      {"host-7", 0, 0, ttl, true},
		"a record without a lease":          {`{"id":"x","token":"t"}`, 0, 0, ttl, true},
		"garbage, set":                      {"garbage", 4 * ttl, 0, 4 * ttl, false},
		"a record without a lease, set":     {`{"id":"x","token":"t"}`, hour, 0, hour, false},
		"garbage, MaxAge":                   {"garbage", 0, 2 * ttl, 2 * ttl, false},
		"garbage, a MaxAge of a day":        {"garbage", 0, 24 * hour, hour, false},
		"a record without a lease, both":    {`{"id":"x"}`, 2 * ttl, 4 * ttl, 2 * ttl, false},
		"a plain name, the set is longer":   {"host-7", 4 * ttl, 2 * ttl, 2 * ttl, false},
		"an empty object":                   {"{}", 0, 0, ttl, true},
		"a vacancy without its mark":        {`{"reason":"cleared","by":"operator"}`, 0, 0, ttl, true},
		"a lease beyond all numbers":        {`{"id":"x","token":"y","ttl":1e30}`, 0, 0, ttl, true},
		"a record with the longest lease":   {`{"id":"x","ttl":9007199254740992}`, 0, 0, hour, false},
		"a record with a lease of its own":  {`{"id":"x","ttl":7000}`, hour, 0, 7 * time.Second, false},
		"a record with a lease, and MaxAge": {`{"id":"x","ttl":7000}`, 0, 2 * ttl, 7 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				mem.Put("g", []byte(c.value))
				st := &checked{Store: mem, report: store.Report{MaxAge: c.maxAge}}
				cfg, j := config("a"), newJournal()
				cfg.ForeignTTL = c.foreign
				cfg.Hooks.Note = func(n leader.Note) { j.note("%s %s", n.Kind, n.Text) }
				a := start(t, st, cfg)
				time.Sleep(c.lease*11/10 - 1)
				mustNotLead(t, a)
				time.Sleep(1 + jitter)
				mustLead(t, a)
				if warned := strings.Contains(strings.Join(j.all(), " "), "Set ForeignTTL"); warned != c.warned {
					t.Errorf("warned %v, want %v: %q", warned, c.warned, j.all())
				}
			})
		})
	}
}

// It is named as the leader for as long.
func TestAForeignHolderIsTheLeaderUntilItsLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		st.Put("g", []byte(`{"id":"x","token":"t"}`))
		cfg := config("a")
		cfg.ForeignTTL = 2 * ttl
		a := start(t, st, cfg)
		time.Sleep(2*wait - 1)
		if id := a.LeaderID(); id != "x" {
			t.Errorf("%q leads, says a", id)
		}
		time.Sleep(1 + jitter)
		mustLead(t, a)
	})
}

// When another program's holder has left, whoever watched it waits no longer
// than one who starts then, and who knows nothing of it.
func TestWhoWatchedAForeignHolderLeadsAsSoonAsOneWhoStarts(t *testing.T) {
	for _, value := range []string{"host-7", `{"id":"x","token":"t"}`} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			st.Put("g", []byte(value))
			cfg := config("a")
			cfg.ForeignTTL = leader.MaxTTL
			a := start(t, st, cfg)
			time.Sleep(wait)
			st.Delete("g")
			time.Sleep(wait - 1)
			mustNotLead(t, a)
			time.Sleep(1 + jitter)
			mustLead(t, a)
		})
	}
}

func TestBareDeletionIsNoPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a, b := start(t, f.Client("a"), config("a")), start(t, f.Client("b"), config("b"))
		f.BlackHole("a") // it hears nothing of the deletion
		f.Delete("g")
		time.Sleep(wait - 1)
		mustNotLead(t, b)
		time.Sleep(1 + jitter)
		mustLead(t, b, a)
	})
}
