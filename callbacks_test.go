package leader_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func TestCallbacksComeInOrderAndAlternate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, news, terms := memstore.New(), newJournal(), newJournal()
		a := candidate(t, st, config("a"))
		a.OnLeaderChange(func(l leader.LeaderInfo) { news.note("leader %q %s", l.ID, l.Reason) })
		a.OnPromote(func(context.Context, string) { terms.note("promote") })
		a.OnDemote(func() { terms.note("demote") })
		started(t, a)
		news.demand(t, `leader "" started`, `leader "" absent`, `leader "a" `)
		st.Delete("g")
		synctest.Wait()
		time.Sleep(2 * wait)
		mustLead(t, a)
		halt(t, a)
		terms.demand(t, "promote", "demote", "promote", "demote")
	})
}

func TestCallbacksRunInTheOrderOfTheirRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, a := newJournal(), candidate(t, memstore.New(), config("a"))
		for _, n := range []string{"1", "2", "3"} {
			a.OnPromote(func(context.Context, string) { j.note("promote %s", n) })
			a.OnTerm(func(_ context.Context, term leader.Term) { j.note("term %d %s", term.Number, n) })
			a.OnDemote(func() { j.note("demote %s", n) })
		}
		a.OnPromote(nil)
		a.OnTerm(nil)
		started(t, a)
		mustLead(t, a)
		halt(t, a)
		j.demand(t, "promote 1", "term 1 1", "promote 2", "term 1 2", "promote 3", "term 1 3", "demote 1", "demote 2", "demote 3")
	})
}

func TestOnTermGetsTheTermOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := candidate(t, memstore.New(), config("a"))
		var given, carried leader.Term
		a.OnTerm(func(ctx context.Context, term leader.Term) {
			given = term
			carried, _ = leader.TermFromContext(ctx)
		})
		started(t, a)
		mustLead(t, a)
		if given.IsZero() || given != carried || given != a.Term() {
			t.Errorf("given %v, carried %v, is %v", given, carried, a.Term())
		}
	})
}

// A role has one callback for its start.
func TestRoleTakesOnPromoteOrOnTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("a")
		cfg.Group = ""
		m, err := leader.NewRoleManagerWithStore(memstore.New(), leader.RoleManagerConfig{Election: cfg})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.Stop() }()
		var led leader.Term
		both := leader.Role{
			Name: "x", OnPromote: func(context.Context, string) {},
			OnTerm: func(_ context.Context, term leader.Term) { led = term },
		}
		if err := m.Add(t.Context(), both); !slices.Equal(fields(err), []string{"OnTerm"}) {
			t.Errorf("both: %v", err)
		}
		both.OnPromote = nil
		if err := errors.Join(m.Add(t.Context(), both), m.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		mustLead(t, m.Election("x"))
		if led.IsZero() || led != m.Election("x").Term() {
			t.Errorf("notified of %v", led)
		}
	})
}

// A second OnPromote that waits behind a first must not be called for a term
// that ended meanwhile.
func TestOnPromoteIsNotCalledForATermThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, a := newJournal(), candidate(t, memstore.New(), config("a"))
		a.OnPromote(func(ctx context.Context, _ string) { j.note("first"); <-ctx.Done() })
		a.OnPromote(func(ctx context.Context, _ string) { j.note("second: %v", ctx.Err()) })
		started(t, a)
		mustLead(t, a)
		halt(t, a)
		j.demand(t, "first")
	})
}

func TestOnDemoteWaitsForAnOnPromoteThatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		a := candidate(t, st, config("a"))
		a.OnPromote(func(ctx context.Context, _ string) {
			<-ctx.Done()
			time.Sleep(time.Second)
			j.noteAt("work stopped")
		})
		a.OnDemote(func() { j.noteAt("demoted") })
		started(t, a)
		time.Sleep(10 * time.Second)
		mustLead(t, a)
		halt(t, a)
		j.demand(t, "11s work stopped", "11s demoted")
	})
}

// misbehave are ways in which a callback ends as it should not.
var misbehave = map[string]func(){
	"panic":     func() { panic("boom") },
	"panic nil": func() { panic(nil) },
	"exit":      runtime.Goexit,
	"nil map":   func() { map[string]int(nil)["x"] = 1 }, //nolint:staticcheck // that is the case
}

func TestPanicInPromoteEndsTheTermAndAnotherLeads(t *testing.T) {
	for name, fail := range misbehave {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, j := memstore.New(), newJournal()
				cfg := config("a")
				cfg.Hooks.Note = func(n leader.Note) { j.note("%s %.17s", n.Kind, n.Text) }
				a := candidate(t, st, cfg)
				var ctx context.Context
				a.OnPromote(func(c context.Context, _ string) { ctx = c; fail() }) //nolint:fatcontext // looked at later
				a.OnPromote(func(context.Context, string) { t.Error("went on") })
				a.OnDemote(func() { j.note("demote") })
				started(t, a)
				mustBe(t, a, leader.StateCandidate)
				b := start(t, st, config("b"))
				mustLead(t, b, a)
				if j.count("panic OnPromote panicke") != 1 || j.count("demote") != 1 {
					t.Errorf("%q", j.all())
				}
				if l := (*leader.LossError)(nil); !errors.As(context.Cause(ctx), &l) || l.Reason != leader.ReasonPanicked {
					t.Errorf("%v", context.Cause(ctx))
				}
				halt(t, b)
				time.Sleep(2 * wait)
				if _, r := stored(t, st); r.ID != "" && r.ID != "a" {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

func TestPanicInDemoteKeepsNeitherTheRecordNorTheCandidate(t *testing.T) {
	for name, fail := range misbehave {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, j := memstore.New(), newJournal()
				cfg := config("a")
				cfg.Hooks.Note = func(n leader.Note) { j.note("%s", n.Kind) }
				a := candidate(t, st, cfg)
				a.OnDemote(fail)
				a.OnDemote(func() { j.note("second") })
				started(t, a)
				b := start(t, st, config("b"))
				mustLead(t, a, b)
				if err := a.Resign(t.Context()); err != nil {
					t.Fatal(err)
				}
				mustLead(t, b, a)
				halt(t, b)
				mustLead(t, a)
				if j.count(leader.NotePanic) != 1 || j.count("second") != 1 {
					t.Errorf("%q", j.all())
				}
				halt(t, a)
			})
		})
	}
}

func TestPanicInTheLastLeaderChangeIsReported(t *testing.T) {
	for name, fail := range misbehave {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, cfg := newJournal(), config("a")
				cfg.Hooks.Note = func(n leader.Note) { j.note("%s", n.Kind) }
				a := candidate(t, memstore.NewWithOptions(memstore.Options{FirstRevision: 7}), cfg)
				a.OnLeaderChange(func(l leader.LeaderInfo) {
					if l.ID == "" && l.Reason == leader.ReasonStopped {
						fail()
					}
				})
				started(t, a)
				mustLead(t, a)
				halt(t, a)
				j.demand(t, leader.NotePanic)
			})
		})
	}
}

func TestPanicOfACallbackThatEndsAfterTheElectionIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, cfg := newJournal(), config("a")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind != leader.NoteWarning {
				j.noteAt("%s", n.Kind)
			}
		}
		st := memstore.New()
		start(t, st, config("b"))
		a := candidate(t, st, cfg)
		a.OnLeaderChange(func(l leader.LeaderInfo) {
			if l.ID == "b" {
				time.Sleep(time.Second)
				panic("boom")
			}
		})
		started(t, a)
		halt(t, a) // waits for the callback
		j.demand(t, "1s panic")
	})
}

func TestCallsFromWithinCallbacksDoNotDeadlock(t *testing.T) {
	calls := map[string]func(context.Context, leader.Election) error{
		"Stop": func(_ context.Context, e leader.Election) error { return e.Stop() },
		"StopWithContext": func(ctx context.Context, e leader.Election) error {
			return e.StopWithContext(ctx, leader.StopOptions{})
		},
		"Resign":   func(ctx context.Context, e leader.Election) error { return e.Resign(ctx) },
		"Transfer": func(ctx context.Context, e leader.Election) error { return e.Transfer(ctx, "b") },
		"Validate": func(ctx context.Context, e leader.Election) error {
			_ = e.ValidateToken(ctx)
			return e.Stop()
		},
		"the readers": func(ctx context.Context, e leader.Election) error {
			_, _, _, _, _ = e.IsLeader(), e.LeaderID(), e.Token(), e.Status(), e.TrustUntil()
			for range e.Observe(ctx) {
				break
			}
			return e.Stop()
		},
	}
	register := map[string]func(leader.Election, func()){
		"OnPromote":      func(e leader.Election, f func()) { e.OnPromote(func(context.Context, string) { f() }) },
		"OnDemote":       func(e leader.Election, f func()) { e.OnDemote(f) },
		"OnLeaderChange": func(e leader.Election, f func()) { e.OnLeaderChange(func(leader.LeaderInfo) { f() }) },
	}
	for call, do := range calls {
		for callback, on := range register {
			t.Run(call+" in "+callback, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := memstore.New()
					a := candidate(t, st, config("a"))
					n := 0
					on(a, func() {
						n++
						if n > 20 {
							return
						}
						if err := do(t.Context(), a); err != nil && !errors.Is(err, leader.ErrNotLeader) {
							t.Errorf("%v", err)
						}
					})
					begun := time.Now()
					started(t, a)
					synctest.Wait()
					_ = a.Resign(t.Context())
					halt(t, a)
					if n == 0 || time.Since(begun) > 0 {
						t.Errorf("called %d times, in %v", n, time.Since(begun))
					}
				})
			})
		}
	}
}

func TestWorkThatOutlivesDemoteTimeoutIsReportedAndBarsTheCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		cfg := config("a")
		cfg.Hooks.Note = func(n leader.Note) { j.noteAt("%s", n.Kind) }
		cfg.DemoteTimeout = 4 * time.Second
		a := candidate(t, st, cfg)
		work := time.Minute
		a.OnDemote(func() { time.Sleep(work); work = time.Second; j.noteAt("demoted") })
		started(t, a)
		mustLead(t, a)
		j.mu.Lock()
		j.lines = nil
		j.mu.Unlock()
		go func() { _ = a.Resign(t.Context()) }()
		time.Sleep(time.Minute - 1)
		mustNotLead(t, a)
		if _, r := stored(t, st); r.ID != "" {
			t.Fatalf("%+v", r)
		}
		time.Sleep(time.Nanosecond)
		mustLead(t, a)
		j.demand(t, "4s overrun", "1m0s demoted")
		// The overrun is past: this stop is in time, and does not report it,
		// however long ago it was.
		time.Sleep(time.Hour)
		halt(t, a)
		j.demand(t, "4s overrun", "1m0s demoted", "1h1m1s demoted")
	})
}

// The two wait for each other, for ever: the candidate reports which waits for
// which, and repeats that for as long as it cannot campaign.
func TestOnPromoteThatWaitsForOnDemoteIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, end := newJournal(), make(chan struct{})
		cfg := config("a")
		cfg.DemoteTimeout = 4 * time.Second
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind != leader.NoteOverrun {
				return
			}
			j.noteAt("overrun")
			for _, word := range []string{"OnPromote has not returned within DemoteTimeout (4s)", "<-ctx.Done()", "end the work in OnDemote"} {
				if !strings.Contains(n.Text, word) {
					t.Errorf("no %q in %q", word, n.Text)
				}
			}
		}
		a := candidate(t, memstore.New(), cfg)
		a.OnPromote(func(context.Context, string) { <-end })
		a.OnDemote(func() {
			select {
			case <-end:
			default:
				close(end) // as the program meant it
			}
		})
		mustLead(t, started(t, a))
		go func() { _ = a.Resign(t.Context()) }()
		time.Sleep(2*time.Minute + 5*time.Second)
		mustNotLead(t, a)
		j.demand(t, "4s overrun", "1m4s overrun", "2m4s overrun")
		close(end)
		mustLead(t, a)
		time.Sleep(time.Hour)
		j.demand(t, "4s overrun", "1m4s overrun", "2m4s overrun")
		mustLead(t, a)
	})
}

// As in a Role, nil means no callback.
func TestNilCallbackIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := candidate(t, memstore.New(), config("a"))
		a.OnPromote(nil)
		a.OnDemote(nil)
		a.OnLeaderChange(nil)
		a.OnCampaign(nil)
		started(t, a)
		time.Sleep(10 * ttl)
		mustLead(t, a)
		halt(t, a)
		if s := a.Status(); s.Reason != leader.ReasonStopped {
			t.Errorf("%v", s)
		}
	})
}

// A leader whose program does not know it does nothing, while nobody else may
// act.
func TestBlockingOnLeaderChangeDoesNotDelayOnPromote(t *testing.T) {
	for name, register := range newsKinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, release := newJournal(), make(chan struct{})
				a := candidate(t, memstore.New(), config("a"))
				register(a, func() { <-release })
				a.OnPromote(func(context.Context, string) { j.note("promote") })
				a.OnDemote(func() { j.note("demote") })
				started(t, a)
				mustLead(t, a)
				j.demand(t, "promote")
				if err := a.Resign(t.Context()); err != nil {
					t.Error(err)
				}
				j.demand(t, "promote", "demote")
				close(release)
				halt(t, a)
			})
		})
	}
}

// newsKinds registers a callback of each kind that belongs to no term.
var newsKinds = map[string]func(leader.Election, func()){
	"OnLeaderChange": func(e leader.Election, f func()) { e.OnLeaderChange(func(leader.LeaderInfo) { f() }) },
	"OnCampaign":     func(e leader.Election, f func()) { e.OnCampaign(func(leader.Reason) { f() }) },
}

func TestLastingOnPromoteDoesNotDelayOnLeaderChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		a := candidate(t, st, config("a"))
		release := make(chan struct{})
		a.OnPromote(func(context.Context, string) { <-release })
		a.OnLeaderChange(func(l leader.LeaderInfo) { j.note("%q %s", l.ID, l.Reason) })
		started(t, a)
		mustLead(t, a)
		st.Delete("g")
		synctest.Wait()
		j.demand(t, `"" started`, `"" absent`, `"a" `, `"" deleted`)
		close(release)
		halt(t, a)
	})
}

// A callback that lags skips to the latest, so that a blocked callback costs no
// memory. Its calls keep their order.
func TestSlowOnLeaderChangeSkipsToTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := candidate(t, st, config("a")), candidate(t, st, config("b"))
		release := make(chan struct{})
		var heard []uint64
		blocked, campaigns := false, 0
		b.OnLeaderChange(func(l leader.LeaderInfo) {
			if l.ID == "a" && !blocked {
				blocked = true
				<-release
			}
			heard = append(heard, l.Term)
		})
		b.OnCampaign(func(leader.Reason) { campaigns++ })
		started(t, a)
		started(t, b)
		for range 100 {
			if err := a.Resign(t.Context()); err != nil { // b leads now
				t.Fatal(err)
			}
			mustLead(t, b, a)
			if err := b.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			mustLead(t, a, b)
		}
		blocked = true
		before := len(heard)
		close(release)
		synctest.Wait()
		if n := len(heard) - before; n > 17+1 {
			t.Errorf("%d changes waited", n)
		}
		if campaigns > 17 {
			t.Errorf("%d campaigns waited", campaigns)
		}
		if last := heard[len(heard)-1]; last != a.Term().Number {
			t.Errorf("heard last of term %d, not %d", last, a.Term().Number)
		}
		for i := range heard[1:] {
			if heard[i+1] < heard[i] {
				t.Errorf("out of order: %v", heard)
			}
		}
		halt(t, b, a)
	})
}

// Either kind may stop the election while the other one runs.
func TestStopFromOnLeaderChangeBesideALastingOnPromote(t *testing.T) {
	for name, register := range newsKinds {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprint(name, first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := candidate(t, memstore.New(), config("a"))
					var n atomic.Int32
					register(a, func() {
						n.Add(1)
						if first {
							if err := a.Stop(); err != nil {
								t.Error(err)
							}
						} else {
							<-a.Done() // until DemoteTimeout is over
						}
					})
					a.OnPromote(func(ctx context.Context, _ string) {
						if !first {
							if err := a.Stop(); err != nil {
								t.Error(err)
							}
						}
						<-ctx.Done()
					})
					begun := time.Now()
					started(t, a)
					<-a.Done()
					if took := time.Since(begun); first && took > 0 || n.Load() == 0 {
						t.Errorf("ended after %v, %d calls", took, n.Load())
					}
				})
			})
		}
	}
}

// Hooks.Callback is called by either courier, and yet one call at a time.
func TestCallbackHookIsCalledOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("a")
		inside := 0
		cfg.Hooks.Callback = func(leader.Callback) {
			inside++
			if inside > 1 {
				t.Error("two at a time")
			}
			time.Sleep(time.Millisecond)
			inside--
		}
		a := candidate(t, memstore.New(), cfg)
		a.OnPromote(func(context.Context, string) {})
		a.OnLeaderChange(func(leader.LeaderInfo) {})
		a.OnCampaign(func(leader.Reason) {})
		started(t, a)
		time.Sleep(ttl)
		halt(t, a)
	})
}

// Stop then returns ErrDemoteTimeout, and the operator is to know why.
func TestOnLeaderChangeThatOutlivesAStopIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, cfg := newJournal(), config("a")
		cfg.DemoteTimeout = ttl
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteOverrun {
				j.note("overrun")
			}
		}
		a := candidate(t, memstore.New(), cfg)
		release := make(chan struct{})
		a.OnLeaderChange(func(leader.LeaderInfo) { <-release })
		started(t, a)
		if err := a.Stop(); !errors.Is(err, leader.ErrDemoteTimeout) || j.count("overrun") != 1 {
			t.Errorf("Stop: %v; %q", err, j.all())
		}
		close(release)
	})
}

// A follower that may not campaign asks to be woken at the end of the leader's
// lease for its observers alone. They are to hear of it also if a hook has
// outlasted that instant.
func TestHookThatOutlastsTheLeaseDoesNotHideItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j, cfg := memstore.New(), newJournal(), config("b")
		cfg.HealthChecker, cfg.HealthCheckInterval, cfg.MaxConsecutiveFailures = unfit(), heartbeat, 1
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteMalformed {
				time.Sleep(2 * time.Nanosecond)
			}
		}
		put(t, st, "g", record.Record{ID: "x", Token: "t", TTL: ttl.Milliseconds(), Term: 5})
		b := candidate(t, st, cfg)
		b.OnLeaderChange(func(l leader.LeaderInfo) { j.note("%q %s", l.ID, l.Reason) })
		started(t, b)
		time.Sleep(wait - 1)
		st.Put("_ctl.g", []byte("garbage"))
		j.demand(t, `"" started`, `"x" `)
		time.Sleep(2 * time.Nanosecond)
		j.demand(t, `"" started`, `"x" `, `"" expired`)
		if bar := b.Status().Barred; bar != leader.ReasonUnhealthy {
			t.Errorf("barred: %q", bar)
		}
		halt(t, b)
	})
}

// A program that leads already would wait for a callback that it registers too
// late, or miss its term.
func TestACallbackThatIsRegisteredAfterStartIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("a")
		var warned []string
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteWarning && strings.Contains(n.Text, "after Start") {
				warned = append(warned, n.Text)
			}
		}
		a := candidate(t, memstore.New(), cfg)
		called := 0
		late := func() {
			a.OnPromote(func(context.Context, string) { called++ })
			a.OnTerm(func(context.Context, leader.Term) { called++ })
			a.OnDemote(func() { called++ })
			a.OnLeaderChange(func(leader.LeaderInfo) { called++ })
			a.OnCampaign(func(leader.Reason) { called++ })
		}
		mustLead(t, started(t, a))
		late()
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * ttl)
		mustLead(t, a)
		if called > 0 || len(warned) != 5 {
			t.Errorf("%d calls; warned of %q", called, warned)
		}
	})
}
