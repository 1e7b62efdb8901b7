package trial

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// ReadsAreKept kills a server while clients write and others read, and demands
// that no register stands at an earlier revision afterwards than a read showed
// before. A candidate whose write is of unknown outcome believes a read that
// shows it, so what is shown must not be taken back, though nobody was told
// that it was applied. restart kills the server, and returns when it serves
// again.
//
// Many write at once, so that some wait for others' files to be synced: what
// they wrote must not be seen yet.
func ReadsAreKept(t *testing.T, kills int, open func(tb testing.TB) store.Store, restart func()) {
	t.Helper()
	const keys = 6
	var stores [2 * keys]store.Store
	for i := range stores {
		stores[i] = open(t)
	}
	var seen [keys]uint64
	for range kills {
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		showed := make(chan struct{}, 1) // holds a value once a read showed something
		for i := range keys {
			key := fmt.Sprint("kept", i)
			all.Go(func() { writeOn(ctx, stores[2*i], key) })
			all.Go(func() { seen[i] = max(seen[i], readOn(ctx, stores[2*i+1], key, showed)) })
		}
		<-time.After(300 * time.Millisecond) // so long the server lives at least
		select {
		case <-showed:
		case <-Within(t).Done():
			t.Error("no read showed anything")
		}
		restart()
		stop()
		all.Wait()
		for i, s := range stores[:keys] {
			key := fmt.Sprint("kept", i)
			natslab.Eventually(t, "a read after the restart", func(ctx context.Context) error {
				e, err := s.Get(ctx, key)
				if err == nil && e.Revision < seen[i] {
					t.Errorf("%s was read at revision %d, and stands at %d after the server was killed", key, seen[i], e.Revision)
				}
				return err
			})
		}
	}
}

// writeOn writes the key over and over, until a write fails. It begins once the
// server can be reached.
func writeOn(ctx context.Context, s store.Store, key string) {
	e, err := begin(ctx, s, key)
	for rev := e.Revision; err == nil && ctx.Err() == nil; {
		rev, err = s.CompareAndSwap(ctx, store.Write{Key: key, Expected: rev})
	}
}

// readOn reads the key until a read fails, and returns the last revision. It
// begins once the server can be reached, and tells when a read showed
// something.
func readOn(ctx context.Context, s store.Store, key string, showed chan<- struct{}) (last uint64) {
	e, err := begin(ctx, s, key)
	for err == nil && ctx.Err() == nil {
		if last = max(last, e.Revision); last > 0 {
			select {
			case showed <- struct{}{}:
			default:
			}
		}
		e, err = s.Get(ctx, key)
	}
	return last
}

// begin reads the key until that succeeds: a connection of before the server
// was killed may still be there.
func begin(ctx context.Context, s store.Store, key string) (e store.Entry, err error) {
	for e, err = s.Get(ctx, key); err != nil && ctx.Err() == nil; e, err = s.Get(ctx, key) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return e, err
}
