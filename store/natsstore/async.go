package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/attend"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/writes"
)

// CompareAndSwapAsync implements [store.AsyncWriter]. While nobody watches it
// takes a goroutine for each call.
func (s *Store) CompareAndSwapAsync(deadline time.Time, w store.Write, done func(revision uint64, err error)) store.Pending {
	if h := s.present(); h != nil {
		if f, ok := h.writes.Begin(deadline, w, done); ok {
			return f
		}
	}
	return s.swapBeside(deadline, w, done)
}

// swapBeside makes the call on a new goroutine. It is not inlined, since
// thousands of goroutines with small stacks call [writes.Writes.Begin] through
// CompareAndSwapAsync.
//
//go:noinline
func (s *Store) swapBeside(deadline time.Time, w store.Write, done func(revision uint64, err error)) store.Pending {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	go func() {
		defer cancel()
		// The outcome if CompareAndSwap panics: it is unknown how far the write
		// had got.
		rev, err := uint64(0), fmt.Errorf("%w: its sending panicked", store.ErrUnknown)
		s.shielded("a write", func() {
			faults.Point("beside")
			rev, err = s.CompareAndSwap(ctx, w)
		})()
		s.shielded("a function that a write calls", func() { done(rev, err) })()
	}()
	return pending(cancel)
}

// A pending call is ended by the end of its context.
type pending context.CancelFunc

func (p pending) Cancel() { p() }

// An author is a store as its writes know it.
type author struct{ s *Store }

var _ writes.Owner = author{}

// Sendable implements [writes.Owner].
func (a author) Sendable(w store.Write, deadline time.Time) error {
	if err := a.s.valid(w); err != nil {
		return err
	}
	return a.s.sendableBy(deadline)
}

// Settle goes on where the first attempt of a write ended with err.
func (a author) Settle(ctx context.Context, before attend.Report, w store.Write, err error) (uint64, error) {
	if !errors.Is(classifyWrite(err), errInFlight) {
		return 0, a.s.writeError(ctx, before, w, err)
	}
	if !backoff.Sleep(ctx, time.Millisecond) {
		return 0, errStillInFlight(w, err)
	}
	return a.s.CompareAndSwap(ctx, w)
}

// Panicked implements [writes.Owner].
func (a author) Panicked(what string, value any, stack []byte) { a.s.panicked(what, value, stack) }
