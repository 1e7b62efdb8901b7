package leader_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A mailbox is a store whose writes nobody waits for.
type mailbox struct {
	*memstore.Store
	begin    func(w store.Write, done func(uint64, error))
	waited   atomic.Int32 // writes that somebody waited for
	canceled atomic.Int32
}

func (m *mailbox) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	m.waited.Add(1)
	return m.Store.CompareAndSwap(ctx, w)
}

func (m *mailbox) CompareAndSwapAsync(deadline time.Time, w store.Write, done func(uint64, error)) store.Pending {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	go func() {
		<-ctx.Done()
		done(0, errors.Join(store.ErrUnknown, ctx.Err())) // again, perhaps
	}()
	if m.begin != nil {
		m.begin(w, done)
	}
	return canceling(func() { m.canceled.Add(1); cancel() })
}

type canceling func()

func (c canceling) Cancel() { c() }

// deliver writes, and answers as the server's answer would.
func (m *mailbox) deliver(w store.Write, done func(uint64, error)) {
	rev, err := m.Store.CompareAndSwap(context.Background(), w)
	go done(rev, err)
}

// An election writes without waiting where it can, and a store that answers
// twice harms nobody.
func TestWritesAreNotWaitedForWhereTheyNeedNotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &mailbox{Store: memstore.New()}
		st.begin = st.deliver
		cfg := config("a")
		a := start(t, st, cfg)
		time.Sleep(3 * ttl)
		if !a.IsLeader() {
			t.Fatal(status(a))
		}
		halt(t, a)
		if n := st.waited.Load(); n > 0 {
			t.Errorf("%d writes were waited for", n)
		}
		cfg.InstanceID = "b"
		b := start(t, st, cfg)
		time.Sleep(ttl / 2)
		if !b.IsLeader() {
			t.Errorf("the record was not released: %s", status(b))
		}
		halt(t, b)
		time.Sleep(time.Hour) // for the second answers
	})
}

// A write without an answer ends with the election, and leaves nothing behind.
func TestWritesThatNobodyAnswersEndWithTheElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &mailbox{Store: memstore.New()}
		cfg := config("a")
		cfg.ConnectionTimeout = ttl
		var calls []leader.Call
		cfg.Hooks.Call = func(c leader.Call) { calls = append(calls, c) }
		a := start(t, st, cfg)
		time.Sleep(ttl / 10)
		halt(t, a)
		last := calls[len(calls)-1]
		if st.canceled.Load() != 1 || !errors.Is(last.Err, context.Canceled) || last.Outcome != store.Unknown {
			t.Errorf("%d canceled; the last call: %+v", st.canceled.Load(), last)
		}
	})
}
