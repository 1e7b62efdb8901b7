package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
)

// A window is one term of this candidate as readers and the program see it: the
// trust window and the term's context. It closes once, and never opens again: a
// reader that learned of the end never sees the term open later.
type window struct {
	term        leadership.Term
	correlation string // the term's

	// From the record; set before the first reader.
	transitions uint64
	acquired    record.Moment
	// renewed is when the latest acknowledged write left, by the wall clock.
	renewed atomic.Int64

	clock  clock
	ctx    *termContext
	cancel context.CancelCauseFunc
	// loss returns the cause of the context's end.
	loss func(leadership.Term, machine.Reason) error
	// onClose notifies the candidate that the window has passed, from the
	// goroutine that saw it first.
	onClose func()

	// The end of the window on both clocks. They only grow, so that a reader
	// between the two stores sees a window that closes too early, never too
	// late.
	mono, wall atomic.Int64
	// closed is why the window has closed, nil while it has not.
	closed atomic.Pointer[machine.Reason]

	mu    sync.Mutex // makes close come after any arm
	timer Timer
	alarm Alarm // nil where the machine is never suspended

	// promoted is owned by the goroutine of the callbacks: OnPromote ran for
	// this term.
	promoted bool
}

// newWindow begins a term, whose window is open until until. Functions that
// timers call run under guard, since nothing else catches their panics.
func newWindow(
	parent context.Context, c clock, term leadership.Term, until machine.Instant,
	loss func(leadership.Term, machine.Reason) error, guard func(func()), onClose func(),
) *window {
	w := &window{term: term, correlation: term.Correlation(), clock: c, loss: loss, onClose: onClose}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	w.ctx, w.cancel = &termContext{inner, w}, cancel
	w.mono.Store(until.Mono)
	w.wall.Store(until.Wall)
	// These two, and not the loop, bound the term's context: the loop may be
	// stuck.
	w.timer = c.timer(func() { guard(w.check) })
	w.alarm = c.alarm(func() { guard(w.expire) })
	w.arm()
	return w
}

// written returns when its record was written last.
func (w *window) written() record.Moment { return record.MomentAt(w.renewed.Load()) }

// open reports whether the term may still be acted on. The first caller who
// finds the window passed closes the term for everyone.
func (w *window) open() bool {
	_, open := w.until()
	return open
}

// until returns the end of the window by the monotonic clock, if it is open. It
// is the earlier of what both clocks have left: in a suspension only the wall
// clock goes on, and callers grant no more than what is left.
func (w *window) until() (mono int64, open bool) {
	now := w.clock.now()
	left := min(w.mono.Load()-now.Mono, w.wall.Load()-now.Wall)
	// Last: a caller that does not get on before this look finds what has
	// ended the term meanwhile, be it a resignation or the timer.
	if w.closed.Load() != nil {
		return 0, false
	}
	if left > 0 {
		return now.Mono + left, true
	}
	w.expire()
	return 0, false
}

// expire ends a term whose window has passed. The alarm calls it, too: it fires
// at the end of the window even if the machine was suspended before it and the
// wall clock was set back meanwhile, which leaves both other clocks behind.
func (w *window) expire() {
	if w.closed.Load() != nil {
		return
	}
	w.close(machine.ReasonTrust)
	w.onClose()
}

// check is the timer's: the window was extended since, or the term ends now.
func (w *window) check() {
	if w.open() {
		w.arm()
	}
}

func (w *window) arm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed.Load() != nil {
		return
	}
	var boot int64
	if w.alarm != nil {
		boot = w.clock.boot() // first: a suspension between the readings brings the end forward
	}
	now := w.clock.now()
	mono, wall := w.mono.Load()-now.Mono, w.wall.Load()-now.Wall
	w.timer.Reset(time.Duration(mono))
	if w.alarm != nil {
		w.alarm.Set(boot + min(mono, wall))
	}
}

// extend moves the end of the window. It reports false if the window had passed
// before.
func (w *window) extend(until machine.Instant) bool {
	if !w.open() {
		return false
	}
	w.wall.Store(until.Wall)
	w.mono.Store(until.Mono)
	w.arm()
	// A reader may have found the old window passed meanwhile, and its verdict
	// holds.
	return w.closed.Load() == nil
}

// close ends the term and its context for a reason. The first reason is kept.
func (w *window) close(r machine.Reason) {
	if !w.closed.CompareAndSwap(nil, &r) {
		return
	}
	w.end(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	if w.alarm != nil {
		w.alarm.Stop()
	}
}

// end ends the context of a window that has closed for a reason.
func (w *window) end(r machine.Reason) { w.cancel(w.loss(w.term, r)) }

type termKey struct{}

// A termContext is the context of a term. Its Err looks at the trust window
// itself, on both clocks, so that it is right at the very end of a suspension.
// Contexts that descend from it know their cancellation alone, which follows by
// the window's alarm.
type termContext struct {
	context.Context
	w *window
}

// Err returns context.Canceled as soon as the trust window has passed. A caller
// that sees this also finds the cause: the goroutine that closed the window may
// not have come to end the context yet.
func (c *termContext) Err() error {
	if c.w.open() {
		return nil
	}
	if c.Context.Err() == nil {
		c.w.end(*c.w.closed.Load())
	}
	return context.Canceled
}

// Value returns the term for TermFrom, and else what the context of Start
// holds.
func (c *termContext) Value(key any) any {
	if _, ok := key.(termKey); ok {
		return c.w.term
	}
	return c.Context.Value(key)
}

// TermFrom returns the term whose context ctx is or descends from.
func TermFrom(ctx context.Context) (leadership.Term, bool) {
	t, ok := ctx.Value(termKey{}).(leadership.Term)
	return t, ok
}
