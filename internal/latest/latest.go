// Package latest is the queue between those who report states and one who acts
// on them: of each key it keeps the latest state alone.
//
// A slow reader skips states, costs memory by the number of keys and not of
// reports, and holds nobody up; the last state of each key it never misses.
package latest

import (
	"slices"
	"sync"
)

// A Queue holds at most one value for each key, in the order in which the keys
// began to wait. Make one with [New]. Its methods may be called by any
// goroutine, and none of them blocks.
type Queue[K comparable, V any] struct {
	// Merge, if not nil, returns what is to wait under a key in place of what
	// waits there and what is put in. Without it the value that is put in
	// replaces the other. Set it before the first Put. It is called with the
	// queue locked, so it must not use the queue.
	Merge func(waiting, next V) V

	wake chan struct{}

	mu      sync.Mutex
	waiting map[K]V
	order   []K // the keys of waiting
}

// New returns an empty queue.
func New[K comparable, V any]() *Queue[K, V] {
	return &Queue[K, V]{wake: make(chan struct{}, 1), waiting: make(map[K]V)}
}

// Wake returns a channel that holds one signal if something was put in since
// the last was received. A reader receives, then takes until nothing is left;
// what it took early leaves a signal behind, so that one may find nothing.
func (q *Queue[K, V]) Wake() <-chan struct{} { return q.wake }

// Put puts in v, at the place of what waits under k, or at the end.
func (q *Queue[K, V]) Put(k K, v V) { q.put(k, v, false) }

// PutLast puts in v, at the end in any case.
func (q *Queue[K, V]) PutLast(k K, v V) { q.put(k, v, true) }

func (q *Queue[K, V]) put(k K, v V, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, waits := q.waiting[k]
	if waits && q.Merge != nil {
		v = q.Merge(before, v)
	}
	if waits && last {
		q.order = slices.DeleteFunc(q.order, func(other K) bool { return other == k })
	}
	if !waits || last {
		q.order = append(q.order, k)
	}
	q.waiting[k] = v
	select {
	case q.wake <- struct{}{}:
	default: // the reader has not yet seen the last signal
	}
}

// Take takes out what waits first, and reports whether anything did.
func (q *Queue[K, V]) Take() (v V, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return v, false
	}
	k := q.order[0]
	q.order = q.order[1:]
	v = q.waiting[k]
	delete(q.waiting, k)
	return v, true
}

// TakeAll takes out all that waits, in order, at one instant.
func (q *Queue[K, V]) TakeAll() []V {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]V, len(q.order))
	for i, k := range q.order {
		all[i] = q.waiting[k]
	}
	q.order = nil
	clear(q.waiting)
	return all
}
