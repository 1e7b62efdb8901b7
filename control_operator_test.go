package leader_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
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

func control(t *testing.T, st store.Store) *leader.Control {
	t.Helper()
	c, err := leader.NewControlWithStore(st, "ops")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// lasting returns a context for one request.
func lasting(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestStepDownReturnsWhenAnotherLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a := candidate(t, st, config("a"))
		a.OnDemote(func() { time.Sleep(time.Second) })
		mustLead(t, started(t, a))
		term := a.Term()
		b := start(t, st, config("b"))
		h, err := control(t, st).StepDown(lasting(t, time.Minute), "g", "upgrade")
		if err != nil {
			t.Fatal(err)
		}
		mustLead(t, b, a)
		if h.From.ID != "a" || h.From.Term != term.Number || h.To.ID != "b" || h.To.Term != b.Term().Number {
			t.Errorf("%+v", h)
		}
		if h.Drain != time.Second || h.Gap > startWindow {
			t.Errorf("work stopped after %v, and nobody led for %v", h.Drain, h.Gap)
		}
	})
}

// gated delays the follower's claims, so that whoever watches sees the vacancy.
func gated(t *testing.T, delay time.Duration) *faultstore.Faults {
	return network(t, func(c faultstore.Call) (f faultstore.Fate) {
		if c.Op == faultstore.CompareAndSwap && c.Key == "g" && c.Client == "b" {
			f.Delay = delay
		}
		return f
	})
}

func TestWhoAskedAndWhyReachesEverybody(t *testing.T) {
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
		t.Errorf("the hook was told %+v", lost)
	}
	if !strings.Contains(log.String(), `by=alice why="new kernel"`) {
		t.Errorf("the log says\n%s", &log)
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

func TestTransferToNobodySaysWhoTookOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		a, b := start(t, st, config("a")), start(t, st, config("b"))
		h, err := control(t, st).Transfer(lasting(t, time.Minute), "g", "nobody", "")
		if !errors.Is(err, leader.ErrNotSuccessor) || h.To.ID != "b" || !h.Obeyed || h.Gap < ttl/2 || h.Gap > ttl/2+startWindow {
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

func TestRequestForATermThatIsOverIsNotMade(t *testing.T) {
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

func TestLeaderThatLeavesForAReasonOfItsOwnDidNotObey(t *testing.T) {
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

func TestSilentLeaderIsToldFromOneThatObeyed(t *testing.T) {
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

func TestNobodyToAskIsSaidWithTheReason(t *testing.T) {
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

func TestWaitEndsWithItsContextAndSaysHowFarThingsAre(t *testing.T) {
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
			t.Errorf("while it stands back: %v: %+v", err, h)
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

func TestPauseLastsUntilResumeForCandidatesOfAllTimes(t *testing.T) {
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

func TestPausedGroupSaysByWhomAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		c := control(t, st)
		// One that has never had a leader says it, too.
		if _, err := c.Pause(lasting(t, time.Minute), "g", "not yet"); err != nil {
			t.Fatal(err)
		}
		if s := state(t, c); !s.Paused || s.PausedBy != "ops" || s.PausedWhy != "not yet" || s.Leader.Reason != leader.ReasonAbsent {
			t.Errorf("%+v", s)
		}
		// Who pauses it again changes nothing.
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
		// An observer that comes late is told, too.
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

func TestResumeSaysThatNobodyTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := control(t, memstore.New()).Resume(lasting(t, time.Second), "g")
		if !errors.Is(err, leader.ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// A record that could be read, and cannot any more, is not waited for: its
// bucket is gone, or the right to read it.
func TestRequestEndsWhenItsRecordCannotBeReadAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deny atomic.Bool
		net := network(t, func(c faultstore.Call) faultstore.Fate {
			return faultstore.Fate{Deny: deny.Load() && c.Op == faultstore.Get}
		})
		c := control(t, net.Client("ops"))
		asked := make(chan error)
		go func() { // nobody stands, so nobody takes over
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

func TestRequestsAreValidatedWithEveryFaultNamed(t *testing.T) {
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
	for _, make := range []func() (*leader.Control, error){
		func() (*leader.Control, error) { return leader.NewControlWithStore(nil, "ops") },
		func() (*leader.Control, error) { return leader.NewControl(nil, "b", "ops") },
		func() (*leader.Control, error) { return leader.NewControl(&nats.Conn{}, "a.b", "ops") },
	} {
		if _, err := make(); !errors.Is(err, leader.ErrInvalidConfig) {
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
// leader may be at its work still. Whoever runs something after a pause relies
// on that.
func TestAPauseDoesNotTakeItsOwnSilenceForTheLeaders(t *testing.T) {
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

// And who is cut off for good is not told that nobody leads.
func TestAPauseOfWhichNothingIsSeenIsNotOver(t *testing.T) {
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
func TestAStepDownDoesNotTakeItsOwnSilenceForTheLeaders(t *testing.T) {
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
func TestAPauseThatReadsTheRecordAsItWasIsNotOver(t *testing.T) {
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
		// Both are told: what ended the context, and its error.
		if !errors.Is(err, boom) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if b.reads > 200 {
			t.Errorf("%d reads in ten seconds", b.reads)
		}
	})
}

// Where there is no record any more, nobody has renewed.
func TestAPauseEndsWhereTheRecordIsGone(t *testing.T) {
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
