package leader

import (
	"runtime/debug"
	"sync"

	"github.com/seed-ff2cb582/leader/internal/goid"
)

// A courier delivers callbacks one after the other, in the order in which they were
// handed in. It has a goroutine only while there is something to deliver.
type courier struct {
	mu    sync.Mutex
	queue []func()
	busy  bool
	// idle is closed when the queue has run empty; nil while it is.
	idle chan struct{}
	// goid is the id of the delivering goroutine, 0 without one.
	goid uint64
}

// hand hands in a job. It does not block.
func (c *courier) hand(job func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, job)
	if !c.busy {
		c.busy, c.idle = true, make(chan struct{})
		go c.deliver()
	}
}

func (c *courier) deliver() {
	// runtime.Goexit in a callback (a test's FailNow) takes this goroutine along, but not the
	// callbacks that follow.
	ended := false
	defer func() {
		if !ended {
			go c.deliver()
		}
	}()
	id := goid.Current()
	for {
		c.mu.Lock()
		if len(c.queue) == 0 {
			c.busy, c.goid, c.queue = false, 0, nil
			close(c.idle)
			c.idle = nil
			c.mu.Unlock()
			ended = true
			return
		}
		job := c.queue[0]
		c.queue = c.queue[1:]
		c.goid = id
		c.mu.Unlock()
		job()
	}
}

// drained returns a channel that is closed when nothing is left to deliver, or nil if so already.
func (c *courier) drained() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle
}

// inside reports whether the caller is a callback that this courier delivers. A Stop
// from within a callback must not wait for that callback, and nothing else tells it apart.
func (c *courier) inside() bool {
	c.mu.Lock()
	id := c.goid
	c.mu.Unlock()
	return id != 0 && id == goid.Current()
}

// shielded calls f and reports a panic of f, with its stack, instead of letting it
// take the program down.
func shielded(f func(), report func(value any, stack []byte)) (ok bool) {
	defer func() {
		if !ok {
			// With runtime.Goexit the value is nil.
			report(recover(), debug.Stack())
		}
	}()
	f()
	return true
}
