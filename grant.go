package leader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
)

// A clock reads both clocks of this machine at once, relative to an origin.
type clock struct{ origin time.Time }

func (c clock) now() machine.Instant { return c.at(time.Now()) }

func (c clock) at(t time.Time) machine.Instant {
	return machine.Instant{Mono: int64(t.Sub(c.origin)), Wall: t.UnixNano()}
}

// time returns the time at which the monotonic clock shows mono.
func (c clock) time(mono int64) time.Time { return c.origin.Add(time.Duration(mono)) }

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

	mu    sync.Mutex // guards timer
	timer *time.Timer

	// promoted is owned by the goroutine of the callbacks: OnPromote ran for this term.
	promoted bool
}

// newGrant begins a term. The window is open until until.
func newGrant(parent context.Context, c clock, term Term, until machine.Instant, onClose func()) *grant {
	g := &grant{term: term, correlation: term.Correlation(), clock: c, onClose: onClose}
	inner, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	g.ctx, g.cancel = &termContext{inner, g}, cancel
	g.mono.Store(until.Mono)
	g.wall.Store(until.Wall)
	g.mu.Lock()
	defer g.mu.Unlock()
	// This timer, and not the election's goroutine, bounds the term's context: the
	// goroutine may be stuck.
	g.timer = time.AfterFunc(time.Duration(until.Mono-c.now().Mono), g.check)
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
	g.close(ReasonTrustExpired)
	g.onClose()
	return false
}

// check is the timer's: the window was extended since, or the term ends now.
func (g *grant) check() {
	if g.open() {
		g.arm()
	}
}

func (g *grant) arm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed.Load() {
		g.timer.Reset(time.Duration(g.mono.Load() - g.clock.now().Mono))
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
	if g.timer != nil {
		g.timer.Stop()
	}
}

type termKey struct{}

// A termContext is the context of a term. Its Err looks at the trust window itself, on both
// clocks, so that it is right at once after a suspension, in which no timer runs.
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
