package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// runAsync examines the contract of CompareAndSwap again, for
// CompareAndSwapAsync, if the store has it.
func runAsync(t *testing.T, newHarness Factory, caps Caps) {
	t.Helper()
	t.Run("Async", func(t *testing.T) {
		skipUnable(t, caps, 0)
		probe := &exam{TB: t, caps: caps, h: newHarness(t)}
		probe.demandHooks(0)
		if _, ok := probe.open().(store.AsyncWriter); !ok {
			t.Skip("the store is not a store.AsyncWriter")
		}
		unwaited := func(tb testing.TB) Harness {
			h := newHarness(tb)
			open := h.Open
			h.Open = func(tb testing.TB) store.Store { return newUnwaited(tb, open(tb), caps) }
			return h
		}
		for _, c := range slices.Concat(casClaims, keyClaims, valueClaims, raceClaims, contextClaims) {
			if c.needs&async != 0 {
				c.run(t, unwaited, caps)
			}
		}
	})
}

// unwaited is a store all of whose writes are asynchronous.
type unwaited struct {
	store.Store
	caps Caps
	st   store.AsyncWriter
	// again: a function was called more than once. late: which write got no
	// answer in time, after what. They are found by goroutines that may outlive
	// the claim, and so may not report them.
	again *atomic.Bool
	late  *atomic.Pointer[string]
}

// newUnwaited returns st with a watch that is held for as long as the claim is
// examined: a store may write otherwise while nobody watches.
func newUnwaited(tb testing.TB, st store.Store, caps Caps) store.Store {
	tb.Helper()
	if w, ok := st.(store.Watcher); ok && caps.NoWatch == "" {
		x := &exam{TB: tb, caps: caps}
		tb.Cleanup(x.begun("Watch", func() (func(), error) {
			return w.Watch(tb.Context(), []string{"held"}, func(store.Entry) {})
		}))
	}
	again, late := new(atomic.Bool), new(atomic.Pointer[string])
	tb.Cleanup(func() {
		if again.Load() {
			tb.Error("CompareAndSwapAsync called done more than once")
		}
		if why := late.Load(); why != nil {
			tb.Error(*why)
		}
	})
	return unwaited{st, caps, st.(store.AsyncWriter), again, late} //nolint:errcheck // the caller has asked
}

// CompareAndSwap waits for an asynchronous write, and cancels it when ctx is
// cancelled. The deadline of ctx is the store's to keep: an election cancels
// nothing before its own end.
func (u unwaited) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	type answer struct {
		rev uint64
		err error
	}
	answers := make(chan answer, 1)
	var answered atomic.Bool
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(u.caps.Patience)
	}
	pending := u.st.CompareAndSwapAsync(deadline, w, func(rev uint64, err error) {
		if answered.Swap(true) {
			u.again.Store(true)
			return
		}
		answers <- answer{rev, err}
	})
	select {
	case a := <-answers:
		return a.rev, a.err
	case <-ctx.Done():
	}
	end := "its deadline"
	if errors.Is(ctx.Err(), context.Canceled) {
		end = "the call of Cancel"
		pending.Cancel()
	}
	select {
	case a := <-answers:
		return a.rev, a.err
	case <-time.After(u.caps.Patience):
		u.late.Store(new(fmt.Sprintf("CompareAndSwapAsync of key %q did not call done within %v of %s", w.Key, u.caps.Patience, end)))
		return 0, store.ErrUnknown
	}
}
