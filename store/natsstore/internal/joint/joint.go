// Package joint lets callers who ask the same at the same time share an answer.
package joint

import (
	"context"
	"sync"
)

// A Question is one that many callers may ask at once, such as the thousand
// elections that a process begins: their requests would hold each other up
// until none is answered in time. The zero value is ready for use, by any
// number of goroutines.
type Question[T any] struct {
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

// Ask calls ask, or waits for the answer to another caller's call that is under
// way. Answered is what ask returns first: it says that its results hold for
// everyone. Else they are those of its caller alone, whose context may have
// ended, and the others ask for themselves, again one at a time.
func (q *Question[T]) Ask(ctx context.Context, ask func() (answered bool, answer T, err error)) (T, error) {
	for {
		a, mine := q.join()
		if mine {
			return q.lead(a, ask)
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

// lead asks, also for those who join meanwhile.
func (q *Question[T]) lead(a *asking[T], ask func() (bool, T, error)) (T, error) {
	defer q.leave(a) // deferred, for a panic
	a.answered, a.answer, a.err = ask()
	return a.answer, a.err
}

func (q *Question[T]) join() (a *asking[T], mine bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asked != nil {
		return q.asked, false
	}
	q.asked = &asking[T]{done: make(chan struct{})}
	return q.asked, true
}

func (q *Question[T]) leave(a *asking[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = nil
	close(a.done)
}
