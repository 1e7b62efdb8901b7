package grpctasks

import (
	"sync"

	"github.com/seed-ff2cb582/leader/tasks"
)

// maxWaiting bounds an outbox: its messages, and the orders, revocations and
// settlements in them. It leaves room for each task of a worker to be ordered,
// revoked and settled. The bytes of payloads are not counted, since the leader
// keeps the payloads of open tasks anyway.
const maxWaiting = 4 * tasks.MaxCapacity

// An outbox holds what waits to be sent on a stream. Adding to it never blocks.
type outbox[M any] struct {
	wake chan struct{}

	mu      sync.Mutex
	waiting []parcel[M]
	items   int
}

// A parcel is a message with the number of items in it.
type parcel[M any] struct {
	m     M
	items int
}

func newOutbox[M any]() *outbox[M] { return &outbox[M]{wake: make(chan struct{}, 1)} }

// put adds a message, and reports whether there was room for it.
func (o *outbox[M]) put(m M, items int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.items >= maxWaiting {
		return false
	}
	o.add(m, items)
	return true
}

// putAlone adds a message unless another one waits.
func (o *outbox[M]) putAlone(m M) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		o.add(m, 0)
	}
}

func (o *outbox[M]) add(m M, items int) {
	o.items += 1 + items
	o.waiting = append(o.waiting, parcel[M]{m, items})
	select {
	case o.wake <- struct{}{}:
	default: // the sender has not yet seen the last signal
	}
}

// take takes out the first message, if any waits.
func (o *outbox[M]) take() (m M, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		o.waiting = nil // with the room of what has been sent
		return m, false
	}
	first := o.waiting[0]
	o.waiting[0] = parcel[M]{}
	o.waiting, o.items = o.waiting[1:], o.items-1-first.items
	return first.m, true
}
