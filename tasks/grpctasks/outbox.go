package grpctasks

import "sync"

// An outbox is what waits to be sent on a stream: nobody who adds to it waits.
type outbox[M any] struct {
	wake chan struct{}

	mu      sync.Mutex
	waiting []M
}

func newOutbox[M any]() *outbox[M] { return &outbox[M]{wake: make(chan struct{}, 1)} }

func (o *outbox[M]) put(m M) {
	o.mu.Lock()
	o.waiting = append(o.waiting, m)
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default: // the sender has not yet seen the last signal
	}
}

func (o *outbox[M]) take() []M {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.waiting
	o.waiting = nil
	return all
}
