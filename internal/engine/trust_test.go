package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// granted returns an election that holds a grant whose window ends after mono
// and wall.
func granted(t *testing.T, mono, wall time.Duration) (*Candidate, *window) {
	t.Helper()
	e := New(memstore.New(), testConfig())
	now := e.clock.now()
	until := machine.Instant{Mono: now.Mono + int64(mono), Wall: now.Wall + int64(wall)}
	g := newWindow(t.Context(), e.clock, leadership.Term{Number: 7, Token: "t"}, until, testLoss, bare, func() {
		e.inbox.event(machine.Event{Kind: machine.Closed, Term: 7})
	})
	t.Cleanup(func() { g.close(machine.ReasonStopped) })
	e.current.Store(g)
	return e, g
}

// Each clock can lag: the monotonic clock stops while the machine sleeps, the
// wall clock may be set back. So the earlier verdict counts.
func TestEitherClockAloneEndsTheTerm(t *testing.T) {
	for name, c := range map[string]struct{ mono, wall time.Duration }{
		"monotonic": {-1, time.Hour}, "monotonic at the instant": {0, time.Hour},
		"wall": {time.Hour, -1}, "wall at the instant": {time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, g := granted(t, c.mono, c.wall)
				if err := g.ctx.Err(); !errors.Is(err, context.Canceled) {
					t.Errorf("Err: %v", err)
				}
				if e.IsLeader() || !e.Term().IsZero() || e.Term().Token != "" || e.Leader().ID != "" || !e.TrustUntil().IsZero() {
					t.Errorf("%v leads", e.Term())
				}
				if s := e.Status(); s.IsLeader || !s.Term.IsZero() {
					t.Errorf("%+v", s)
				}
				if err := e.ValidateToken(t.Context()); !errors.Is(err, ErrNotLeader) {
					t.Errorf("ValidateToken: %v", err)
				}
				select {
				case <-g.ctx.Done():
				default:
					t.Error("the context is not done")
				}
			})
		})
	}
}

func TestOpenWindowOnBothClocksIsATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, g := granted(t, time.Second, time.Second)
		if !e.IsLeader() || e.Term() != g.term || e.Term().Token != "t" || e.Leader().ID != "a" || g.ctx.Err() != nil {
			t.Fatalf("%+v", e.Status())
		}
		if u := e.TrustUntil(); time.Until(u) != time.Second {
			t.Errorf("trusted until %v", u)
		}
	})
}

// Grants to others that rely on a term (a client's trust, the time of a proof)
// are measured by its end: an end on the monotonic clock alone would be later
// than the term's by the length of a suspension.
func TestTheEndOfAWindowIsTheEarlierOfBothClocks(t *testing.T) {
	for name, c := range map[string]struct{ mono, wall time.Duration }{
		"the machine was suspended": {9 * time.Second, 4 * time.Second}, "the wall clock was set back": {4 * time.Second, 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, _ := granted(t, c.mono, c.wall)
				for who, until := range map[string]time.Time{"TrustUntil": e.TrustUntil(), "Status": e.Status().TrustUntil, "Leader": e.Leader().Until} {
					if left := time.Until(until); left != 4*time.Second {
						t.Errorf("%s: %v are left", who, left)
					}
				}
			})
		})
	}
}

// Without a reader, the context ends by its own timer, and notifies the
// election.
func TestTermContextEndsWithoutAnybodyLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, g := granted(t, 2*time.Second, time.Hour)
		begun := time.Now()
		<-g.ctx.Done()
		if d := time.Since(begun); d != 2*time.Second {
			t.Errorf("after %v", d)
		}
		synctest.Wait()
		if messages, _, _ := e.inbox.take(); len(messages) != 1 || messages[0].event.Kind != machine.Closed || messages[0].event.Term != 7 {
			t.Errorf("%+v", messages)
		}
	})
}

// children returns contexts that know of the term's end by its cancellation
// alone.
func children(t *testing.T, g *window) map[string]context.Context {
	t.Helper()
	child, cancel := context.WithCancel(g.ctx)
	t.Cleanup(cancel)
	late, cancelLate := context.WithTimeout(child, time.Hour)
	t.Cleanup(cancelLate)
	return map[string]context.Context{"the term's": g.ctx, "its child": child, "and its child": late}
}

// In a suspension of the machine the monotonic clock and its timers stop. This
// test uses a timer that never fires, in real time, and a window that is long
// on the monotonic clock. No reader looks.
func TestStoppedMonotonicClockDelaysNoContext(t *testing.T) {
	for name, wall := range map[string]time.Duration{"wall clock went on": 0, "wall clock goes on": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan struct{})
			c := clock{origin: time.Now()}
			until := c.now().Add(wall)
			until.Mono += int64(time.Hour)
			g := newWindow(t.Context(), c, leadership.Term{Number: 7}, until, testLoss, bare, func() { close(closed) })
			defer g.close(machine.ReasonStopped)
			g.timer.Stop()
			for who, ctx := range children(t, g) {
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
					t.Fatalf("%s context is not done", who)
				}
				if l := new(testLossError); !errors.As(context.Cause(ctx), &l) || l.reason != machine.ReasonTrust {
					t.Errorf("%s context: %v", who, context.Cause(ctx))
				}
			}
			<-closed
		})
	}
}

// The wall clock is set back in a suspension: both clocks that IsLeader
// compares are behind then.
func TestAnAlarmEndsTheTermWhateverTheOtherClocksShow(t *testing.T) {
	c := clock{origin: time.Now()}
	g := newWindow(t.Context(), c, leadership.Term{Number: 7}, c.now().Add(time.Hour), testLoss, bare, func() {})
	defer g.close(machine.ReasonStopped)
	g.alarm.Set(c.boot())
	for who, ctx := range children(t, g) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatalf("%s context is not done", who)
		}
	}
	if g.open() {
		t.Error("the window is open")
	}
}

func TestAnExtendedTermOutlivesItsFirstAlarm(t *testing.T) {
	c := clock{origin: time.Now()}
	short := newWindow(t.Context(), c, leadership.Term{Number: 6}, c.now().Add(30*time.Millisecond), testLoss, bare, func() {})
	defer short.close(machine.ReasonStopped)
	g := newWindow(t.Context(), c, leadership.Term{Number: 7}, c.now().Add(20*time.Millisecond), testLoss, bare, func() {})
	defer g.close(machine.ReasonStopped)
	if !g.extend(c.now().Add(time.Hour)) {
		t.Skip("the machine was too slow to extend the term in time")
	}
	<-short.ctx.Done() // later than the first end of the other
	if g.ctx.Err() != nil {
		t.Fatal(context.Cause(g.ctx))
	}
}

// The window closes before its context is cancelled, and another goroutine may
// look between the two.
func TestATermThatIsOverHasACauseAtOnce(t *testing.T) {
	c := clock{origin: time.Now()}
	var calls atomic.Int32
	closing, looked := make(chan struct{}), make(chan struct{})
	g := newWindow(t.Context(), c, leadership.Term{Number: 7}, c.now().Add(time.Hour), func(term leadership.Term, r machine.Reason) error {
		if calls.Add(1) == 1 {
			close(closing)
			<-looked
		}
		return testLoss(term, r)
	}, bare, func() {})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.close(machine.ReasonStopped)
	}()
	<-closing
	if err := g.ctx.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("Err: %v", err)
	}
	if l := new(testLossError); !errors.As(context.Cause(g.ctx), &l) || l.reason != machine.ReasonStopped {
		t.Errorf("cause: %v", context.Cause(g.ctx))
	}
	close(looked)
	<-ended
}

// Extensions come with every renewal of each of thousands of elections.
func TestExtendingATermAllocatesNothing(t *testing.T) {
	_, g := granted(t, time.Hour, time.Hour)
	if n := testing.AllocsPerRun(100, func() { g.extend(g.clock.now().Add(time.Hour)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLeadershipNeverReturnsWithinATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, g := granted(t, time.Second, time.Second)
		time.Sleep(time.Second)
		if e.IsLeader() {
			t.Fatal("past the window")
		}
		// An acknowledgement that comes now moves nothing.
		if g.extend(e.clock.now().Add(time.Hour)) || e.IsLeader() || g.ctx.Err() == nil {
			t.Fatal("the term came back")
		}
	})
}

func TestExtendedTermLastsUntilTheNewEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, g := granted(t, time.Second, time.Second)
		time.Sleep(999 * time.Millisecond)
		if !g.extend(e.clock.now().Add(time.Second)) {
			t.Fatal("not extended")
		}
		time.Sleep(999 * time.Millisecond)
		if !e.IsLeader() || g.ctx.Err() != nil {
			t.Fatal("ended early")
		}
		time.Sleep(time.Millisecond)
		if e.IsLeader() || g.ctx.Err() == nil {
			t.Fatal("goes on")
		}
	})
}

func TestFirstReasonOfAnEndIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, g := granted(t, time.Second, time.Second)
		g.close(machine.ReasonResigned)
		g.close(machine.ReasonStopped)
		var l *testLossError
		if !errors.As(context.Cause(g.ctx), &l) || l.reason != machine.ReasonResigned || l.term != g.term {
			t.Fatal(context.Cause(g.ctx))
		}
	})
}

func TestReadersAllocateNothing(t *testing.T) {
	e, _ := granted(t, time.Hour, time.Hour)
	for name, f := range map[string]func(){
		"IsLeader":   func() { _ = e.IsLeader() },
		"Term":       func() { _ = e.Term() },
		"TrustUntil": func() { _ = e.TrustUntil() },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkIsLeader(b *testing.B) {
	e := New(memstore.New(), testConfig())
	g := newWindow(b.Context(), e.clock, leadership.Term{Number: 7}, e.clock.now().Add(time.Hour), testLoss, bare, func() {})
	defer g.close(machine.ReasonStopped)
	e.current.Store(g)
	b.ReportAllocs()
	for b.Loop() {
		if !e.IsLeader() {
			b.Fatal("not the leader")
		}
	}
}

// BenchmarkClock is what [Election.IsLeader] takes at the least: the reading of
// the clock that it compares the trust window with.
func BenchmarkClock(b *testing.B) {
	c := clock{origin: time.Now()}
	for b.Loop() {
		_ = c.now()
	}
}

func BenchmarkExtend(b *testing.B) {
	c := clock{origin: time.Now()}
	g := newWindow(b.Context(), c, leadership.Term{Number: 7}, c.now().Add(time.Hour), testLoss, bare, func() {})
	defer g.close(machine.ReasonStopped)
	b.ReportAllocs()
	for b.Loop() {
		if !g.extend(c.now().Add(time.Hour)) {
			b.Fatal("closed")
		}
	}
}

// bare calls f without a guard.
func bare(f func()) { f() }
