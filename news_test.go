package leader_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A leader that was not told so does nothing, while nobody else may act.
func TestABlockingNewsCallbackDoesNotWithholdOnPromote(t *testing.T) {
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

func TestAnOnPromoteThatLastsDoesNotWithholdNews(t *testing.T) {
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

// A callback that lags skips to the latest, so that one that blocks costs no
// memory. What it hears keeps its order.
func TestANewsCallbackThatLagsSkipsToTheLatest(t *testing.T) {
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
func TestStopFromNewsBesideAnOnPromoteThatLasts(t *testing.T) {
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
func TestTheHookForCallbacksIsCalledOneAtATime(t *testing.T) {
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
func TestNewsThatOutliveAStopAreReported(t *testing.T) {
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
func TestAHookThatOutlastsTheLeadersLeaseHidesItsEndFromNobody(t *testing.T) {
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
