// Package singleflight lets callers who ask the same at the same time share an
// answer.
package singleflight

import (
	"context"
	"sync"
)

// A Group is for one question that many callers ask at once, such as the
// elections of a process that starts. Without it, their requests would delay
// each other until none is answered in time. The zero value is ready for use,
// by any number of goroutines.
type Group[T any] struct {
	mu    sync.Mutex
	asked *asking[T] // by another caller; nil: by none
}

// An asking is one call of the function that asks.
type asking[T any] struct {
	done     chan struct{}
	answer   T
	err      error
	answered bool
}

// Do calls ask, or waits for the answer to another caller's call that is under
// way. If answered is false, the result is its caller's alone, whose context
// may have ended. The others then ask for themselves, one at a time.
func (g *Group[T]) Do(ctx context.Context, ask func() (answered bool, answer T, err error)) (T, error) {
	for {
		a, mine := g.join()
		if mine {
			return g.lead(a, ask)
		}
		select {
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		case <-a.done:
			if a.answered {
				return a.answer, a.err
			}
		}
	}
}

// Since is Do whose answer is to a call of ask that begins after the call of
// Since. A question that was sent before may tell of the time before. It is
// waited for, so that all who come meanwhile share the next one.
func (g *Group[T]) Since(ctx context.Context, ask func() (answered bool, answer T, err error)) (T, error) {
	if before := g.underWay(); before != nil {
		select {
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		case <-before.done:
		}
	}
	return g.Do(ctx, ask)
}

func (g *Group[T]) underWay() *asking[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

// lead asks, also for those who join meanwhile.
func (g *Group[T]) lead(a *asking[T], ask func() (bool, T, error)) (T, error) {
	defer g.leave(a) // deferred, for a panic
	a.answered, a.answer, a.err = ask()
	return a.answer, a.err
}

func (g *Group[T]) join() (a *asking[T], mine bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked != nil {
		return g.asked, false
	}
	g.asked = &asking[T]{done: make(chan struct{})}
	return g.asked, true
}

func (g *Group[T]) leave(a *asking[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = nil
	close(a.done)
}
