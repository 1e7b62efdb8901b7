package leader_test

import (
	"context"
	"sync"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A checked store answers a Check as it is told. It hides that it can watch.
type checked struct {
	store.Store
	mu     sync.Mutex
	err    error
	report store.Report
	hold   chan struct{} // if not nil, Check waits until it is closed
	n      int
}

func (c *checked) Check(context.Context, store.CheckRequest) (store.Report, error) {
	c.mu.Lock()
	hold := c.hold
	c.n++
	c.mu.Unlock()
	if hold != nil {
		<-hold
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report, c.err
}

func (c *checked) repair() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = nil
}

func (c *checked) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// A plain store can do no more than it must.
type plain struct{ store.Store }

func newPlain() plain { return plain{memstore.New()} }
