package leader_test

import (
	"context"
	"errors"
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

func TestResignReturnsAfterTheReleaseAndTheCandidateDoesNotCampaign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := candidate(t, st, config("a"))
		a.OnDemote(func() { time.Sleep(time.Second) })
		mustLead(t, started(t, a))
		term := a.Term()
		begun := time.Now()
		if err := a.Resign(t.Context()); err != nil || time.Since(begun) != time.Second {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
		e, r := stored(t, st)
		want := record.Record{Token: term.Token, Term: term.Number, Reason: "resigned", By: "a"}
		if !e.Tombstone || r.ID != "" || r.Token != want.Token || r.Term != want.Term || r.Reason != want.Reason || r.By != want.By {
			t.Fatalf("%s", e.Value)
		}
		mustBe(t, a, leader.StateCandidate)
		time.Sleep(wait - 1)
		mustNotLead(t, a)
		time.Sleep(time.Nanosecond)
		mustLead(t, a) // alone, it comes back
		if !a.Term().Supersedes(term) {
			t.Fatalf("%v after %v", a.Term(), term)
		}
	})
}

func TestResignedCandidateCampaignsAgainOnceAnotherHasLed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		mustLead(t, a, b)
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLead(t, b, a)
		halt(t, b)
		mustLead(t, a, b)
	})
}

func TestResignationEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := candidate(t, memstore.New(), config("a"))
		a.OnDemote(func() { time.Sleep(3 * time.Second) })
		mustLead(t, started(t, a))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Resign(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		mustNotLead(t, a)
	})
}

func TestTransferGivesTheSuccessorAHeadStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		b, c := start(t, st, config("b")), start(t, st, config("c"))
		mustLead(t, a, b, c)
		for range 10 { // no luck: the others leave the vacancy alone
			if err := a.Transfer(t.Context(), "c"); err != nil {
				t.Fatal(err)
			}
			mustLead(t, c, a, b)
			if err := a.Transfer(t.Context(), "b"); !errors.Is(err, leader.ErrNotLeader) {
				t.Errorf("by a follower: %v", err)
			}
			if err := c.Transfer(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			mustLead(t, a, b, c)
		}
	})
}

func TestTransferToAMissingSuccessorCostsTheHeadStartOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		if err := a.Transfer(t.Context(), "nobody"); err != nil {
			t.Fatal(err)
		}
		if _, r := stored(t, st); r.Successor != "nobody" || r.Reason != "transferred" {
			t.Fatalf("%+v", r)
		}
		const headStart = ttl / 2
		time.Sleep(headStart - 1)
		mustNotLead(t, a, b)
		time.Sleep(time.Nanosecond)
		mustLead(t, b, a)
	})
}

// No record contains who is fit, so the leader cannot know. It stays back for a
// lease, as after a resignation, and there is no other candidate.
func TestTransferToAnUnfitSuccessorOfTwoCostsALeaseAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, h, cfg := memstore.New(), &health{}, config("b")
		h.set(func(context.Context) bool { return false })
		cfg.HealthChecker = h
		a, b := start(t, st, config("a")), start(t, st, cfg)
		time.Sleep(10 * heartbeat)
		if s := b.Status(); s.Barred != leader.ReasonUnhealthy {
			t.Fatalf("%v", s)
		}
		if err := a.Transfer(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(wait - 1)
		mustNotLead(t, a, b)
		time.Sleep(jitter + 1)
		mustLead(t, a, b)
	})
}

func TestTransferRequiresTheNameOfAnotherCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, memstore.New(), config("a"))
		for _, id := range []string{"", "a", "b\n", "\xff", strings.Repeat("<", 20_000)} {
			var ce *leader.ConfigError
			err := a.Transfer(t.Context(), id)
			if !errors.As(err, &ce) || ce.Field != "instanceID" || !errors.Is(err, leader.ErrInvalidConfig) {
				t.Errorf("%.20q: %v", id, err)
			}
		}
		mustLead(t, a)
	})
}

// handovers are the ways in which a leader leaves without having been asked by
// others.
var handovers = map[leader.Reason]func(*testing.T, leader.Election){
	leader.ReasonStopped: func(t *testing.T, e leader.Election) { halt(t, e) },
	leader.ReasonResigned: func(t *testing.T, e leader.Election) {
		if err := e.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	},
}

// A handover is the vacancy and the successor's claim, without any delay. All
// hear why the term ended.
func TestHandoverIsTwoWritesThatShowItsReason(t *testing.T) {
	for reason, leave := range handovers {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const trip = time.Millisecond
				writes, tell, told, heard := newJournal(), newJournal(), newJournal(), newJournal()
				f := network(t, func(c faultstore.Call) faultstore.Fate {
					if c.Op != faultstore.CompareAndSwap {
						return faultstore.Fate{}
					}
					writes.note("%s %v", c.Client, c.Write.Tombstone)
					return faultstore.Fate{Delay: trip}
				})
				a, b := start(t, f.Client("a"), config("a")), candidate(t, f.Client("b"), config("b"))
				b.OnLeaderChange(func(l leader.LeaderInfo) { tell.note("%s", news(l)) })
				time.Sleep(trip)
				mustLead(t, a, started(t, b))
				// c may not lead, and learns of it as well.
				cfg := config("c")
				cfg.HealthChecker, cfg.MaxConsecutiveFailures = unfit(), 1
				c := candidate(t, f.Client("c"), cfg)
				c.OnLeaderChange(func(l leader.LeaderInfo) { told.note("%s", news(l)) })
				started(t, c)
				time.Sleep(2 * heartbeat)
				go func() {
					_ = leader.ObserveFuncWithStore(t.Context(), f.Client("o"), "g", leader.Observer{
						Leader: func(l leader.LeaderInfo) { heard.note("%s", news(l)) }, Failed: func(error) {},
					})
				}()
				synctest.Wait()
				term, before := a.Term(), len(writes.all())
				begun := time.Now()
				leave(t, a)
				if took := time.Since(begun); took != trip {
					t.Errorf("a waited for %v", took)
				}
				time.Sleep(trip)
				mustLead(t, b, a)
				if got := writes.all()[before:]; !slices.Equal(got, []string{"a true", "b false"}) {
					t.Errorf("writes %q, want a's vacancy and b's claim", got)
				}
				if s := b.Status(); s.Reason != leader.ReasonVacant || s.Term <= term.Number {
					t.Errorf("%+v", s)
				}
				want := []string{
					fmt.Sprintf("a leads term %d", term.Number), fmt.Sprintf("term %d ended: %s by a", term.Number, reason),
					fmt.Sprintf("b leads term %d", b.Term().Number),
				}
				heard.demand(t, want...)
				want = append([]string{"term 0 ended: started by "}, want...)
				tell.demand(t, want...)
				told.demand(t, want...)
			})
		})
	}
}

func unfit() *health { return &health{check: func(context.Context) bool { return false }} }

func news(l leader.LeaderInfo) string {
	if l.ID != "" {
		return fmt.Sprintf("%s leads term %d", l.ID, l.Term)
	}
	return fmt.Sprintf("term %d ended: %s by %s", l.Term, l.Reason, l.By)
}

// A record's account of the previous term does not concern an observer that
// knows another one: terms in between were missed.
func TestObserverReportsTheEndOfTheTermBeforeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		holder := func(id string, prior map[string]any) map[string]any {
			return map[string]any{"id": id, "token": id, "ttl": ttl.Milliseconds(), "prior": prior}
		}
		put(t, st, "g", holder("a", nil))
		go func() {
			_ = leader.ObserveFuncWithStore(t.Context(), st, "g", leader.Observer{
				Leader: func(l leader.LeaderInfo) { j.note("%s", news(l)) }, Failed: func(error) {},
			})
		}()
		synctest.Wait()
		put(t, st, "g", holder("b", map[string]any{"term": 7, "reason": "stopped"}))
		synctest.Wait()
		put(t, st, "g", holder("c", map[string]any{"term": 2, "reason": "stopped"}))
		j.demand(t, "a leads term 1", "b leads term 2", "term 2 ended: stopped by b", "c leads term 3")
	})
}
