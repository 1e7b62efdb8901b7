package engine

import (
	"slices"
	"sync"

	"github.com/seed-ff2cb582/leader/internal/goid"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// A callQueue calls functions of the program one after the other, in the order
// in which they were put in. It has a goroutine only while there is something
// to call.
type callQueue struct {
	mu    sync.Mutex
	calls []queuedCall
	busy  bool
	// idle is closed when the queue has run empty; nil while it is.
	idle chan struct{}
	// goid is the id of the calling goroutine, 0 without one.
	goid uint64
}

type queuedCall struct {
	kind callKind
	do   func()
}

// A callKind is the kind of callback that a call is for. Of the news only the
// latest matters to a callback that lags; of a term every call is made.
type callKind uint8

const (
	ofTerm callKind = iota
	ofLeader
	ofCampaign
)

// maxLag is how many news of a kind wait for a callback that lags. With one
// more it skips to the latest. So a callback that blocks costs no memory, and
// one that keeps up misses nothing.
const maxLag = 16

// put does not block.
func (q *callQueue) put(kind callKind, do func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if kind != ofTerm && q.waiting(kind) >= maxLag {
		q.calls = slices.DeleteFunc(q.calls, func(c queuedCall) bool { return c.kind == kind })
	}
	q.calls = append(q.calls, queuedCall{kind, do})
	if !q.busy {
		q.busy, q.idle = true, make(chan struct{})
		go q.run()
	}
}

// waiting counts the calls of a kind. The caller holds the lock.
func (q *callQueue) waiting(kind callKind) (n int) {
	for _, c := range q.calls {
		if c.kind == kind {
			n++
		}
	}
	return n
}

func (q *callQueue) run() {
	// runtime.Goexit in a callback (a test's FailNow) takes this goroutine
	// along, but not the callbacks that follow.
	ended := false
	defer func() {
		if !ended {
			go q.run()
		}
	}()
	id := goid.Current()
	for call, ok := q.next(id); ok; call, ok = q.next(id) {
		// The caller handles panics of its call, and reports more about them.
		shield.Call(call.do, ignore)
	}
	ended = true
}

// next takes the call that waits longest, or ends the goroutine.
func (q *callQueue) next(id uint64) (c queuedCall, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.calls) == 0 {
		q.busy, q.goid, q.calls = false, 0, nil
		close(q.idle)
		q.idle = nil
		return queuedCall{}, false
	}
	c = q.calls[0]
	q.calls[0] = queuedCall{}
	q.calls = q.calls[1:]
	q.goid = id
	return c, true
}

// drained returns a channel that is closed when nothing is left to call, or nil
// if nothing is.
func (q *callQueue) drained() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.idle
}

// inside reports whether the caller is a callback that this queue calls. A Stop
// from within a callback must not wait for that callback, and only this
// distinguishes it: OnDemote has no context that could carry a mark.
func (q *callQueue) inside() bool {
	q.mu.Lock()
	id := q.goid
	q.mu.Unlock()
	return id != 0 && id == goid.Current()
}

// ignore is for calls whose panics are reported elsewhere.
func ignore(any, []byte) {}
