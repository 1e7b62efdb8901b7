package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/machine"
)

func (e *election) ValidateToken(ctx context.Context) error {
	err := e.validate(ctx)
	if errors.Is(err, ErrNotLeader) {
		e.noteBadToken()
	}
	return err
}

// noteBadToken reports that somebody asked about a term that is over. Nobody would take it in from
// the mailbox before the start and after the end.
func (e *election) noteBadToken() {
	switch e.snap.Load().state {
	case machine.Init, machine.Ended:
	default:
		e.mail.put(letter{note: &Note{
			At: time.Now(), Kind: NoteBadToken, Text: "a token was to be validated, and its term is over or there was none",
		}})
	}
}

func (e *election) validate(ctx context.Context) error {
	term := e.Term()
	if term.IsZero() {
		return ErrNotLeader
	}
	asked := e.clock.now().Mono
	e.mail.event(machine.Event{Kind: machine.Validate})
	err := e.awaitCall(ctx, machine.Renew.String(), func(s machine.State) (bool, error) {
		switch {
		case s.Phase != machine.Holding || s.Grant.Term != term.Number:
			return true, &LossError{Term: term, Reason: Reason(s.Exit.Reason)}
		default:
			// A renewal that left before the question proves nothing about now.
			return s.Grant.Sent.Mono >= asked, nil
		}
	})
	if err == nil && !e.IsLeader() {
		err = ErrNotLeader
	}
	if ended := e.ended(); err != nil && ended != nil {
		return fmt.Errorf("%w: %w", err, ended)
	}
	return err
}

func (e *election) Do(ctx context.Context, op func(ctx context.Context) error) error {
	g := e.current.Load()
	if g == nil || !g.open() {
		return ErrNotLeader
	}
	if !e.cached(g) {
		if err := e.ValidateToken(ctx); err != nil {
			return err
		}
	}
	opCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.ctx, func() { cancel(context.Cause(g.ctx)) })()
	if !g.open() {
		return ErrNotLeader
	}
	return op(opCtx)
}

// cached tells whether the latest acknowledged renewal is proof enough for Do.
func (e *election) cached(g *grant) bool {
	f := e.cfg.Fencing
	if f.ValidateOnCriticalOps {
		return false
	}
	sent := g.mono.Load() - int64(machine.Trust(e.cfg.TTL, e.cfg.ClockDrift))
	return f.ValidationInterval == 0 || e.clock.now().Mono-sent <= int64(f.ValidationInterval)
}

func (e *election) validatePeriodically(ctx context.Context) {
	for sleep(ctx, e.cfg.Fencing.ValidationInterval) {
		faults.Point("validation")
		if e.IsLeader() {
			// The outcome shows by itself: the window is extended or closes.
			_ = e.ValidateToken(ctx)
		}
	}
}
