package leader_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

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

// The register still contains the request when the candidate leads again.
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

// The leader's first report of its own loss contains the reason; the vacancy
// that follows also contains who asked.
func TestPausedLeaderSeesWhoPausedIt(t *testing.T) {
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

// A leader of an earlier version that left by itself, just as it was asked to,
// did not leave because of that. It has written no vacancy.
func TestStepDownReturnsTheReasonOfAHandoverWithoutAVacancy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		put(t, st, "g", map[string]any{"id": "a", "token": "a", "ttl": ttl.Milliseconds()})
		c, err := leader.NewControlWithStore(st, "ops")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(heartbeat)
			put(t, st, "g", map[string]any{"id": "b", "token": "b", "ttl": ttl.Milliseconds(), "prior": map[string]any{"term": 1, "reason": "stopped"}})
		}()
		h, err := c.StepDown(t.Context(), "g", "test")
		if !errors.Is(err, leader.ErrTermOver) || h.Obeyed || h.Vacancy.Reason != leader.ReasonStopped || h.To.ID != "b" {
			t.Errorf("%v: %+v", err, h)
		}
	})
}

func control(t *testing.T, st store.Store) *leader.Control {
	t.Helper()
	c, err := leader.NewControlWithStore(st, "ops")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestStepDownReturnsWhenAnotherLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const claim = 10 * time.Millisecond
		net := gated(t, claim)
		a := candidate(t, net.Client("a"), config("a"))
		a.OnDemote(func() { time.Sleep(time.Second) })
		mustLead(t, started(t, a))
		term := a.Term()
		b := start(t, net.Client("b"), config("b"))
		h, err := control(t, net.Client("ops")).StepDown(lasting(t, time.Minute), "g", "upgrade")
		if err != nil {
			t.Fatal(err)
		}
		mustLead(t, b, a)
		if h.From.ID != "a" || h.From.Term != term.Number || h.To.ID != "b" || h.To.Term != b.Term().Number {
			t.Errorf("%+v", h)
		}
		if h.Drain != time.Second || h.Gap != claim {
			t.Errorf("work stopped after %v, and nobody led for %v", h.Drain, h.Gap)
		}
	})
}

// gated delays the follower's claims, so that observers see the vacancy.
func gated(t *testing.T, delay time.Duration) *faultstore.Faults {
	return network(t, func(c faultstore.Call) (f faultstore.Fate) {
		if c.Op == faultstore.CompareAndSwap && c.Key == "g" && c.Client == "b" {
			f.Delay = delay
		}
		return f
	})
}

func TestControlRequestShowsWhoAskedAndWhy(t *testing.T) {
	for op, reason := range map[leader.Operation]leader.Reason{
		leader.OpStepDown: leader.ReasonSteppedDown,
		leader.OpTransfer: leader.ReasonTransferred,
		leader.OpPause:    leader.ReasonPaused,
	} {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { whoAskedReachesEverybody(t, op, reason) })
		})
	}
}

func whoAskedReachesEverybody(t *testing.T, op leader.Operation, reason leader.Reason) {
	net := gated(t, 100*time.Millisecond)
	var log bytes.Buffer
	var lost leader.Transition
	cfg := config("a")
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Hooks.Transition = func(tr leader.Transition) {
		if tr.Event == leader.EventDemoted {
			lost = tr
		}
	}
	a, b := start(t, net.Client("a"), cfg), candidate(t, net.Client("b"), config("b"))
	mustLead(t, a)
	var heard []leader.LeaderInfo
	b.OnLeaderChange(func(l leader.LeaderInfo) {
		if l.ID == "" {
			heard = append(heard, l)
		}
	})
	started(t, b)
	term := a.Term()
	r := leader.Request{Op: op, Group: "g", By: "alice", Why: "new kernel"}
	if op == leader.OpTransfer {
		r.Successor = "b"
	}
	h, err := control(t, net.Client("ops")).Ask(lasting(t, time.Minute), r)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	v := h.Vacancy
	if !h.Obeyed || v.Reason != reason || v.By != "alice" || v.Why != "new kernel" || v.Term != term.Number || v.Correlation != term.Correlation() {
		t.Errorf("the operator saw %+v", h)
	}
	if op != leader.OpPause && h.Gap < 100*time.Millisecond {
		t.Errorf("nobody led for %v", h.Gap)
	}
	if len(heard) == 0 || heard[len(heard)-1].Reason != reason || heard[len(heard)-1].By != "alice" || heard[len(heard)-1].Why != "new kernel" {
		t.Errorf("the follower heard %+v", heard)
	}
	if lost.Reason != reason || lost.By != "alice" || lost.Why != "new kernel" || lost.Term != term {
		t.Errorf("the hook got %+v", lost)
	}
	if !strings.Contains(log.String(), `by=alice why="new kernel"`) {
		t.Errorf("the log contains\n%s", &log)
	}
}

func TestTransferReturnsWhenTheSuccessorLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b, c := start(t, st, config("a")), start(t, st, config("b")), start(t, st, config("c"))
		mustLead(t, a, b, c)
		h, err := control(t, st).Transfer(lasting(t, time.Minute), "g", "c", "")
		if err != nil || h.To.ID != "c" {
			t.Fatalf("%v: %+v", err, h)
		}
		mustLead(t, c, a, b)
	})
}

func TestTransferToAMissingSuccessorReturnsTheActualOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		h, err := control(t, st).Transfer(lasting(t, time.Minute), "g", "nobody", "")
		if !errors.Is(err, leader.ErrNotSuccessor) || h.To.ID != "b" || !h.Obeyed || h.Gap < ttl/2 || h.Gap > ttl/2+contention {
			t.Fatalf("%v: %+v", err, h)
		}
		mustLead(t, b, a)
	})
}

func TestTransferToTheLeaderIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		for _, term := range []uint64{0, a.Term().Number} {
			r := leader.Request{Op: leader.OpTransfer, Group: "g", Term: term, Successor: "a"}
			if _, err := control(t, st).Ask(lasting(t, time.Minute), r); !errors.Is(err, leader.ErrInvalidConfig) {
				t.Errorf("term %d: %v", term, err)
			}
		}
		mustLead(t, a)
	})
}

func TestControlRequestForATermThatIsOverIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		old := a.Term().Number
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLead(t, b, a)
		c := control(t, st)
		h, err := c.Ask(lasting(t, time.Minute), leader.Request{Op: leader.OpStepDown, Group: "g", Term: old})
		if !errors.Is(err, leader.ErrTermOver) || h.Obeyed || h.Gap != 0 || !strings.Contains(err.Error(), `"b" leads`) {
			t.Errorf("%v: %+v", err, h)
		}
		if s := state(t, c); s.Pending.Op != "" || s.Leader.ID != "b" {
			t.Errorf("%+v", s)
		}
		mustLead(t, b, a)
	})
}

func state(t *testing.T, c *leader.Control) leader.ControlState {
	t.Helper()
	s, err := c.State(lasting(t, time.Minute), "g")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStepDownIsNotObeyedByALeaderThatLeavesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := gated(t, 100*time.Millisecond)
		a := candidate(t, net.Client("a"), config("a"))
		a.OnDemote(func() { time.Sleep(time.Second) })
		mustLead(t, started(t, a))
		b := start(t, net.Client("b"), config("b"))
		go func() { _ = a.Resign(t.Context()) }()
		synctest.Wait() // its work is being stopped, and its record still names it
		h, err := control(t, net.Client("ops")).StepDown(lasting(t, time.Minute), "g", "")
		if !errors.Is(err, leader.ErrTermOver) || h.Vacancy.Reason != leader.ReasonResigned || h.To.ID != "b" {
			t.Errorf("%v: %+v", err, h)
		}
		mustLead(t, b, a)
	})
}

func TestStepDownDistinguishesASilentLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := network(t, nil)
		a, b := start(t, net.Client("a"), config("a")), start(t, net.Client("b"), config("b"))
		mustLead(t, a, b)
		net.BlackHole("a")
		h, err := control(t, net.Client("ops")).StepDown(lasting(t, time.Minute), "g", "")
		if !errors.Is(err, leader.ErrTermOver) || h.Obeyed || h.Vacancy.Reason != leader.ReasonExpired || h.To.ID != "b" {
			t.Errorf("%v: %+v", err, h)
		}
		mustLead(t, b, a)
	})
}

func TestStepDownWithoutALeaderReturnsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		c := control(t, st)
		_, err := c.StepDown(lasting(t, time.Minute), "g", "")
		if !errors.Is(err, leader.ErrNoLeader) || !strings.Contains(err.Error(), "absent") {
			t.Error(err)
		}
		halt(t, start(t, st, config("a")))
		_, err = c.StepDown(lasting(t, time.Minute), "g", "")
		if !errors.Is(err, leader.ErrNoLeader) || !strings.Contains(err.Error(), "stopped") {
			t.Error(err)
		}
	})
}

func TestStepDownEndsWithItsContextAndReturnsItsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := candidate(t, st, config("a"))
		a.OnDemote(func() { time.Sleep(2 * time.Second) })
		mustLead(t, started(t, a))
		h, err := control(t, st).StepDown(lasting(t, time.Second), "g", "")
		if errors.Is(err, leader.ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) || h.From.ID != "a" || h.Obeyed {
			t.Errorf("while it drains: %v: %+v", err, h)
		}
		h, err = control(t, st).StepDown(lasting(t, 2*time.Second), "g", "")
		if !errors.Is(err, leader.ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) || !h.Obeyed || h.To.ID != "" {
			t.Errorf("while it stays back: %v: %+v", err, h)
		}
	})
}

func TestLoneLeaderComesBackAfterItSteppedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		mustLead(t, start(t, st, config("a")))
		h, err := control(t, st).StepDown(lasting(t, time.Minute), "g", "")
		if err != nil || h.From.ID != "a" || h.To.ID != "a" || h.To.Term <= h.From.Term || h.Gap != wait {
			t.Errorf("%v: %+v", err, h)
		}
	})
}

func TestFiledRequestIsPendingUntilItIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := candidate(t, st, config("a"))
		a.OnDemote(func() { time.Sleep(time.Second) })
		mustLead(t, started(t, a))
		b := start(t, st, config("b"))
		c := control(t, st)
		r, err := c.File(t.Context(), leader.Request{Op: leader.OpTransfer, Group: "g", Successor: "b", Why: "upgrade"})
		if err != nil || r.Term != a.Term().Number && a.IsLeader() || r.By != "ops" {
			t.Fatalf("%v: %+v", err, r)
		}
		if s := state(t, c); s.Pending != r || s.Leader.ID != "a" {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Second)
		mustLead(t, b, a)
		if s := state(t, c); s.Pending != (leader.Request{}) || s.Leader.ID != "b" {
			t.Errorf("%+v", s)
		}
	})
}

func TestPauseLastsUntilResumeForLaterCandidatesToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		c := control(t, st)
		if h, err := c.Pause(lasting(t, time.Minute), "g", "upgrade"); err != nil || h.From.ID != "a" || !h.Obeyed {
			t.Fatalf("%v: %+v", err, h)
		}
		mustNotLead(t, a, b)
		late := start(t, st, config("late"))
		time.Sleep(10 * wait)
		mustNotLead(t, a, b, late)
		if s := late.Status(); s.Barred != leader.ReasonPaused {
			t.Errorf("%+v", s)
		}
		halt(t, a, b, late) // the restart of everything
		a, b = start(t, st, config("a")), start(t, st, config("b"))
		time.Sleep(10 * wait)
		mustNotLead(t, a, b)
		h, err := c.Resume(lasting(t, time.Minute), "g")
		if err != nil || h.To.ID == "" {
			t.Fatalf("%v: %+v", err, h)
		}
		synctest.Wait()
		if a.IsLeader() == b.IsLeader() {
			t.Errorf("a: %v, b: %v", status(a), status(b))
		}
	})
}

func TestPausedGroupShowsOperatorAndReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		c := control(t, st)
		// A group that has never had a leader shows the pause, too.
		if _, err := c.Pause(lasting(t, time.Minute), "g", "not yet"); err != nil {
			t.Fatal(err)
		}
		if s := state(t, c); !s.Paused || s.PausedBy != "ops" || s.PausedWhy != "not yet" || s.Leader.Reason != leader.ReasonAbsent {
			t.Errorf("%+v", s)
		}
		// A second pause changes nothing.
		if _, err := c.Ask(lasting(t, time.Minute), leader.Request{Op: leader.OpPause, Group: "g", By: "eve"}); err != nil {
			t.Fatal(err)
		}
		if s := state(t, c); s.PausedBy != "ops" {
			t.Errorf("%+v", s)
		}
		a := start(t, st, config("a"))
		if _, err := c.Resume(lasting(t, time.Minute), "g"); err != nil {
			t.Fatal(err)
		}
		mustLead(t, a)
		if s := state(t, c); s.Paused || s.PausedBy != "" {
			t.Errorf("%+v", s)
		}
		// An observer that comes late learns of the pause, too.
		if _, err := c.Pause(lasting(t, time.Minute), "g", "migration"); err != nil {
			t.Fatal(err)
		}
		for info, err := range leader.ObserveWithStore(t.Context(), st, "g") {
			if err != nil || info.ID != "" || info.Reason != leader.ReasonPaused || info.By != "ops" || info.Why != "migration" {
				t.Errorf("%v: %+v", err, info)
			}
			break
		}
	})
}

func TestPauseOfADeadLeaderEndsWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := network(t, nil)
		a := start(t, net.Client("a"), config("a"))
		mustLead(t, a)
		net.BlackHole("a")
		b := start(t, net.Client("b"), config("b"))
		begun := time.Now()
		h, err := control(t, net.Client("ops")).Pause(lasting(t, time.Minute), "g", "")
		if err != nil || h.From.ID != "a" || h.Obeyed || h.Vacancy.Reason != leader.ReasonExpired || time.Since(begun) != wait {
			t.Errorf("after %v: %v: %+v", time.Since(begun), err, h)
		}
		mustNotLead(t, a, b)
	})
}

func TestResumeFailsIfNobodyTakesOver(t *testing.T) {
	for holder, words := range map[string]string{
		"": "nobody has taken over: vacant",
		`{"id":"gone","token":"t","ttl":60000,"term":1}`: `"gone", who holds the record of term 1, has not renewed it: `,
	} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			if holder != "" {
				st.Put("g", []byte(holder))
			}
			_, err := control(t, st).Resume(lasting(t, time.Second), "g")
			if !errors.Is(err, leader.ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), words) {
				t.Errorf("want %q: %v", words, err)
			}
		})
	}
}

// A record that could be read, and cannot any more, is not waited for: its
// bucket is gone, or the right to read it.
func TestControlRequestEndsWhenItsRecordCannotBeReadAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deny atomic.Bool
		net := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Deny: deny.Load() && c.Op == faultstore.Get}
		})
		c := control(t, net.Client("ops"))
		asked := make(chan error)
		go func() { // there is no candidate, so nobody takes over
			_, err := c.Resume(t.Context(), "g")
			asked <- err
		}()
		synctest.Wait()
		deny.Store(true)
		begun := time.Now()
		if err := <-asked; !errors.Is(err, store.ErrPermanent) || time.Since(begun) > time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestControlReadsAStoreThatCannotWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newPlain()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		mustLead(t, a, b)
		h, err := control(t, st).StepDown(lasting(t, time.Minute), "g", "")
		if err != nil || h.To.ID != "b" {
			t.Errorf("%v: %+v", err, h)
		}
	})
}

func TestControlRequestValidationNamesEveryFault(t *testing.T) {
	c := control(t, memstore.New())
	long := strings.Repeat("x", 513)
	for name, r := range map[string]leader.Request{
		"Op":        {Group: "g"},
		"Group":     {Group: "_ctl.g", Op: leader.OpPause},
		"Successor": {Group: "g", Op: leader.OpTransfer},
		"By":        {Group: "g", Op: leader.OpPause, By: "a\nb"},
		"Why":       {Group: "g", Op: leader.OpPause, Why: long},
		"Term":      {Group: "g", Op: leader.OpResume, Term: 7},
	} {
		for do, ask := range map[string]func() error{
			"Ask":  func() error { _, err := c.Ask(t.Context(), r); return err },
			"File": func() error { _, err := c.File(t.Context(), r); return err },
		} {
			var ce *leader.ConfigError
			if err := ask(); !errors.Is(err, leader.ErrInvalidConfig) || !errors.As(err, &ce) || ce.Field != name {
				t.Errorf("%s of a bad %s: %v", do, name, err)
			}
		}
	}
	_, err := c.File(t.Context(), leader.Request{Group: "a..b", Op: "reboot", Successor: "\xff", Why: "\x00"})
	for _, field := range []string{"Group", "Op", "Successor", "Why"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
	if _, err := c.State(t.Context(), ""); !errors.Is(err, leader.ErrInvalidConfig) {
		t.Error(err)
	}
	for _, by := range []string{"", "a\nb", strings.Repeat("x", 257)} {
		if _, err := leader.NewControlWithStore(memstore.New(), by); !errors.Is(err, leader.ErrInvalidConfig) {
			t.Errorf("by %.10q: %v", by, err)
		}
	}
	for _, build := range []func() (*leader.Control, error){
		func() (*leader.Control, error) { return leader.NewControlWithStore(nil, "ops") },
		func() (*leader.Control, error) { return leader.NewControl(nil, "b", "ops") },
		func() (*leader.Control, error) { return leader.NewControl(&nats.Conn{}, "a.b", "ops") },
	} {
		if _, err := build(); !errors.Is(err, leader.ErrInvalidConfig) {
			t.Error(err)
		}
	}
}

func TestMalformedControlRecordIsReplaced(t *testing.T) {
	for name, content := range map[string]any{
		"a list": []string{"pause"}, "a hostile pause": record.Control{Paused: &record.Pause{By: strings.Repeat("<", 2000)}},
		"an unknown operation": record.Request{Op: "reboot"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				a, b := start(t, st, config("a")), start(t, st, config("b"))
				put(t, st, record.ControlKey("g"), content)
				mustLead(t, a, b)
				c := control(t, st)
				if s := state(t, c); s.Paused || s.Pending.Op != "" {
					t.Errorf("%+v", s)
				}
				if _, err := c.StepDown(lasting(t, time.Minute), "g", ""); err != nil {
					t.Error(err)
				}
				mustLead(t, b, a)
			})
		})
	}
}

// An operator that was cut off has seen no renewal, and knows nothing: the
// leader may still be at work. Programs that run something after a pause rely
// on that.
func TestPauseDoesNotTakeItsOwnSilenceForTheLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		cfg := config("a")
		cfg.DemoteTimeout = time.Minute
		a := candidate(t, f.Client("a"), cfg)
		working := 40 * time.Second
		a.OnDemote(func() { time.Sleep(working) })
		started(t, a)
		time.Sleep(2 * ttl)
		mustLead(t, a)
		begun := time.Now()
		time.AfterFunc(time.Second, func() { f.BlackHole("ops") })
		time.AfterFunc(20*time.Second, func() { f.Heal("ops") })
		h, err := control(t, f.Client("ops")).Pause(lasting(t, time.Minute), "g", "")
		if took := time.Since(begun); err != nil || took < working || h.Vacancy.Reason != leader.ReasonPaused {
			t.Errorf("after %v: %v, %+v", took, err, h)
		}
	})
}

// And an operator that is cut off permanently does not conclude that nobody
// leads.
func TestPauseDoesNotReturnWhileItsOperatorIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a := candidate(t, f.Client("a"), config("a"))
		a.OnDemote(func() { time.Sleep(4 * time.Second) })
		started(t, a)
		time.Sleep(2 * ttl)
		mustLead(t, a)
		time.AfterFunc(time.Second, func() { f.BlackHole("ops") })
		_, err := control(t, f.Client("ops")).Pause(lasting(t, time.Minute), "g", "")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// Nor is who asked a leader to step down.
func TestStepDownDoesNotTakeItsOwnSilenceForTheLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		cfg := config("a")
		cfg.DemoteTimeout = 2 * time.Minute
		a := candidate(t, f.Client("a"), cfg)
		a.OnDemote(func() { time.Sleep(90 * time.Second) })
		started(t, a)
		time.Sleep(2 * ttl)
		mustLead(t, a)
		time.AfterFunc(time.Second, func() { f.BlackHole("ops") })
		h, err := control(t, f.Client("ops")).StepDown(lasting(t, time.Minute), "g", "")
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, leader.ErrNoLeader) || h.Vacancy.Reason != "" {
			t.Errorf("%v, %+v", err, h)
		}
	})
}

// A behind store reads an older record than its watch has shown, as a replica
// may, and counts the reads.
type behind struct {
	*memstore.Store

	then  store.Entry // at first
	old   store.Entry // a millisecond later
	begun time.Time
	reads int
}

func (b *behind) Get(ctx context.Context, key string) (store.Entry, error) {
	if key != "g" {
		return b.Store.Get(ctx, key)
	}
	b.reads++
	if time.Since(b.begun) < time.Millisecond {
		return b.then, nil
	}
	return b.old, nil
}

// Such a read shows no end of a lease, and is repeated at a pace.
func TestPauseIsNotOverByAStaleRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		st.Put("g", []byte(`{"id":"a","token":"t","ttl":1000,"term":1,"renewal":1}`))
		old, err := st.Get(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		st.Put("g", []byte(`{"id":"a","token":"t","ttl":1000,"term":1,"renewal":2}`))
		b := &behind{Store: st, then: old, old: old}
		boom := errors.New("boom")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, boom)
		defer cancel()
		_, err = control(t, b).Pause(ctx, "g", "")
		// The error contains both: what ended the context, and its error.
		if !errors.Is(err, boom) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if b.reads > 200 {
			t.Errorf("%d reads in ten seconds", b.reads)
		}
	})
}

// Where there is no record any more, nobody has renewed.
func TestPauseEndsWhereTheRecordIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		st.Put("g", []byte(`{"id":"a","token":"t","ttl":1000,"term":1,"renewal":1}`))
		stands, err := st.Get(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		b := &behind{Store: st, then: stands, old: store.Entry{Key: "g"}, begun: time.Now()}
		if h, err := control(t, b).Pause(lasting(t, time.Minute), "g", ""); err != nil || h.Vacancy.Reason != leader.ReasonExpired {
			t.Errorf("%v, %+v", err, h)
		}
	})
}

// controlOf reads the group's control record.
func controlOf(t *testing.T, e store.Entry) record.Control {
	t.Helper()
	c, ok := record.ReadControl(e)
	if !ok {
		t.Fatalf("nobody can read %q", e.Value)
	}
	return c
}

// encoding/json writes three bytes for each that is no UTF-8: a reason of 512
// such bytes came out longer than readers take, and the pause was stored and
// obeyed by nobody.
func TestControlRequestRefusesAReasonThatCannotBeReadBack(t *testing.T) {
	st := memstore.New()
	e := candidate(t, st, config("a"))
	for _, why := range []string{strings.Repeat("\xff", 300), "two\nlines", strings.Repeat("x", 513)} {
		var ce *leader.ConfigError
		err := e.Pause(t.Context(), why)
		if !errors.As(err, &ce) || ce.Field != "why" || !errors.Is(err, leader.ErrInvalidConfig) {
			t.Errorf("%.10q: %v", why, err)
		}
	}
	// The longest that is taken is read back, however JSON has to write it.
	why := strings.Repeat("<", record.MaxWhy)
	if err := e.Pause(t.Context(), why); err != nil {
		t.Fatal(err)
	}
	entry, err := st.Get(t.Context(), record.ControlKey("g"))
	if err != nil {
		t.Fatal(err)
	}
	if p := controlOf(t, entry).Paused; p == nil || p.Reason != why {
		t.Errorf("%+v", p)
	}
}

func TestLongestControlRequestsFitIntoOneRecordAndItsVacancy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		widest := strings.Repeat("<", record.MaxName)
		put(t, st, record.ControlKey("g"), record.Control{
			Paused: &record.Pause{By: widest, Reason: strings.Repeat("<", record.MaxWhy)},
			Stand:  &record.Stand{ID: widest, Term: 1 << 53, Version: strings.Repeat("1", record.MaxVersion)},
		})
		c := control(t, st)
		r := leader.Request{
			Op: leader.OpTransfer, Group: "g", Term: 1 << 53, Successor: widest, By: widest, Why: strings.Repeat("<", record.MaxWhy),
		}
		if _, err := c.File(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if s := state(t, c); !s.Paused || s.PausedBy != widest {
			t.Errorf("the pause is gone: %+v", s)
		}
	})
}

// A replica that lags showed the group as it was before the pause, or before
// its end: there was nothing to do, it seemed, and nothing was done.
func TestStaleReadOfTheControlRecordDoesNotPassForTheEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stale := 0 // so many reads to come
		net := network(t, func(c faultstore.Call) (f faultstore.Fate) {
			if c.Op == faultstore.Get && stale > 0 {
				stale--
				f.Stale = time.Second
			}
			return f
		})
		e := candidate(t, net.Client("a"), config("a"))
		paused := func(why string) {
			t.Helper()
			stale = 2
			if err := e.Pause(t.Context(), why); err != nil {
				t.Fatal(err)
			}
			if p := controlOf(t, net.Entry(record.ControlKey("g"))).Paused; p == nil || p.Reason != why {
				t.Fatalf("paused: %+v", p)
			}
		}
		resumed := func() {
			t.Helper()
			stale = 2
			if err := e.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			if p := controlOf(t, net.Entry(record.ControlKey("g"))).Paused; p != nil {
				t.Fatalf("paused: %+v", p)
			}
		}
		paused("first")
		time.Sleep(2 * time.Second)
		resumed()
		paused("second") // the first pause seems not to move
		time.Sleep(2 * time.Second)
		resumed()
		time.Sleep(2 * time.Second)
		paused("third")
		resumed() // the group seems never to have been paused again
	})
}

// A replica that lagged showed an earlier leader, or none. A request to the
// present leader was refused because of that.
func TestControlRequestWithoutATermReachesThePresentLeader(t *testing.T) {
	for name, old := range map[string]time.Duration{"a term that is over": 15 * time.Second, "a vacancy that was claimed": 6 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := network(t, func(c faultstore.Call) (f faultstore.Fate) {
					if c.Client == "ops" && c.Op == faultstore.Get && c.Key == "g" && c.N == 0 {
						f.Stale = old
					}
					return f
				})
				a := start(t, net.Client("a"), config("a"))
				mustLead(t, a)
				before := a.Term()
				b := start(t, net.Client("b"), config("b"))
				time.Sleep(10 * time.Second)
				first := control(t, net.Client("first"))
				if _, err := first.Pause(lasting(t, time.Minute), "g", ""); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				if _, err := first.Resume(lasting(t, time.Minute), "g"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				now := a
				if b.IsLeader() {
					now = b
				}
				term := now.Term()
				h, err := control(t, net.Client("ops")).StepDown(lasting(t, time.Minute), "g", "upgrade")
				if err != nil || h.From.Term != term.Number || h.Request.Term != term.Number || term.Number == before.Number || !h.Obeyed {
					t.Errorf("asked for the end of the term after %d, which is %d: %v: %+v", before.Number, term.Number, err, h)
				}
				if net.Counts()[faultstore.StaleRead] != 1 {
					t.Errorf("%d stale reads: the test tests nothing", net.Counts()[faultstore.StaleRead])
				}
			})
		})
	}
}

// The first attempt was stored, its answer lost; those that follow fail without
// doubt. The request may have been made for all the caller knows.
func TestControlRequestStaysUnknownAfterAnAttemptWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := network(t, func(c faultstore.Call) (f faultstore.Fate) {
			switch {
			case c.Op == faultstore.CompareAndSwap && c.N == 0:
				f.LoseReply = true
			case c.Op == faultstore.Get && c.N > 0:
				f.Refuse = true
			}
			return f
		})
		err := candidate(t, net.Client("a"), config("a")).Pause(lasting(t, 10*time.Second), "")
		if store.Classify(err) != store.Unknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if controlOf(t, net.Entry(record.ControlKey("g"))).Paused == nil {
			t.Error("the attempt was not applied: the test tests nothing")
		}
	})
}

func TestControlRequestResolvesALostAnswerByALaterWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := network(t, func(c faultstore.Call) (f faultstore.Fate) {
			f.LoseReply = c.Op == faultstore.CompareAndSwap && c.N < 2
			return f
		})
		c := control(t, net.Client("ops"))
		if _, err := c.File(lasting(t, time.Minute), leader.Request{Op: leader.OpPause, Group: "g", Why: "once"}); err != nil {
			t.Fatal(err)
		}
		if p := controlOf(t, net.Entry(record.ControlKey("g"))).Paused; p == nil || p.Reason != "once" {
			t.Errorf("%+v", p)
		}
	})
}

// Operators and candidates write the same record over a network that does all
// it can. The record finally contains whatever was acknowledged and not
// replaced, and no writer's part is lost to another's.
func TestControlRecordKeepsThePartsOfManyWriters(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { manyWriters(t, seed) })
		})
	}
}

func manyWriters(t *testing.T, seed uint64) {
	net := network(t, faultstore.Random(seed, faultstore.Rough()))
	ctx := lasting(t, time.Hour)
	key := record.ControlKey("g")
	var wg sync.WaitGroup
	pauses, asks := control(t, net.Client("pauses")), control(t, net.Client("asks"))
	wg.Go(func() {
		for i := range 20 {
			op := []leader.Operation{leader.OpPause, leader.OpResume}[i%2]
			if _, err := pauses.File(ctx, leader.Request{Op: op, Group: "g"}); err != nil {
				t.Errorf("%s: %v", op, err)
			}
			// Only this writer pauses and resumes: the last acknowledged state
			// remains.
			if c, _ := record.ReadControl(net.Entry(key)); (c.Paused != nil) != (op == leader.OpPause) {
				t.Errorf("after %s: %+v", op, c.Paused)
			}
		}
	})
	wg.Go(func() {
		for term := range uint64(20) {
			if _, err := asks.File(ctx, leader.Request{Op: leader.OpStepDown, Group: "g", Term: term + 1}); err != nil {
				t.Errorf("step down: %v", err)
			}
			if c, _ := record.ReadControl(net.Entry(key)); c.Term != term+1 {
				t.Errorf("request of term %d: %+v", term+1, c.Request)
			}
		}
	})
	wg.Wait()
}

// An unreachable store fails every call at once, as a client does that has no
// connection. It ends a caller that does not back off, which would keep
// virtual time from going on.
type unreachable struct{ calls atomic.Int64 }

func (u *unreachable) fail() error {
	if u.calls.Add(1) > 10_000 {
		return store.ErrPermanent
	}
	return store.ErrTransient
}

func (u *unreachable) Get(context.Context, string) (store.Entry, error) {
	return store.Entry{}, u.fail()
}

func (u *unreachable) CompareAndSwap(context.Context, store.Write) (uint64, error) {
	return 0, u.fail()
}

// The delays between attempts double, and did so until they overflowed: after
// three quarters of a minute none was left.
func TestControlRequestBacksOffHoweverLongTheOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := map[string]func(context.Context, *unreachable) error{
			"Pause":  func(ctx context.Context, st *unreachable) error { return candidate(t, st, config("a")).Pause(ctx, "") },
			"Resume": func(ctx context.Context, st *unreachable) error { return candidate(t, st, config("a")).Resume(ctx) },
			"State": func(ctx context.Context, st *unreachable) error {
				_, err := control(t, st).State(ctx, "g")
				return err
			},
		}
		for name, ask := range asks {
			st := &unreachable{}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			err := ask(ctx, st)
			cancel()
			if n := st.calls.Load(); !errors.Is(err, context.DeadlineExceeded) || n > 700 {
				t.Errorf("%s: %d calls in ten minutes: %v", name, n, err)
			}
		}
	})
}

// An observer of the record may know of a term before the leader does, whose
// acknowledgement is still on its way.
func TestControlRequestBeforeTheAcknowledgementOfTheClaimIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := faultstore.New(faultstore.Options{Policy: func(c faultstore.Call) (f faultstore.Fate) {
			switch {
			case c.Op == faultstore.Event && c.Key == "g":
				f.Lose = true
			case c.Op == faultstore.CompareAndSwap && c.N == 0:
				f.Reply = 500 * time.Millisecond
			}
			return f
		}})
		t.Cleanup(net.Close)
		e, err := leader.NewElectionWithStore(net.Client("a"), config("a"))
		if err != nil {
			t.Fatal(err)
		}
		started(t, e)
		defer e.Stop() //nolint:errcheck // its error is judged elsewhere
		time.Sleep(100 * time.Millisecond)
		term := net.Entry("g").Revision
		if term == 0 || e.IsLeader() {
			t.Fatalf("term %d, leader %v: the claim should be applied and not acknowledged", term, e.IsLeader())
		}
		req, err := record.Control{Request: record.Request{Op: record.OpStepDown, Term: term}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		net.Put(record.ControlKey("g"), req)
		time.Sleep(time.Second)
		if s := e.Status(); s.IsLeader || s.Reason != leader.ReasonStandBack {
			t.Errorf("the request was lost: %+v", s)
		}
	})
}

func TestLoneCandidateLeadsAgainAtOnceWhenItsGroupIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, memstore.New(), config("a"))
		mustLead(t, a)
		if err := a.Pause(t.Context(), "upgrade"); err != nil {
			t.Fatal(err)
		}
		mustNotLead(t, a)
		if err := a.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(jitter)
		mustLead(t, a)
	})
}

// Unreadable data is written over a pause. Candidates that know of the pause
// stay paused and report it, and candidates that start later lead the group
// until it is paused again.
func TestOverwrittenPauseHoldsForCandidatesThatKnowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j, cfg := memstore.New(), newJournal(), config("a")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteMalformed {
				j.note("%t", strings.Contains(n.Text, "Pause the group again"))
			}
		}
		a, operator := start(t, st, cfg), control(t, st)
		time.Sleep(ttl)
		if _, err := operator.Pause(lasting(t, time.Minute), "g", "migration"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		put(t, st, record.ControlKey("g"), []string{"what is", "this"})
		synctest.Wait()
		j.demand(t, "true")
		late := start(t, st, config("late"))
		time.Sleep(ttl + wait)
		mustLead(t, late, a)
		if s := a.Status(); s.Barred != leader.ReasonPaused {
			t.Errorf("%v", s)
		}
		if _, err := operator.Pause(lasting(t, time.Minute), "g", "migration"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mustNotLead(t, a, late)
		halt(t, a, late)
	})
}

// An unreadable control record delays leading by at most a lease, and is
// reported.
func TestUnreadableControlRecordOnlyDelaysTheFirstLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j, cfg := memstore.New(), newJournal(), config("a")
		put(t, st, record.ControlKey("g"), "pause, please")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteMalformed {
				j.note("%s", n.Kind)
			}
		}
		a := start(t, st, cfg)
		mustNotLead(t, a)
		time.Sleep(ttl)
		mustLead(t, a)
		put(t, st, record.ControlKey("g"), "please")
		time.Sleep(ttl)
		mustLead(t, a)
		halt(t, a)
		j.demand(t, "malformed", "malformed")
	})
}

// A program may be older than those who write the control record.
func TestControlRecordKeepsUnknownFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := start(t, st, config("a"))
		put(t, st, record.ControlKey("g"), map[string]any{
			"op": "reboot", "term": a.Term().Number, "paused": map[string]any{"by": "ops", "until": "2031"}, "quorum": 3,
		})
		synctest.Wait()
		mustNotLead(t, a) // the pause is known, though the operation is not
		operator := control(t, st)
		holds := func(want string) {
			t.Helper()
			entry, err := st.Get(t.Context(), record.ControlKey("g"))
			if err != nil || !strings.Contains(string(entry.Value), want) {
				t.Errorf("no %s in %s, %v", want, entry.Value, err)
			}
		}
		if _, err := operator.File(t.Context(), leader.Request{Op: leader.OpStepDown, Group: "g", Term: 1}); err != nil {
			t.Fatal(err)
		}
		holds(`"until":"2031"`)
		holds(`"quorum":3`)
		if _, err := operator.Resume(lasting(t, time.Minute), "g"); err != nil {
			t.Fatal(err)
		}
		holds(`"quorum":3`)
		mustLead(t, a)
	})
}

// A store that has no watch.
type unwatched struct{ store.Store }

// Each poll of the control record repeats a message that another candidate sent
// once. Taken for news, it silenced candidates of the same priority
// permanently, even when the sender had gone.
func TestPolledControlRecordIsTakenInOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		low := start(t, st, takeover("low", 1))
		high := start(t, unwatched{st}, takeover("high", 2))
		time.Sleep(2 * ttl)
		// It asks too early, is refused, and is never heard of again.
		put(t, st, record.ControlKey("g"), record.Control{Stand: &record.Stand{
			ID: "ghost", Term: low.Term().Number, Priority: 2, Takeover: true,
		}})
		time.Sleep(tenure)
		mustLead(t, high, low)
	})
}

// A request that was refused stays so, however often it is read.
func TestPolledRequestForARoleIsJudgedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := newFleet(t, 3), unwatched{memstore.New()}
		a := f.start(st, leader.RoleManagerConfig{Election: spreading("a").Election})
		time.Sleep(2 * ttl)
		mustHold(t, []int{3}, a)
		e := a.Election(f.roles[0])
		put(t, st, record.ControlKey(f.roles[0]), record.Control{Request: record.Request{
			Op: record.OpBalance, Term: e.Term().Number, Successor: "b", Have: 3,
		}})
		time.Sleep(2 * ttl)
		mustHold(t, []int{3}, a)
		f.roles = append(f.roles, "more", "yet.more")
		f.add(a, "a", "more")
		f.add(a, "a", "yet.more")
		term := e.Term()
		time.Sleep(10 * ttl)
		if e.Term() != term {
			t.Errorf("the request was granted after all: %s", status(e))
		}
		stopRoles(t, a)
	})
}

// A reader of records alone: the control record may not be read.
type recordsOnly struct{ store.Store }

func (r recordsOnly) Get(ctx context.Context, key string) (store.Entry, error) {
	if strings.HasPrefix(key, record.ControlKey("")) {
		return store.Entry{}, store.ErrPermanent
	}
	return r.Store.Get(ctx, key)
}

func TestPollingCandidateThatMayNotReadItsControlRecordGoesOnWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes atomic.Int64
		cfg := config("a")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteNotReady {
				notes.Add(1)
			}
		}
		a := start(t, recordsOnly{memstore.New()}, cfg)
		time.Sleep(ttl - time.Nanosecond)
		mustNotLead(t, a)
		time.Sleep(heartbeat)
		mustLead(t, a)
		time.Sleep(10 * ttl)
		if n := notes.Load(); n != 1 {
			t.Errorf("the unreadable control record was reported %d times", n)
		}
	})
}

// Of the group's record nothing can be read, which only the candidate knows.
type controlOnly struct {
	store.Store

	refuses atomic.Bool
}

func (c *controlOnly) Get(ctx context.Context, key string) (store.Entry, error) {
	if c.refuses.Load() && !strings.HasPrefix(key, record.ControlKey("")) {
		return store.Entry{}, store.ErrPermanent
	}
	return c.Store.Get(ctx, key)
}

func TestPollingCandidateThatMayNotReadItsRecordReportsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes atomic.Int64
		cfg := config("a")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteNotReady && strings.Contains(n.Text, store.ErrPermanent.Error()) {
				notes.Add(1)
			}
		}
		st := &controlOnly{Store: memstore.New()}
		st.refuses.Store(true)
		a := start(t, st, cfg)
		time.Sleep(2*time.Minute + heartbeat/2)
		mustNotLead(t, a)
		if err := a.Status().LastError; !errors.Is(err, store.ErrPermanent) {
			t.Errorf("the status shows %v for reads that fail permanently", err)
		}
		if n := notes.Load(); n != 3 {
			t.Errorf("the unreadable record was reported %d times in two minutes, want one a minute", n)
		}
		st.refuses.Store(false)
		time.Sleep(2 * wait)
		mustLead(t, a)
	})
}
