package leader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
)

// A grant is one term of ours as readers and the program see it: the trust window and
// the context. It is closed once, and never opens again: whoever was told
// that the term is over is never told otherwise later.
type grant struct {
	term Term
	// correlation is the term's.
	correlation string

	clock  clock
	ctx    *termContext
	cancel context.CancelCauseFunc
	// onClose tells the election that the window passed, from whatever goroutine saw it first.
	onClose func()

	// The end of the trust window on both clocks. They only grow, so that a reader
	// between the two stores sees a window that closes too early, never too late.
	mono, wall atomic.Int64
	closed     atomic.Bool

	mu    sync.Mutex // makes close come after any arm
	timer timer
	alarm alarm // nil where the machine is never suspended

	// promoted is owned by the goroutine of the callbacks: OnPromote ran for this term.
	promoted bool
}

// newGrant begins a term. The window is open until until. What timers call runs
// under guard, since their goroutines are nobody's.
func newGrant(
	parent context.Context, c clock, term Term, until machine.Instant, guard func(func()), onClose func(),
) *grant {
	g := &grant{term: term, correlation: term.Correlation(), clock: c, onClose: onClose}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	g.ctx, g.cancel = &termContext{inner, g}, cancel
	g.mono.Store(until.Mono)
	g.wall.Store(until.Wall)
	// These two, and not the election's goroutine, bound the term's context: the
	// goroutine may be stuck.
	g.timer = c.timer(func() { guard(g.check) })
	g.alarm = c.alarm(func() { guard(g.expire) })
	g.arm()
	return g
}

// open reports whether the term may still be acted on. The first caller who finds the
// window passed closes the term for everyone.
func (g *grant) open() bool {
	if g.closed.Load() {
		return false
	}
	if now := g.clock.now(); now.Mono < g.mono.Load() && now.Wall < g.wall.Load() {
		return true
	}
	g.expire()
	return false
}

// expire ends a term whose window has passed. It is the alarm's, too: that rings
// at the end of the window also if the machine was suspended before it and the
// wall clock was set back meanwhile, which leaves both of our clocks behind.
func (g *grant) expire() {
	if g.closed.Load() {
		return
	}
	g.close(ReasonTrustExpired)
	g.onClose()
}

// check is the timer's: the window was extended since, or the term ends now.
func (g *grant) check() {
	if g.open() {
		g.arm()
	}
}

// arm sets timer and alarm to the end of the window.
func (g *grant) arm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed.Load() {
		return
	}
	var boot int64
	if g.alarm != nil {
		boot = g.clock.boot() // first: a suspension between the readings brings the end forward
	}
	now := g.clock.now()
	mono, wall := g.mono.Load()-now.Mono, g.wall.Load()-now.Wall
	g.timer.Reset(time.Duration(mono))
	if g.alarm != nil {
		g.alarm.Set(boot + min(mono, wall))
	}
}

// extend moves the end of the window. It reports false if the window had passed before.
func (g *grant) extend(until machine.Instant) bool {
	if !g.open() {
		return false
	}
	g.wall.Store(until.Wall)
	g.mono.Store(until.Mono)
	g.arm()
	// A reader may have found the old window passed meanwhile, and its verdict stands.
	return !g.closed.Load()
}

// close ends the term and its context for a reason. The first reason stands.
func (g *grant) close(r Reason) {
	if g.closed.Swap(true) {
		return
	}
	g.cancel(&LossError{Term: g.term, Reason: r})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer.Stop()
	if g.alarm != nil {
		g.alarm.Stop()
	}
}

type termKey struct{}

// A termContext is the context of a term. Its Err looks at the trust window
// itself, on both clocks, so that it is right at the very end of a suspension.
// Contexts that descend from it know their cancellation alone, which follows by
// the grant's alarm.
type termContext struct {
	context.Context
	g *grant
}

// Err returns context.Canceled as soon as the trust window has passed.
func (c *termContext) Err() error {
	if !c.g.open() {
		return context.Canceled
	}
	return nil
}

// Value returns the term for TermFromContext, and else what the start's context holds.
func (c *termContext) Value(key any) any {
	if _, ok := key.(termKey); ok {
		return c.g.term
	}
	return c.Context.Value(key)
}

// TermFromContext returns the term whose context ctx is or descends from. The context
// that OnPromote and Run's function receive carries it.
func TermFromContext(ctx context.Context) (Term, bool) {
	t, ok := ctx.Value(termKey{}).(Term)
	return t, ok
}
