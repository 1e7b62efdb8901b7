package demo

import (
	"context"
	"fmt"
	"sync"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/store"
)

// A remote is a store behind a network that can be cut. Then calls wait, and
// what changes is heard of when the network is healed. It is for one election:
// stop must not be called within deliver, which no election does.
type remote struct {
	app.Registers
	net *network
}

// pass waits until the network is whole. A ctx that ends before is an error of
// the class, which determines what a caller may conclude: nothing, about a
// write whose answer was lost.
func (r *remote) pass(ctx context.Context, class error) error {
	select {
	case <-r.net.whole():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: the network is cut: %w", class, ctx.Err())
	}
}

// Get implements store.Store. The network may be cut while the store answers,
// and then the answer waits, too.
func (r *remote) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := r.pass(ctx, store.ErrTransient); err != nil {
		return store.Entry{}, err
	}
	e, err := r.Registers.Get(ctx, key)
	if lost := r.pass(ctx, store.ErrTransient); lost != nil {
		return store.Entry{}, lost
	}
	return e, err
}

// CompareAndSwap implements store.Store. The answer, too, may be what does not
// come through.
func (r *remote) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if err := r.pass(ctx, store.ErrUnknown); err != nil {
		return 0, err
	}
	rev, err := r.Registers.CompareAndSwap(ctx, w)
	if lost := r.pass(ctx, store.ErrUnknown); lost != nil {
		return 0, lost
	}
	return rev, err
}

// Watch implements store.Watcher. The store's own watch goes on while the
// network is cut: that between this process and the store is whole.
func (r *remote) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	if err := r.pass(ctx, store.ErrTransient); err != nil {
		return nil, err
	}
	d := r.net.delivery(deliver)
	end, err := r.Registers.Watch(ctx, keys, d.entry)
	if err != nil {
		d.end()
		return nil, err
	}
	return func() { end(); d.end() }, nil
}

// Check implements store.Checker.
func (r *remote) Check(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	c, ok := r.Registers.(store.Checker)
	if !ok {
		return store.Report{}, nil
	}
	if err := r.pass(ctx, store.ErrTransient); err != nil {
		return store.Report{}, err
	}
	return c.Check(ctx, req)
}

// A delivery holds the reports of a watch while the network is cut. It keeps
// everything in order: a watch may skip states, and never go back.
type delivery struct {
	net     *network
	deliver func(store.Entry)

	mu    sync.Mutex // held while deliver is called
	held  []store.Entry
	ended bool
}

// delivery returns one that is woken when the network is healed, until its end.
func (n *network) delivery(deliver func(store.Entry)) *delivery {
	d := &delivery{net: n, deliver: deliver}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waits[d] = struct{}{}
	return d
}

// entry takes in what the store's watch delivers.
func (d *delivery) entry(e store.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = append(d.held, e)
	d.say()
}

// flush delivers what was held back. If the network was cut again, it stays
// held.
func (d *delivery) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.say()
}

// say delivers what is held, unless the network is cut. d.mu is held.
func (d *delivery) say() {
	for len(d.held) > 0 && !d.ended && isClosed(d.net.whole()) {
		e := d.held[0]
		d.held = d.held[1:]
		d.deliver(e)
	}
}

// end has nothing be delivered any more. It waits for a call of deliver, as the
// stop of a watch does. The locks are taken in turn, since say looks at the
// network under the delivery's own.
func (d *delivery) end() {
	d.net.mu.Lock()
	delete(d.net.waits, d)
	d.net.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}
