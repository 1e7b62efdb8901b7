package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// An env is what the parts of a candidate share: its settings, its clock, its
// store, the way to the loop and to the reporter, and its goroutines. The parts
// know the env and not one another.
type env struct {
	cfg    Config
	clock  clock
	inbox  *inbox
	report reporter
	store  guardedStore

	ctx    context.Context //nolint:containedctx // of all I/O, from start to end
	cancel context.CancelFunc
	work   sync.WaitGroup

	process string // see package process
	// leaveDrain is nil before the drain of the instance is followed.
	leaveDrain func()

	// current is the present term, nil without one.
	current atomic.Pointer[window]
	// broken describes a panic of our own code. It ends the election.
	broken atomic.Pointer[failure]
}

// guard calls f, which is ours. A panic of it ends the election.
func (e *env) guard(what string, f func()) {
	shield.Call(func() {
		faults.Point(what)
		f()
	}, func(value any, stack []byte) { e.crash(what, value, stack) })
}

// spawn runs f, which is ours, in a goroutine of the candidate's I/O. The
// candidate does not end before f has. So whatever f puts into the inbox, or
// reports, finds somebody.
func (e *env) spawn(what string, f func()) {
	e.work.Go(func() { e.guard(what, f) })
}

// crash ends the election because our own code panicked, in any goroutine. The
// window closes here and now: the loop, which does the rest, may be the one
// that is broken, or stuck.
func (e *env) crash(what string, value any, stack []byte) {
	err := fmt.Errorf("%w: %s: %v", ErrPanicked, what, shield.Value(value))
	e.broken.CompareAndSwap(nil, &failure{err, time.Now()})
	// After broken is set: a goroutine that begins a term looks at that after
	// the term is current.
	if w := e.current.Load(); w != nil {
		w.close(leadership.ReasonCrashed)
	}
	e.report.failed(err)
	e.report.panicked(what)(value, stack)
}

// crashed reports whether our own code panicked. The loop asks before it acts
// for the core, in which the fault may be.
func (e *env) crashed() bool { return e.broken.Load() != nil }

// bounded returns the context of one call to the store. A call that hangs ends
// by that, so that the core, which has one write under way at a time, can
// repeat it.
func (e *env) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.ctx, e.cfg.ConnectionTimeout)
}

// warns reports whether a warning about the store or a rival is this
// candidate's to give: of a hundred roles in one process, one is enough.
func (e *env) warns(text string) bool {
	return e.cfg.Supervisor == nil || e.cfg.Supervisor.Warns(text)
}
