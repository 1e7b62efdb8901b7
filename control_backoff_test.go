package leader_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// An unreachable store fails every call at once, as a client does that has no
// connection. It ends a caller that does not back off, which would keep
// virtual time from going on.
type unreachable struct{ calls atomic.Int64 }

func (u *unreachable) fail() error {
	if u.calls.Add(1) > 10_000 {
		return store.ErrPermanent
	}
	return store.ErrTransient
}

func (u *unreachable) Get(context.Context, string) (store.Entry, error) {
	return store.Entry{}, u.fail()
}

func (u *unreachable) CompareAndSwap(context.Context, store.Write) (uint64, error) {
	return 0, u.fail()
}

// The delays between attempts double, and did so until they overflowed: after
// three quarters of a minute none was left.
func TestARequestBacksOffHoweverLongTheOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := map[string]func(context.Context, *unreachable) error{
			"Pause":  func(ctx context.Context, st *unreachable) error { return candidate(t, st, config("a")).Pause(ctx, "") },
			"Resume": func(ctx context.Context, st *unreachable) error { return candidate(t, st, config("a")).Resume(ctx) },
			"State": func(ctx context.Context, st *unreachable) error {
				_, err := control(t, st).State(ctx, "g")
				return err
			},
		}
		for name, ask := range asks {
			st := &unreachable{}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			err := ask(ctx, st)
			cancel()
			if n := st.calls.Load(); !errors.Is(err, context.DeadlineExceeded) || n > 700 {
				t.Errorf("%s: %d calls in ten minutes: %v", name, n, err)
			}
		}
	})
}
