package storetest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest"
)

// A store may refuse any call for a moment: a cluster does so until a new
// bucket's leader is known to each of its servers. The contract calls that
// transient, so no claim may take it for a defect.
func TestAStoreThatRefusesEveryOtherCallPasses(t *testing.T) {
	t.Parallel()
	sound := harness(nil)
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		h := sound(tb)
		open := h.Open
		h.Interrupt = nil
		var calls atomic.Uint64
		h.Open = func(tb testing.TB) store.Store { return refuseEveryOther(open(tb), &calls) }
		return h
	}, storetest.Caps{MaxValue: 1 << 20, NoInterrupt: "it has no connection"})
}

// A write that does not wait may be answered before it can be canceled, and has
// been applied then.
func TestAStoreThatAnswersAtOncePasses(t *testing.T) {
	t.Parallel()
	sound := harness(nil)
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		h := sound(tb)
		begins(&h, func(deadline time.Time, w store.Write, done func(uint64, error)) store.Pending {
			ctx, cancel := context.WithDeadline(tb.Context(), deadline)
			defer cancel()
			done(h.Open(tb).CompareAndSwap(ctx, w))
			return canceling(func() {})
		})
		return h
	}, storetest.Caps{MaxValue: 1 << 20, NoInterrupt: "the claims that count need none"})
}

// refuseEveryOther makes s refuse every other call that it could serve. The
// first is refused, and of two in a row one is served.
func refuseEveryOther(s store.Store, calls *atomic.Uint64) store.Store {
	u := s.(unwaiting) //nolint:errcheck // as harness made it
	m := u.Store
	refused := func(ctx context.Context, key string) error {
		if store.ValidKey(key) && ctx.Err() == nil && calls.Add(1)%2 == 1 {
			return fmt.Errorf("%w: no responders", store.ErrTransient)
		}
		return nil
	}
	w := *u.wrapper
	w.get = func(ctx context.Context, key string) (store.Entry, error) {
		if err := refused(ctx, key); err != nil {
			return store.Entry{}, err
		}
		return m.Get(ctx, key)
	}
	w.cas = func(ctx context.Context, x store.Write) (uint64, error) {
		if err := refused(ctx, x.Key); err != nil {
			return 0, err
		}
		return m.CompareAndSwap(ctx, x)
	}
	return unwaiting{wrapper: &w}
}
