// Package delivery hands states to a function of somebody else's, one call at a
// time, of each key the latest.
//
// It is what a watch of package store promises to those who watch: calls do not
// overlap, a slow one holds nobody up and costs memory by the number of keys,
// and none begins after the watch was stopped.
package delivery

import (
	"slices"
	"sync"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/goid"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// A Queue is one watch: the states that wait for delivery, and at most one
// goroutine that delivers them, which lives only while something waits. Make
// one with [New]. Its methods may be called by any goroutine, also from within
// the function that it calls, and none but Wait blocks.
type Queue struct {
	deliver func(store.Entry)
	report  func(value any, stack []byte) // of a panic

	mu     sync.Mutex
	ended  sync.Cond              // signalled when runner becomes 0
	latest map[string]store.Entry // of every key whose state waits
	order  []string               // these keys, each once, those that wait longest first
	runner uint64                 // the delivering goroutine, or 0
	closed bool
}

// New returns an empty queue for the function. report receives its panics.
func New(deliver func(store.Entry), report func(value any, stack []byte)) *Queue {
	q := &Queue{deliver: deliver, report: report, latest: make(map[string]store.Entry)}
	q.ended.L = &q.mu
	return q
}

// Push makes e the next state to deliver of its key, at the place of one that
// still waits.
func (q *Queue) Push(e store.Entry) { q.push(e, false) }

// PushLast is Push, but what it puts in comes after all that waits.
func (q *Queue) PushLast(e store.Entry) { q.push(e, true) }

func (q *Queue) push(e store.Entry, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	_, waits := q.latest[e.Key]
	if waits && last {
		q.order = slices.DeleteFunc(q.order, func(key string) bool { return key == e.Key })
	}
	q.latest[e.Key] = e
	if waits && !last {
		return
	}
	q.order = append(q.order, e.Key)
	if q.runner == 0 {
		q.runner = starting
		go q.run()
	}
}

// Close lets no further delivery begin.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// Wait returns when the function does not run, or at once within the function
// itself, where waiting would never end.
func (q *Queue) Wait() {
	me := goid.Current()
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.runner != 0 && q.runner != me {
		q.ended.Wait()
	}
}

// starting is a runner whose number is not known yet. No goroutine has it.
const starting = ^uint64(0)

// run delivers until nothing waits. A panic of the function is its owner's to
// see to, and ends neither the program nor the watch: what comes next is
// delivered.
func (q *Queue) run() {
	ended := false
	defer func() {
		if !ended { // runtime.Goexit in the function takes this goroutine along
			go q.run()
		}
	}()
	me := goid.Current()
	for e, ok := q.next(me); ok; e, ok = q.next(me) {
		q.hand(e)
	}
	ended = true
}

// hand calls the function, again if our own code failed before it was called.
func (q *Queue) hand(e store.Entry) {
	called := false
	report := func(value any, stack []byte) { q.report(value, stack) }
	if shield.Call(func() { faults.Point("delivery queue"); called = true; q.deliver(e) }, report) || called {
		return
	}
	shield.Call(func() { q.deliver(e) }, report)
}

// next takes the state that waits longest, or ends the runner.
func (q *Queue) next(runner uint64) (e store.Entry, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.order) == 0 {
		q.runner = 0
		q.ended.Broadcast()
		return e, false
	}
	q.runner = runner
	key := q.order[0]
	q.order = q.order[1:]
	e = q.latest[key]
	delete(q.latest, key)
	return e, true
}
