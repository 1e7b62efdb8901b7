//go:build unix

package guard

import (
	"encoding/json"
	"os"
	"slices"
	"sync"
)

// An outbox writes the orders to the guard, each whole. It uses a separate
// goroutine, since a pipe takes no more than 64 KiB from a candidate whose
// guard does not read, and the candidate must go on to look at the clock. An
// order that was given up halfway would spoil the next one.
//
// It is safe that an order comes late: a deadline is an instant, and a guard
// that knows of no later one acts by the last. So is a first order: nothing
// runs before the guard has read it, and it holds the deadlines after it
// against the clock before it starts anything.
type outbox struct {
	pipe *os.File
	more chan struct{} // has a token if there is something in rest

	mu   sync.Mutex
	rest []Order // those that the goroutine has not taken yet
}

// newOutbox returns an outbox, which is to be closed, and owns the pipe.
func newOutbox(pipe *os.File) *outbox {
	b := &outbox{pipe: pipe, more: make(chan struct{}, 1)}
	go b.write()
	return b
}

// put has an order written. It does not wait. A deadline replaces a waiting
// deadline: a guard may be stopped for thousands of renewals, and needs the
// latest alone.
func (b *outbox) put(o Order) {
	b.mu.Lock()
	if at := slices.IndexFunc(b.rest, func(r Order) bool { return r.Op == opTrust }); at >= 0 && o.Op == opTrust {
		b.rest[at] = o
	} else {
		b.rest = append(b.rest, o)
	}
	b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// take returns the orders that wait.
func (b *outbox) take() []Order {
	b.mu.Lock()
	defer b.mu.Unlock()
	orders := b.rest
	b.rest = nil
	return orders
}

// write writes until the outbox is closed, or the guard has ended.
func (b *outbox) write() {
	out := json.NewEncoder(b.pipe)
	for range b.more {
		for _, o := range b.take() {
			if err := out.Encode(o); err != nil {
				return
			}
		}
	}
}

// close ends the pipe, and a write that waits. No put may follow.
func (b *outbox) close() {
	close(b.more)
	_ = b.pipe.Close() // the reader of the rest is gone
}
