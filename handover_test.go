package leader_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func TestResignationIsWrittenWhenItReturnsAndTheCandidateStandsBack(t *testing.T) {
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

func TestWhoResignedCampaignsAgainOnceAnotherHasLed(t *testing.T) {
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

func TestTransferToNobodyCostsTheHeadStartAndNoMore(t *testing.T) {
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

// No record says who is fit, so the leader cannot know. It stands back for a
// lease, as after a resignation, and nobody else is there.
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

func TestTransferDemandsTheNameOfAnotherCandidate(t *testing.T) {
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

func TestControlRequestsAreObeyedByTheTermTheyName(t *testing.T) {
	for name, c := range map[string]struct {
		req    func(term uint64) any
		obeyed bool
		reason leader.Reason
	}{
		"step-down": {func(term uint64) any {
			return record.Request{Op: record.OpStepDown, Term: term, By: "ops", Reason: "upgrade"}
		}, true, leader.ReasonSteppedDown},
		"transfer": {func(term uint64) any {
			return record.Request{Op: record.OpTransfer, Term: term, Successor: "b", By: "ops"}
		}, true, leader.ReasonTransferred},
		"written by another program": {func(term uint64) any {
			return json.RawMessage(fmt.Sprintf(`{"op":"transfer","term":%d,"successor":"b","by":"ops","reason":"upgrade"}`, term))
		}, true, leader.ReasonTransferred},
		"an earlier term":      {func(term uint64) any { return record.Request{Op: record.OpStepDown, Term: term - 1} }, false, ""},
		"a later term":         {func(term uint64) any { return record.Request{Op: record.OpStepDown, Term: term + 1} }, false, ""},
		"no term":              {func(uint64) any { return map[string]any{"op": "step-down"} }, false, ""},
		"a transfer to nobody": {func(term uint64) any { return record.Request{Op: record.OpTransfer, Term: term} }, false, ""},
		"an unknown operation": {func(term uint64) any { return record.Request{Op: "reboot", Term: term} }, false, ""},
		"a malformed one":      {func(uint64) any { return []string{"step-down"} }, false, ""},
		"a hostile one": {func(term uint64) any {
			return record.Request{Op: record.OpStepDown, Term: term, By: strings.Repeat("<", 2500)}
		}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				a := start(t, st, config("a"))
				b := candidate(t, st, config("b"))
				var vacant leader.LeaderInfo
				b.OnLeaderChange(func(l leader.LeaderInfo) {
					if l.ID == "" {
						vacant = l
					}
				})
				started(t, b)
				mustLead(t, a, b)
				put(t, st, record.ControlKey("g"), c.req(a.Term().Number))
				if !c.obeyed {
					mustLead(t, a, b)
					return
				}
				mustLead(t, b, a)
				if vacant.Reason != c.reason || vacant.By != "ops" {
					t.Errorf("%+v", vacant)
				}
			})
		})
	}
}

// The request still stands in the register when the candidate leads again.
func TestControlRequestDoesNotDeposeALaterTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		put(t, st, record.ControlKey("g"), record.Request{Op: record.OpStepDown, Term: a.Term().Number})
		mustNotLead(t, a)
		time.Sleep(10 * wait)
		mustLead(t, a)
		c := start(t, st, config("c"))
		mustLead(t, a, c)
		halt(t, a)
		mustLead(t, c)
	})
}

// What the leader hears first of its own loss says why; the vacancy that
// follows says who asked besides.
func TestTheLeaderItselfSeesWhoPausedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := candidate(t, memstore.New(), config("a"))
		var last leader.LeaderInfo
		e.OnLeaderChange(func(info leader.LeaderInfo) { last = info })
		started(t, e)
		if err := e.Pause(t.Context(), "upgrade"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if last.By != "a" || last.Why != "upgrade" || last.Reason != leader.ReasonPaused {
			t.Errorf("told %+v", last)
		}
	})
}
