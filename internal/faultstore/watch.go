package faultstore

import (
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/goid"
	"github.com/seed-ff2cb582/leader/store"
)

// A watch is a queue of entries that become due, and at most one goroutine that
// delivers them; it lives only while entries wait.
type watch struct {
	keys      []string // sorted; or
	pattern   string
	deliver   func(store.Entry)
	deafUntil time.Time // guarded by Faults.mu
	stopped   chan struct{}
	wg        *sync.WaitGroup

	mu     sync.Mutex
	ended  sync.Cond // signalled when runner becomes 0
	queue  []due
	runner uint64 // the delivering goroutine, or 0
	closed bool
}

// A due entry is delivered at its time.
type due struct {
	at    time.Time
	entry store.Entry
}

func newWatch(wg *sync.WaitGroup, keys []string, deliver func(store.Entry)) *watch {
	w := &watch{keys: keys, deliver: deliver, stopped: make(chan struct{}), wg: wg}
	w.ended.L = &w.mu
	return w
}

// wants reports whether the watch is of the key.
func (w *watch) wants(key string) bool {
	return slices.Contains(w.keys, key) || w.pattern != "" && store.MatchPattern(w.pattern, key)
}

// complete marks the end of the current state in a pattern's queue. No key is
// empty.
const complete = ""

// push queues an entry. It waits for those pushed before it, however early it
// is due: a watch may be late, but does not turn the order of changes round.
func (w *watch) push(at time.Time, e store.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.queue = append(w.queue, due{at, e})
	if w.runner == 0 {
		w.runner = starting
		w.wg.Go(w.run)
	}
}

// run delivers until nothing waits.
func (w *watch) run() {
	me := goid.Current()
	for {
		e, wait, ok := w.next(me)
		switch {
		case !ok:
			return
		case wait > 0:
			w.sleep(wait)
		default:
			w.deliver(e)
		}
	}
}

// next takes the first entry, or returns how long it has to wait, or ends the
// runner.
func (w *watch) next(runner uint64) (e store.Entry, wait time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.queue) == 0 {
		w.runner = 0
		w.ended.Broadcast()
		return e, 0, false
	}
	w.runner = runner
	first := w.queue[0]
	if wait := time.Until(first.at); wait > 0 {
		return e, wait, true
	}
	w.queue = w.queue[1:]
	return first.entry, 0, true
}

// sleep waits until the time has passed or the watch is closed.
func (w *watch) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.stopped:
	}
}

// close lets no further delivery begin.
func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.stopped)
	}
}

// wait returns when deliver does not run, or at once within deliver itself.
func (w *watch) wait() {
	me := goid.Current()
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.runner != 0 && w.runner != me {
		w.ended.Wait()
	}
}

// starting is a runner whose number is not known yet. No goroutine has it.
const starting = ^uint64(0)
