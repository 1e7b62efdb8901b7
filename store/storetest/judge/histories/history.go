// Package histories records the answers that many clients of a store got, and
// judges whether a store that keeps the promises of package store could have
// given them.
//
// [Trial] does both: clients contend for a few keys, with or without faults,
// and each history is judged. The parts are there for tests that record by
// themselves.
//
// It judges, per key:
//
//   - Compare-and-swap is linearizable. porcupine looks for one order of the
//     writes that explains every acknowledgement; a write of unknown outcome
//     may have taken effect at any time after its call, or never.
//   - A write that was refused, or reported to have had no effect, is never
//     seen.
//   - A write has one revision, larger than the one that it replaced, and is
//     not seen before it was sent.
//
// It does not judge that a read shows the present, since Get may be stale.
// Reads only show which writes were applied, and at which revision. Nor that a
// conflict shows the present, unless the store documents that
// ([Judge.CurrentConflicts]): in a cluster of NATS a leader that was cut off
// from its peers refuses by what it knew, and all that a conflict promises is
// that the write is never applied.
package histories

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// An Op is one call and how it ended. Times count from the history's beginning.
type Op struct {
	Client       int           // who called, from 0 on
	Key          string        // of the register
	Read         bool          // else it is a write
	Call, Return time.Duration // when the call began and ended
	Expected     uint64        // of a write
	Async        bool          // a write by [store.AsyncWriter]
	Value        string        // what was written or read; no two writes have the same
	Outcome      store.Outcome // of a write
	Revision     uint64        // of a write that was acknowledged, or of what was read; 0: the key is unknown
}

// String shows an operation on one line.
func (o Op) String() string {
	if o.Read {
		return fmt.Sprintf("client %d reads %s: %q at %d (%v to %v)", o.Client, o.Key, o.Value, o.Revision, o.Call, o.Return)
	}
	return fmt.Sprintf("client %d writes %s: %q over %d: %v, revision %d (%v to %v)",
		o.Client, o.Key, o.Value, o.Expected, o.Outcome, o.Revision, o.Call, o.Return)
}

// A History is what all clients did. Its methods may be called concurrently.
type History struct {
	start time.Time
	names atomic.Int64

	mu  sync.Mutex
	ops []Op
}

// New begins a history.
func New() *History { return &History{start: time.Now()} }

// Ops returns the calls that ended.
func (h *History) Ops() []Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Op(nil), h.ops...)
}

// Count returns how many writes ended so, or all of them for no outcome.
func (h *History) Count(outcomes ...store.Outcome) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.ops {
		if o.Read {
			continue
		}
		if len(outcomes) == 0 {
			n++
		}
		for _, out := range outcomes {
			if o.Outcome == out {
				n++
			}
		}
	}
	return n
}

func (h *History) add(o Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

// A Client is a store whose calls are recorded.
type Client struct {
	h  *History
	id int
	st store.Store
}

// Client returns a client of the history.
func (h *History) Client(id int, st store.Store) *Client { return &Client{h, id, st} }

// Get reads the key. A failure is not recorded: it shows nothing.
func (c *Client) Get(ctx context.Context, key string) (store.Entry, error) {
	call := time.Since(c.h.start)
	e, err := c.st.Get(ctx, key)
	if err == nil {
		c.h.add(Op{
			Client: c.id, Key: key, Read: true, Call: call, Return: time.Since(c.h.start),
			Value: string(e.Value), Revision: e.Revision,
		})
	}
	return e, err
}

// Swap writes a new value over the expected revision. Half of the writes of a
// [store.AsyncWriter] are asynchronous, as in elections, if ctx has a deadline.
func (c *Client) Swap(ctx context.Context, key string, expected uint64) (revision uint64, outcome store.Outcome) {
	n := c.h.names.Add(1)
	w := store.Write{Key: key, Expected: expected, Value: fmt.Appendf(nil, "write %d", n), Tombstone: n%7 == 0}
	o := Op{Client: c.id, Key: key, Expected: expected, Value: string(w.Value), Async: n%2 == 0 && c.async(ctx)}
	write := c.st.CompareAndSwap
	if o.Async {
		write = c.unwaited
	}
	o.Call = time.Since(c.h.start)
	rev, err := write(ctx, w)
	o.Return = time.Since(c.h.start)
	o.Outcome, o.Revision = store.Classify(err), rev
	c.h.add(o)
	return rev, o.Outcome
}

func (c *Client) async(ctx context.Context) bool {
	_, deadline := ctx.Deadline()
	_, async := c.st.(store.AsyncWriter)
	return deadline && async
}

// unwaited is CompareAndSwap by an asynchronous write. That it ends at its
// deadline is the store's to see to.
func (c *Client) unwaited(ctx context.Context, w store.Write) (uint64, error) {
	type answer struct {
		rev uint64
		err error
	}
	answers := make(chan answer, 1)
	deadline, _ := ctx.Deadline()
	st := c.st.(store.AsyncWriter) //nolint:errcheck // see async
	pending := st.CompareAndSwapAsync(deadline, w, func(rev uint64, err error) { answers <- answer{rev, err} })
	select {
	case a := <-answers:
		return a.rev, a.err
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		pending.Cancel()
	}
	a := <-answers
	return a.rev, a.err
}
