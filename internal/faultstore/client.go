package faultstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// A Client is one candidate's link to the registers. It implements
// [store.Watcher], [store.PatternWatcher], [store.ConnReporter] and
// [store.Checker].
type Client struct {
	f    *Faults
	name string

	// The fields below are guarded by f.mu.
	cut       bool
	conn      store.ConnState
	calls     map[callKind]uint64 // how many were made
	watches   []*watch
	listeners map[*func(store.ConnState)]struct{}

	telling sync.Mutex // held while listeners are called; taken before f.mu
}

// A callKind is what the calls of one client are numbered by.
type callKind struct {
	op  Op
	key string
}

var (
	_ store.Watcher        = (*Client)(nil)
	_ store.PatternWatcher = (*Client)(nil)
	_ store.ConnReporter   = (*Client)(nil)
	_ store.Checker        = (*Client)(nil)
)

// Get implements [store.Store].
func (c *Client) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := admit(ctx, key); err != nil {
		return store.Entry{}, err
	}
	var e store.Entry
	var err error
	heard := c.call(ctx, Call{Op: Get, Key: key}, func(fate Fate, _ bool) func() {
		got, failure := c.read(key, fate)
		return func() { e, err = got, failure }
	})
	if !heard {
		return store.Entry{}, fmt.Errorf("%w: no answer: %w", store.ErrTransient, end(ctx))
	}
	return e, err
}

// CompareAndSwap implements [store.Store].
func (c *Client) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if err := admit(ctx, w.Key); err != nil {
		return 0, err
	}
	w.Value = bytes.Clone(w.Value)
	var rev uint64
	var err error
	heard := c.call(ctx, Call{Op: CompareAndSwap, Key: w.Key, Write: w}, func(fate Fate, given bool) func() {
		got, failure := c.write(w, fate, given)
		return func() { rev, err = got, failure }
	})
	if !heard {
		return 0, fmt.Errorf("%w: no answer: %w", store.ErrUnknown, end(ctx))
	}
	return rev, err
}

// Check implements [store.Checker]. It finds nothing but, with Options.Ages,
// the age of the store: what a simulation makes the store forget is the
// simulation's choice.
func (c *Client) Check(ctx context.Context, _ store.CheckRequest) (report store.Report, err error) {
	if !c.f.opts.Ages {
		return store.Report{}, nil
	}
	heard := c.call(ctx, Call{Op: Check}, func(fate Fate, _ bool) func() {
		if refused := c.f.refused(fate); refused != nil {
			return func() { err = refused }
		}
		age := max(time.Since(c.f.made), 1)
		return func() { report.Age = age }
	})
	if !heard {
		return store.Report{}, fmt.Errorf("%w: no answer: %w", store.ErrTransient, end(ctx))
	}
	return report, err
}

// admit decides on a call before it leaves.
func admit(ctx context.Context, key string) error {
	if !store.ValidKey(key) {
		return fmt.Errorf("%w: key %q", store.ErrInvalid, key)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: nothing was sent: %w", store.ErrTransient, err)
	}
	return nil
}

// end returns why a call got no answer.
func end(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errClosed
}

var errClosed = errors.New("the network was closed")

// call sends a call on its way. perform runs when it reaches the store, with
// f.mu held; its argument is whether the caller has given up; it returns the
// effect of the answer when the caller hears it. call reports whether the
// caller heard it.
func (c *Client) call(ctx context.Context, call Call, perform func(Fate, bool) func()) bool {
	answer := make(chan func(), 1)
	c.f.mu.Lock()
	fate := c.fate(call)
	c.depart(ctx, call, fate, func() {
		givenUp := ctx.Err() != nil
		result := perform(fate, givenUp)
		if !givenUp {
			c.reply(fate, func() { answer <- result })
		}
	})
	c.f.mu.Unlock()
	select {
	case result := <-answer:
		result()
		return true
	case <-ctx.Done():
	case <-c.f.done:
	}
	return false
}

// fate asks the policy. f.mu is held.
func (c *Client) fate(call Call) Fate {
	call.Client = c.name
	kind := callKind{call.Op, call.Key}
	call.N = c.calls[kind]
	c.calls[kind]++
	return c.f.opts.Policy(call)
}

// depart lets the call reach the store, some time or never. f.mu is held.
func (c *Client) depart(ctx context.Context, call Call, fate Fate, arrive func()) {
	switch {
	case c.f.closed:
	case call.Op == CompareAndSwap && fate.Late > 0:
		wait := fate.Late
		if deadline, ok := ctx.Deadline(); ok {
			wait += time.Until(deadline)
		}
		c.f.after(wait, arrive)
	case c.cut:
		c.f.counts[Partition]++
	case fate.Lose:
		c.f.counts[LostRequest]++
	default:
		c.f.after(fate.Delay, func() {
			if c.cut {
				c.f.counts[Partition]++
				return
			}
			if fate.Delay > 0 {
				c.f.counts[DelayedRequest]++
			}
			arrive()
		})
	}
}

// reply lets the answer reach the caller, some time or never. f.mu is held.
func (c *Client) reply(fate Fate, hear func()) {
	if fate.LoseReply {
		return
	}
	c.f.after(fate.Reply, func() {
		if c.cut {
			c.f.counts[Partition]++
			return
		}
		if fate.Reply > 0 {
			c.f.counts[DelayedReply]++
		}
		hear()
	})
}

// read answers a Get. f.mu is held.
func (c *Client) read(key string, fate Fate) (store.Entry, error) {
	if err := c.f.refused(fate); err != nil {
		return store.Entry{}, err
	}
	e := c.f.entry(key)
	if fate.Stale <= 0 {
		return e, nil
	}
	old := c.f.past.of(key, time.Now().Add(-fate.Stale))
	if old.Revision != e.Revision {
		c.f.counts[StaleRead]++
	}
	return old, nil
}

// write performs a CompareAndSwap, whose caller may have given up. f.mu is
// held.
func (c *Client) write(w store.Write, fate Fate, givenUp bool) (uint64, error) {
	if err := c.f.refused(fate); err != nil {
		return 0, err
	}
	if fate.Conflict && c.f.entry(w.Key).Revision == w.Expected {
		c.f.counts[FalseConflict]++
		return 0, fmt.Errorf("%w: the replica that answers is cut off", store.ErrConflict)
	}
	rev, err := c.f.mem.CompareAndSwap(context.Background(), w)
	if err != nil {
		if givenUp {
			c.f.counts[LateRefusal]++
		}
		return 0, err
	}
	switch {
	case givenUp:
		c.f.counts[LateCommit]++
	case fate.LoseReply:
		c.f.counts[LostReply]++
	}
	c.f.changed(w.Key)
	return rev, nil
}

// Partition cuts the links, and their clients know: they report Disconnected.
// Calls get no answer, watches hear nothing.
func (f *Faults) Partition(names ...string) { f.cut(store.Disconnected, names) }

// BlackHole cuts the links as Partition does, but their clients report that
// they are connected.
func (f *Faults) BlackHole(names ...string) { f.cut(store.Connected, names) }

func (f *Faults) cut(conn store.ConnState, names []string) {
	for _, name := range names {
		f.Client(name).set(true, conn)
	}
}

// Heal joins the links again. Their watches hear the current state of all their
// keys, and then their clients report Connected. Calls that a partition
// swallowed stay lost.
func (f *Faults) Heal(names ...string) {
	for _, name := range names {
		f.Client(name).set(false, store.Connected)
	}
}

// Report lets clients report a state, whatever their links do: disconnected
// while answers arrive, connected while none do. It lasts until the next call
// of Report, Partition, BlackHole or Heal.
func (f *Faults) Report(conn store.ConnState, names ...string) {
	for _, name := range names {
		f.Client(name).report(conn)
	}
}

// set changes the link's state and notifies the listeners.
func (c *Client) set(cut bool, conn store.ConnState) {
	c.telling.Lock()
	defer c.telling.Unlock()
	for _, tell := range c.change(cut, conn) {
		(*tell)(conn)
	}
}

// report changes the reported state of the link, and notifies the listeners.
func (c *Client) report(conn store.ConnState) {
	c.telling.Lock()
	defer c.telling.Unlock()
	for _, tell := range c.changeReport(conn) {
		(*tell)(conn)
	}
}

// change changes the link's state, and returns the listeners to notify.
func (c *Client) change(cut bool, conn store.ConnState) []*func(store.ConnState) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	healed := c.cut && !cut
	c.cut = cut
	if healed {
		c.resync()
	}
	return c.say(conn)
}

// changeReport changes the reported state of the link, and returns the
// listeners to notify.
func (c *Client) changeReport(conn store.ConnState) []*func(store.ConnState) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.conn != conn && c.cut == (conn == store.Connected) {
		c.f.counts[FalseReport]++
	}
	return c.say(conn)
}

// say changes the state that is reported, and returns the listeners to notify.
// f.mu is held.
func (c *Client) say(conn store.ConnState) (tell []*func(store.ConnState)) {
	if c.conn == conn {
		return nil
	}
	c.conn = conn
	for l := range c.listeners {
		tell = append(tell, l)
	}
	return tell
}

// ConnState implements [store.ConnReporter].
func (c *Client) ConnState() store.ConnState {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return c.conn
}

// OnConnState implements [store.ConnReporter].
func (c *Client) OnConnState(f func(store.ConnState)) (stop func()) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.listeners[&f] = struct{}{}
	return func() {
		c.f.mu.Lock()
		defer c.f.mu.Unlock()
		delete(c.listeners, &f)
	}
}

// Watch implements [store.Watcher]. Its own call may be lost or refused, and
// then fails after Options.WatchTimeout or at once; the current state, at the
// beginning and after each interruption, may be late but is not lost.
func (c *Client) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (stop func(), err error) {
	for _, key := range keys {
		if err := admit(ctx, key); err != nil {
			return nil, err
		}
	}
	return c.start(ctx, newWatch(&c.f.wg, slices.Compact(slices.Sorted(slices.Values(keys))), deliver))
}

// WatchPattern implements [store.PatternWatcher], as Watch does.
func (c *Client) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (stop func(), err error) {
	if !store.ValidPattern(pattern) {
		return nil, fmt.Errorf("%w: pattern %q", store.ErrInvalid, pattern)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: nothing was sent: %w", store.ErrTransient, err)
	}
	w := newWatch(&c.f.wg, nil, func(e store.Entry) {
		if e.Key == complete {
			present(nil)
			return
		}
		deliver(e)
	})
	w.pattern = pattern
	return c.start(ctx, w)
}

func (c *Client) start(ctx context.Context, w *watch) (stop func(), err error) {
	if err := c.begin(ctx, w); err != nil {
		return nil, err
	}
	forget := context.AfterFunc(ctx, func() { c.drop(w) })
	return func() {
		forget()
		c.drop(w)
		w.wait()
	}, nil
}

// begin subscribes w, unless the network or the store prevent it.
func (c *Client) begin(ctx context.Context, w *watch) error {
	c.f.mu.Lock()
	fate := c.fate(Call{Op: Watch, Key: append(w.keys, w.pattern)[0]})
	switch {
	case c.f.closed || fate.Refuse || fate.Deny:
		err := c.f.refused(Fate{Refuse: !fate.Deny, Deny: fate.Deny})
		c.f.mu.Unlock()
		return err
	case c.cut || fate.Lose:
		kind := LostRequest
		if c.cut {
			kind = Partition
		}
		c.f.counts[kind]++
		c.f.mu.Unlock()
		return c.timeout(ctx)
	}
	defer c.f.mu.Unlock()
	c.watches = append(c.watches, w)
	for _, e := range c.f.state(w) {
		w.push(time.Now().Add(fate.Delay), e)
	}
	return nil
}

// timeout waits as long as a Watch waits for its answer.
func (c *Client) timeout(ctx context.Context) error {
	t := time.NewTimer(c.f.opts.WatchTimeout)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-c.f.done:
	}
	return fmt.Errorf("%w: no answer, nothing is watched", store.ErrTransient)
}

// drop ends a watch without waiting for its deliver.
func (c *Client) drop(w *watch) {
	w.close()
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.watches = slices.DeleteFunc(c.watches, func(v *watch) bool { return v == w })
}

// event sends a change on its way to a watch. f.mu is held.
func (c *Client) event(w *watch, e store.Entry) {
	fate, now := c.fate(Call{Op: Event, Key: e.Key}), time.Now()
	switch {
	case c.cut:
		c.f.counts[Partition]++
		return
	case now.Before(w.deafUntil):
		return
	case fate.Gap > 0:
		c.f.counts[Gap]++
		w.deafUntil = now.Add(fate.Gap)
		c.f.after(fate.Gap, func() { c.refresh(w) })
		return
	case fate.Lose:
		c.f.counts[LostEvent]++
		return
	case fate.Delay > 0:
		c.f.counts[DelayedEvent]++
	}
	for i := range 1 + fate.Repeat {
		if i == 1 {
			c.f.counts[RepeatedEvent]++
		}
		w.push(now.Add(fate.Delay), e)
	}
}

// resync delivers the current state to all watches. f.mu is held.
func (c *Client) resync() {
	for _, w := range c.watches {
		c.refresh(w)
	}
}

// refresh delivers the current state to one watch, unless its link is cut: then
// it hears it when the link is joined again. f.mu is held.
func (c *Client) refresh(w *watch) {
	if c.cut || !slices.Contains(c.watches, w) {
		return
	}
	for _, e := range c.f.state(w) {
		w.push(time.Now(), e)
	}
}
