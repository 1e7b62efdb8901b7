package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// eachWay runs a test of writes twice: of those that are waited for, and of
// those that are not.
func eachWay(t *testing.T, test func(t *testing.T, write writer)) {
	t.Helper()
	t.Run("Waiting", func(t *testing.T) {
		t.Parallel()
		test(t, func(_ testing.TB, s *natsstore.Store) store.Store { return s })
	})
	t.Run("Async", func(t *testing.T) {
		t.Parallel()
		test(t, newUnwaited)
	})
}

// A writer returns the store with writes of one kind.
type writer func(testing.TB, *natsstore.Store) store.Store

// unwaited is a store whose writes are asynchronous.
type unwaited struct {
	*natsstore.Store
	tb testing.TB
}

// newUnwaited keeps the store's goroutines alive, since a store in which nobody
// watches or listens waits for each write.
func newUnwaited(tb testing.TB, s *natsstore.Store) store.Store {
	tb.Helper()
	tb.Cleanup(s.OnConnState(func(store.ConnState) {}))
	return unwaited{s, tb}
}

func (u unwaited) CompareAndSwap(ctx context.Context, w store.Write) (rev uint64, err error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(2 * time.Second)
	}
	ended := make(chan struct{})
	var calls atomic.Int32
	p := u.CompareAndSwapAsync(deadline, w, func(r uint64, e error) {
		if calls.Add(1) > 1 {
			u.tb.Errorf("done was called again: %d, %v", r, e)
			return
		}
		rev, err = r, e
		close(ended)
	})
	select {
	case <-ended:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			p.Cancel()
		}
		<-ended
	}
	return rev, err
}

// A canceled call ends immediately, whether its request was sent or not, and
// its error leaves open what the server did.
func TestCanceledWritesEndHonestly(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxy := natslab.NewRelay(t, srv.Addr())
	nc := natslab.Connect(t, proxy.URL())
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	s := open(t, nc, "b", natsstore.Options{})
	t.Cleanup(s.OnConnState(func(store.ConnState) {}))
	proxy.Hold(natslab.ToClient)
	const writes = 100
	errs := make([]error, writes)
	var wg sync.WaitGroup
	wg.Add(writes)
	for i := range errs {
		// Far from its deadline: to be canceled ends the call.
		p := s.CompareAndSwapAsync(time.Now().Add(time.Hour), store.Write{Key: fmt.Sprint("k", i), Value: []byte("v")}, func(_ uint64, err error) {
			errs[i] = err
			wg.Done()
		})
		p.Cancel()
		p.Cancel()
	}
	wg.Wait()
	proxy.Resume()
	natslab.Eventually(t, "connected", nc.FlushWithContext) // behind all that was sent
	for i, err := range errs {
		e, readErr := s.Get(natslab.Within(t), fmt.Sprint("k", i))
		if readErr != nil {
			t.Fatal(readErr)
		}
		if o := store.Classify(err); o != store.Unknown && (o != store.Transient || e.Revision != 0) {
			t.Errorf("write %d ended as %v (%v), and is at revision %d", i, o, err, e.Revision)
		}
	}
}

// Writes that are under way when the store is closed end as they would have.
func TestWritesOutliveTheirStore(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	for i := range 20 {
		s := open(t, nc, "b", natsstore.Options{})
		s.OnConnState(func(store.ConnState) {})
		done := make(chan error, 2)
		for _, key := range []string{"g", "h"} {
			s.CompareAndSwapAsync(time.Now().Add(time.Minute), store.Write{Key: fmt.Sprint(key, i), Value: []byte("v")},
				func(_ uint64, err error) { done <- err })
			s.Close()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}

// A function of the caller's that panics is reported, and the next write goes
// on.
func TestAPanicInTheEndOfAWriteIsReported(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	var log strings.Builder // written before the panic is over
	s := open(t, nc, "b", natsstore.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w := newUnwaited(t, s)
	ended := make(chan struct{})
	s.CompareAndSwapAsync(time.Now().Add(time.Minute), store.Write{Key: "g", Value: []byte("v")}, func(uint64, error) {
		defer close(ended)
		panic("of the caller's")
	})
	<-ended
	must(t, w, store.Write{Key: "h", Value: []byte("v")}) // by the same goroutine, after the report
	if !strings.Contains(log.String(), "of the caller's") {
		t.Errorf("reported: %s", log.String())
	}
}
