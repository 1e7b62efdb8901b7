package fence

import (
	"context"
	"fmt"
	"sync"

	"github.com/seed-ff2cb582/leader"
)

// A Gate guards a resource inside this process. The zero Gate is ready, and has
// seen nothing; one that continues after a restart is made by [NewGate]. All
// methods may be called concurrently. A Gate must not be copied after its first
// use.
type Gate struct {
	// Persist, optional, stores the mark durably before the first act of a new
	// term is let in. Calls do not overlap, and their marks grow, with one
	// exception: a mark replaces the larger one that a failed call stored all
	// the same. While it runs, all other callers wait at the gate: it should
	// respect ctx, which is the context of the caller that brings the new term.
	// If it fails, nobody was let in, and the next caller of that term tries
	// again. Set it before the first use.
	Persist func(ctx context.Context, m Mark) error
	// Vet, optional, refuses new terms: those without a proof (Verifier.Vet in
	// module proof), or those above a ceiling of the resource's own. Without it,
	// any caller can bring a number that keeps every leader out, so set it if
	// callers other than leaders reach the gate. It is called before Persist,
	// under the same conditions, for a term that supersedes the gate's mark. A
	// term that is in is not vetted again. After an error nothing has changed,
	// and the caller's error matches ErrRefused. Set it before the first use.
	Vet func(ctx context.Context, m Mark) error

	mu   sync.Mutex
	last Mark
	// work is the work of the term in last. It is nil before the first one, and
	// for a term that was restored.
	work *termWork
}

// A termWork is the work of one term inside a gate.
type termWork struct {
	ctx     context.Context // done when a newer term is at the gate
	end     context.CancelCauseFunc
	working int           // acts that have not left
	empty   chan struct{} // closed when the term has ended and nobody works in it
	before  *termWork     // the next older one that may not be empty
}

// NewGate returns a gate that remembers a mark, which the caller persisted
// earlier.
func NewGate(last Mark) *Gate { return &Gate{last: last} }

// Last returns the mark of the latest term that was accepted.
func (g *Gate) Last() Mark {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// Accept applies the rule, and persists a new mark. It does not wait for work
// that was accepted earlier and still runs: it suits resources that check the
// mark again in the act itself. Otherwise use Enter.
//
// Errors match ErrStale, ErrInvalid or ErrRefused, or come from Persist.
func (g *Gate) Accept(ctx context.Context, t leader.Term) error {
	if err := Check(t); err != nil {
		return err
	}
	return g.AcceptMark(ctx, MarkOf(t))
}

// AcceptMark is Accept for a term of which the caller holds the mark and not
// the token. See [Mark.AcceptMark].
func (g *Gate) AcceptMark(ctx context.Context, m Mark) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.accept(ctx, m)
}

func (g *Gate) accept(ctx context.Context, m Mark) error {
	next, err := g.last.AcceptMark(m)
	if err != nil || next == g.last {
		return err
	}
	if g.Vet != nil {
		if err := g.Vet(ctx, next); err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	if g.Persist != nil {
		if err := g.Persist(ctx, next); err != nil {
			return err
		}
	}
	if g.work != nil {
		// Only now: a term that cannot be persisted must not stop the one that
		// works.
		g.work.end(&StaleError{Refused: g.last, Last: next})
	}
	g.last = next
	g.work = newTermWork(g.work)
	return nil
}

// Enter lets the caller act in term t until it calls leave, which it must, once
// or more. Acts of one term run side by side; acts of different terms never do:
//
//   - The work context descends from ctx, and is cancelled when a newer term
//     comes to the gate, with a *StaleError as its cause. From then on nobody
//     enters with t.
//   - The newer term enters when all who work with older ones have left, or
//     gives up when its own ctx is done. It has been accepted nevertheless, and
//     older ones stay out.
//
// So an act that ignores its context delays its successor, and does not overlap
// it. Errors match ErrStale, ErrInvalid or ErrRefused, or come from Persist, or
// are the cause of the end of ctx. With an error, work is ctx and leave does
// nothing.
func (g *Gate) Enter(ctx context.Context, t leader.Term) (work context.Context, leave func(), err error) {
	if err := Check(t); err != nil {
		return ctx, func() {}, err
	}
	return g.EnterMark(ctx, MarkOf(t))
}

// EnterMark is Enter for a term of which the caller holds the mark and not the
// token. See [Mark.AcceptMark].
func (g *Gate) EnterMark(ctx context.Context, m Mark) (work context.Context, leave func(), err error) {
	r, older, err := g.join(ctx, m)
	if err != nil {
		return ctx, func() {}, err
	}
	leaveOnce := sync.OnceFunc(func() { g.leave(r) })
	if err := r.await(ctx, older); err != nil {
		leaveOnce()
		return ctx, func() {}, err
	}
	work, cancel := context.WithCancelCause(ctx)
	unlink := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	return work, func() {
		unlink()
		cancel(nil)
		leaveOnce()
	}, nil
}

// join counts the caller among the workers of its term. older are the terms
// whose work must end first: each is closed when it has.
func (g *Gate) join(ctx context.Context, m Mark) (r *termWork, older []<-chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.accept(ctx, m); err != nil {
		return nil, nil, err
	}
	if g.work == nil {
		g.work = newTermWork(nil)
	}
	g.work.working++
	return g.work, g.work.older(), nil
}

func (g *Gate) leave(r *termWork) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.working--
	r.settle()
}

// newTermWork begins the work of a term after the work of an ended one. The
// gate's mutex is held.
func newTermWork(before *termWork) *termWork {
	if before != nil {
		before.settle()
	}
	r := &termWork{empty: make(chan struct{}), before: before}
	r.ctx, r.end = context.WithCancelCause(context.Background())
	r.older()
	return r
}

// older returns what is closed when nobody works any more in the terms before,
// for each. Those in which nobody does are forgotten, or each term would keep
// all its predecessors: nobody enters them again. The gate's mutex is held.
func (r *termWork) older() (empty []<-chan struct{}) {
	for at := &r.before; *at != nil; {
		b := *at
		if b.working == 0 {
			*at = b.before
			continue
		}
		empty = append(empty, b.empty)
		at = &b.before
	}
	return empty
}

// settle notes that nobody works in a term that has ended, nor ever will. The
// gate's mutex is held.
func (r *termWork) settle() {
	if r.working == 0 && r.ctx.Err() != nil {
		close(r.empty)
	}
}

// await waits until nobody works in the older terms, unless ctx or the term
// ends before.
func (r *termWork) await(ctx context.Context, older []<-chan struct{}) error {
	for _, empty := range older {
		select {
		case <-empty:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
	return context.Cause(r.ctx)
}
