package trial

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Unanswered makes a write to a server that answers nothing now, and returns
// how it ended. A write that did not leave before its time was over, as on a
// machine that stalls for a while, shows nothing, so it is made again with more
// time.
func Unanswered(tb testing.TB, s store.Store, w store.Write) error {
	for span := time.Second; ; span *= 2 {
		ctx, cancel := context.WithTimeout(tb.Context(), span)
		_, err := s.CompareAndSwap(ctx, w)
		cancel()
		if store.Classify(err) != store.Transient || span > natslab.Patience {
			return err
		}
	}
}

// SaysClosed judges calls on stores that are permanently closed.
func SaysClosed[S store.Store](t *testing.T, stores ...S) {
	t.Helper()
	for _, s := range stores {
		if _, err := s.CompareAndSwap(Within(t), store.Write{Key: "closed"}); !errors.Is(err, store.ErrClosed) {
			t.Errorf("a write: %v", err)
		}
		if _, err := s.Get(Within(t), "closed"); !errors.Is(err, store.ErrClosed) {
			t.Errorf("a read: %v", err)
		}
		if c, ok := any(s).(store.Checker); ok {
			if _, err := Check(t, c); !errors.Is(err, store.ErrClosed) {
				t.Errorf("a check: %v", err)
			}
		}
	}
}
