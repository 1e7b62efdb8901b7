package natsstore

import (
	"context"
	"sync"
)

// A question is asked by many callers at once, such as the elections of a
// process that starts, who share an answer. Otherwise their requests would
// delay each other until none is answered in time. The zero value is ready for
// use, by any number of goroutines.
type question[T any] struct {
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

// since returns the answer to a call of ask, by this caller or another, that
// begins after the call of since: the answer to an earlier question may be
// about the time before. If answered is false, the result is its caller's
// alone, whose context may have ended. The others then ask for themselves, one
// at a time.
func (q *question[T]) since(ctx context.Context, ask func() (answered bool, answer T, err error)) (T, error) {
	q.mu.Lock()
	earlier := q.asked
	q.mu.Unlock()
	for {
		a, mine := q.join()
		if mine {
			return q.answer(a, ask)
		}
		select {
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		case <-a.done:
			if a.answered && a != earlier {
				return a.answer, a.err
			}
		}
	}
}

// answer asks, and leaves also if ask panics.
func (q *question[T]) answer(a *asking[T], ask func() (answered bool, answer T, err error)) (T, error) {
	defer q.leave(a)
	a.answered, a.answer, a.err = ask()
	return a.answer, a.err
}

func (q *question[T]) join() (a *asking[T], mine bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asked != nil {
		return q.asked, false
	}
	q.asked = &asking[T]{done: make(chan struct{})}
	return q.asked, true
}

func (q *question[T]) leave(a *asking[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = nil
	close(a.done)
}
