package leader

import (
	"slices"
	"sync"

	"github.com/seed-ff2cb582/leader/internal/goid"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// A courier delivers callbacks one after the other, in the order in which they were
// handed in. It has a goroutine only while there is something to deliver.
type courier struct {
	mu    sync.Mutex
	queue []job
	busy  bool
	// idle is closed when the queue has run empty; nil while it is.
	idle chan struct{}
	// goid is the id of the delivering goroutine, 0 without one.
	goid uint64
}

// A job is one call of the callbacks of a kind.
type job struct {
	kind news
	do   func()
}

// A news is a kind of job of which only the latest matters to a callback that
// lags. Of a term every job is delivered.
type news uint8

const (
	ofTerm news = iota
	ofLeader
	ofCampaign
)

// newsLag is how many news of a kind wait for a callback that lags. One more,
// and it skips to the latest. So a callback that blocks costs no memory, and one
// that keeps up misses nothing.
const newsLag = 16

// hand hands in a job. It does not block.
func (c *courier) hand(kind news, do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind != ofTerm && c.waiting(kind) >= newsLag {
		c.queue = slices.DeleteFunc(c.queue, func(j job) bool { return j.kind == kind })
	}
	c.queue = append(c.queue, job{kind, do})
	if !c.busy {
		c.busy, c.idle = true, make(chan struct{})
		go c.deliver()
	}
}

func (c *courier) waiting(kind news) (n int) {
	for _, j := range c.queue {
		if j.kind == kind {
			n++
		}
	}
	return n
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
	for job, ok := c.next(id); ok; job, ok = c.next(id) {
		// Those who hand in a job see to its panics, with more to say of them.
		shield.Call(job.do, func(any, []byte) {})
	}
	ended = true
}

// next takes the job that waits longest, or ends the delivery.
func (c *courier) next(id uint64) (j job, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.busy, c.goid, c.queue = false, 0, nil
		close(c.idle)
		c.idle = nil
		return job{}, false
	}
	j = c.queue[0]
	c.queue[0] = job{}
	c.queue = c.queue[1:]
	c.goid = id
	return j, true
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
