package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/machine"
)

// ValidateToken proves by a renewal that this candidate led at some instant
// during the call. IsLeader rests on clocks (A3), and a renewal on the store
// alone: nobody had replaced the record when that was applied.
func (c *Candidate) ValidateToken(ctx context.Context) error {
	err := c.validate(ctx)
	if errors.Is(err, ErrNotLeader) {
		c.noteBadToken()
	}
	return err
}

// noteBadToken reports a question about a term that is over. Before the start
// and after the end there is no loop that would take it from the inbox.
func (c *Candidate) noteBadToken() {
	switch c.snap.Load().state {
	case machine.Init, machine.Ended:
	default:
		c.report.tell(NoteBadToken, "validation of a token without a term in force")
	}
}

// validate is ValidateToken without the note. It may be called within a
// callback, since the loop renews. Within a hook, which the loop calls, it
// waits for itself.
func (c *Candidate) validate(ctx context.Context) error {
	term := c.Term()
	if term.IsZero() {
		return ErrNotLeader
	}
	// Before the question is put, or the renewal that answers it might seem to
	// have left before it.
	asked := c.clock.now().Mono
	c.inbox.event(machine.Event{Kind: machine.Validate})
	err := c.await(ctx, machine.Renew.String(), func(s *machine.State) (bool, error) {
		switch {
		case s.Phase != machine.Holding || s.Grant.Term != term.Number:
			return true, c.cfg.Loss(term, s.Exit.Reason)
		default:
			// A renewal that left before the question proves nothing about now.
			return s.Grant.Sent.Mono >= asked, nil
		}
	})
	// The answer proves an instant of the past, and may be read after the
	// window has closed.
	if err == nil && !c.IsLeader() {
		err = ErrNotLeader
	}
	if ended := c.Ended(); err != nil && ended != nil {
		return fmt.Errorf("%w: %w", err, ended)
	}
	return err
}

// Do validates the token, as the settings require, and calls op with a context
// that ends with the term.
func (c *Candidate) Do(ctx context.Context, op func(ctx context.Context) error) error {
	w := c.current.Load()
	if w == nil || !w.open() {
		return ErrNotLeader
	}
	if !c.proved(w) {
		if err := c.ValidateToken(ctx); err != nil {
			return err
		}
	}
	// The caller's context, which has its deadline and values, and not the
	// term's; that only ends it.
	inner, cancel := context.WithCancelCause(context.WithValue(ctx, termKey{}, w.term))
	opCtx := &opContext{inner, w, cancel}
	defer func() {
		// A context that op keeps has the cause, even if op returned before the
		// goroutine below set it.
		_ = opCtx.Err()
		cancel(nil)
	}()
	defer context.AfterFunc(w.ctx, func() { cancel(context.Cause(w.ctx)) })()
	// The validation may have outlasted the term.
	if !w.open() {
		return ErrNotLeader
	}
	return op(opCtx)
}

// An opContext is the context of an operation. Its Err looks at the trust
// window itself, as the Err of the term's context does: the goroutine that ends
// the operation's context with the term may not have run yet. Contexts that
// descend from it wait for that goroutine.
type opContext struct {
	context.Context
	w      *window
	cancel context.CancelCauseFunc
}

// Err is the error of the caller's context, and context.Canceled as soon as the
// trust window has passed.
func (c *opContext) Err() error {
	if c.w.ctx.Err() != nil {
		c.cancel(context.Cause(c.w.ctx))
	}
	return c.Context.Err()
}

// proved reports whether the latest acknowledged renewal is proof enough for
// Do.
func (c *Candidate) proved(w *window) bool {
	if c.cfg.ValidateAlways {
		return false
	}
	every := c.cfg.ValidateEvery
	if every == 0 {
		return true
	}
	// A window has its end alone, which the core counted from when the renewal
	// left (rule 1). The greater age counts, as with the window: in a
	// suspension only the wall clock goes on.
	now, trust := c.clock.now(), int64(machine.Trust(c.cfg.TTL, c.cfg.ClockDrift))
	return trust-min(w.mono.Load()-now.Mono, w.wall.Load()-now.Wall) <= int64(every)
}

// validatePeriodically proves the token of the current term, if any, from the
// start of the election to its end, on a separate goroutine, since it waits for
// the store.
func (c *Candidate) validatePeriodically(ctx context.Context) {
	for backoff.Sleep(ctx, c.cfg.ValidateEvery) {
		faults.Point("validation")
		// A follower has nothing to prove, and each attempt would be noted as
		// somebody's bad token.
		if c.IsLeader() {
			// The outcome shows by itself: the window is extended or closes.
			_ = c.ValidateToken(ctx)
		}
	}
}
