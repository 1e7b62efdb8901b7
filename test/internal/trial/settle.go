package trial

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Settle writes until the write is acknowledged or found, as a store's user
// does across faults, and returns the revision of the record.
func Settle(tb testing.TB, s store.Store, key string, expected uint64, value string) (rev uint64) {
	tb.Helper()
	natslab.Eventually(tb, "write of "+key, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		rev, err = s.CompareAndSwap(ctx, store.Write{Key: key, Expected: expected, Value: []byte(value)})
		if errors.Is(err, store.ErrConflict) {
			e, err := s.Get(ctx, key)
			if err != nil || string(e.Value) == value {
				rev = e.Revision
				return err
			}
			expected = e.Revision
		}
		return err
	})
	return rev
}

// A Server is a process that keeps what was acknowledged when it is killed.
type Server interface {
	Freeze()
	Kill()
}

// KillsDuringAWrite kills the store's server while it is frozen and has a
// write, runs it again, and judges the outcome that the store returns for the
// write.
func KillsDuringAWrite(t *testing.T, s store.Store, server Server, run func()) {
	t.Helper()
	rev := Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	server.Freeze()
	errs := make(chan error, 1)
	go func() {
		_, err := s.CompareAndSwap(Within(t), store.Write{Key: "g", Expected: rev, Value: []byte("2")})
		errs <- err
	}()
	// Most of the time it is sent by then; otherwise it never is, which is known.
	<-time.After(50 * time.Millisecond)
	server.Kill()
	err := <-errs
	if o := store.Classify(err); o != store.Unknown && !strings.Contains(fmt.Sprint(err), "not sent") {
		t.Errorf("%v: %v", o, err)
	}
	run()
	var e store.Entry
	natslab.Eventually(t, "a read from the server that is back", func(ctx context.Context) (err error) {
		e, err = s.Get(ctx, "g")
		return err
	})
	switch {
	case e.Revision < rev:
		t.Errorf("an acknowledged write is gone: %+v", e)
	case store.Classify(err) == store.Transient && e.Revision != rev:
		t.Errorf("a write that never left, according to its error (%v), was applied: %+v", err, e)
	}
	Settle(t, s, "g", rev, "settled")
}
