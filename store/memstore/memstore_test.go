package memstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func write(t *testing.T, s *memstore.Store, key string, expected uint64, value string) uint64 {
	t.Helper()
	rev, err := s.CompareAndSwap(t.Context(), store.Write{Key: key, Expected: expected, Value: []byte(value)})
	if err != nil {
		t.Fatalf("CompareAndSwap(%q, %d): %v", key, expected, err)
	}
	return rev
}

func TestAllKeysShareOneRevisionCounter(t *testing.T) {
	s := memstore.New()
	a := write(t, s, "a", 0, "1")
	b := write(t, s, "b", 0, "1")
	del := s.Delete("a")
	put := s.Put("b", []byte("2"))
	s.Purge("a")
	again := write(t, s, "a", 0, "2")
	if got := []uint64{a, b, del, put, again}; !slices.Equal(got, []uint64{1, 2, 3, 4, 5}) {
		t.Errorf("the revisions are %v, want 1 to 5", got)
	}
}

func TestFirstRevisionIsTheFirstWrites(t *testing.T) {
	s := memstore.NewWithOptions(memstore.Options{FirstRevision: 1_000_000})
	if rev := write(t, s, "a", 0, "v"); rev != 1_000_000 {
		t.Errorf("the first write has revision %d", rev)
	}
}

func TestRevisionsEndInsteadOfWrapping(t *testing.T) {
	s := memstore.NewWithOptions(memstore.Options{FirstRevision: math.MaxUint64})
	rev := write(t, s, "a", 0, "v")
	_, err := s.CompareAndSwap(t.Context(), store.Write{Key: "a", Expected: rev})
	if store.Classify(err) != store.Permanent {
		t.Errorf("a write beyond the largest revision: %v", err)
	}
}

func TestCheckWarnsOnlyOfRevisionsThatStartAgain(t *testing.T) {
	for first, warnings := range map[uint64]int{0: 1, 1: 1, 1 << 50: 0} {
		s := memstore.NewWithOptions(memstore.Options{FirstRevision: first})
		report, err := s.Check(t.Context(), store.CheckRequest{TTL: time.Second})
		if err != nil || len(report.Warnings) != warnings || report.Forgetful {
			t.Errorf("first revision %d: Check = %+v, %v; want %d warnings", first, report, err, warnings)
		}
	}
}

func TestContextThatIsDoneLeavesNoTrace(t *testing.T) {
	s := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.CompareAndSwap(ctx, store.Write{Key: "a"})
	if store.Classify(err) != store.Transient || !errors.Is(err, context.Canceled) {
		t.Errorf("CompareAndSwap: %v; want a transient failure by context.Canceled", err)
	}
	if e, err := s.Get(t.Context(), "a"); err != nil || e.Revision != 0 {
		t.Errorf("Get = %+v, %v after a write that never was", e, err)
	}
}

// A hearing is what a watch heard, as key@revision.
type hearing struct {
	mu    sync.Mutex
	heard []string
}

func (h *hearing) deliver(e store.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, fmt.Sprintf("%s@%d", e.Key, e.Revision))
}

func (h *hearing) demand(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.heard, want) {
		t.Errorf("the watch heard %v, want %v", h.heard, want)
	}
}

func listen(ctx context.Context, t *testing.T, s *memstore.Store, keys ...string) (h *hearing, stop func()) {
	t.Helper()
	h = &hearing{}
	stop, err := s.Watch(ctx, keys, h.deliver)
	if err != nil {
		t.Fatal(err)
	}
	return h, stop
}

func TestWatchTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		start := time.Now()
		h, stop := listen(t.Context(), t, s, "a", "b", "a")
		defer stop()
		h.demand(t, "a@0", "b@0")
		write(t, s, "b", 0, "v")
		h.demand(t, "a@0", "b@0", "b@1")
		s.Delete("b")
		h.demand(t, "a@0", "b@0", "b@1", "b@2")
		s.Purge("b")
		h.demand(t, "a@0", "b@0", "b@1", "b@2", "b@0")
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestSlowWatchGetsTheLatestStateAndDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		h := &hearing{}
		release := make(chan struct{})
		stop, err := s.Watch(t.Context(), []string{"a"}, func(e store.Entry) { <-release; h.deliver(e) })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		synctest.Wait() // the first delivery has started
		for range 1000 {
			s.Put("a", nil)
		}
		close(release)
		h.demand(t, "a@0", "a@1000")
	})
}

// In a bubble the test ends only when every goroutine has: one that a watch
// left behind is a deadlock there, and fails the test.
func TestWatchLeavesNothingBehind(t *testing.T) {
	for name, end := range map[string]func(stop, cancel func()){
		"Stop":   func(stop, _ func()) { stop() },
		"Cancel": func(_, cancel func()) { cancel() },
		"Both":   func(stop, cancel func()) { cancel(); stop(); stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				h, stop := listen(ctx, t, s, "a")
				h.demand(t, "a@0")
				end(stop, cancel)
				synctest.Wait()
				s.Put("a", nil)
				h.demand(t, "a@0")
			})
		})
	}
}

func TestTwoWatchesMayStopEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		h, stopFirst := listen(t.Context(), t, s, "a")
		defer stopFirst()
		synctest.Wait()
		stopSecond, err := s.Watch(t.Context(), []string{"a"}, func(store.Entry) { stopFirst() })
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stopSecond()
		s.Put("a", nil)
		h.demand(t, "a@0")
	})
}

func TestDeliverMayUseTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		stop, err := s.Watch(t.Context(), []string{"a"}, func(e store.Entry) {
			if e.Revision < 10 {
				_, _ = s.CompareAndSwap(t.Context(), store.Write{Key: "a", Expected: e.Revision})
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		synctest.Wait()
		if e, _ := s.Get(t.Context(), "a"); e.Revision != 10 {
			t.Errorf("the register stands at revision %d, want 10", e.Revision)
		}
	})
}

func TestRestoreUndoesWritesAndNotifiesWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		write(t, s, "a", 0, "1")
		was, _ := s.Get(t.Context(), "a")
		write(t, s, "a", 1, "2")
		write(t, s, "b", 0, "3")
		a, stopA := listen(t.Context(), t, s, "a")
		defer stopA()
		b, stopB := listen(t.Context(), t, s, "b")
		defer stopB()
		synctest.Wait()
		s.Restore([]store.Entry{was, {Key: "c"}}, 1)
		a.demand(t, "a@2", "a@1")
		b.demand(t, "b@3", "b@0")
		if rev := write(t, s, "a", 1, "other"); rev != 2 {
			t.Errorf("the next revision is %d, want 2 once more", rev)
		}
	})
}

func Example() {
	s := memstore.New()
	ctx := context.Background()

	first, _ := s.CompareAndSwap(ctx, store.Write{Key: "group", Value: []byte("held by a")})
	_, err := s.CompareAndSwap(ctx, store.Write{Key: "group", Value: []byte("held by b")})
	fmt.Println(first, store.Classify(err))

	// A release keeps its record, and the next holder builds on its revision.
	released, _ := s.CompareAndSwap(ctx, store.Write{Key: "group", Expected: first, Value: []byte("vacant"), Tombstone: true})
	second, _ := s.CompareAndSwap(ctx, store.Write{Key: "group", Expected: released, Value: []byte("held by b")})
	fmt.Println(released, second)
	// Output:
	// 1 conflict
	// 2 3
}

func BenchmarkCompareAndSwap(b *testing.B) {
	s, rev := memstore.New(), uint64(0)
	value := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		rev, _ = s.CompareAndSwap(b.Context(), store.Write{Key: "group", Expected: rev, Value: value})
	}
}

// A panic is the only thing that it logs.
func TestAStoreWithoutALoggerIsSilent(t *testing.T) {
	var out bytes.Buffer
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(was)
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		stop, err := s.Watch(t.Context(), []string{"k"}, func(store.Entry) { panic("boom") })
		if err != nil {
			t.Fatal(err)
		}
		write(t, s, "k", 0, "v")
		synctest.Wait()
		stop()
	})
	if out.Len() > 0 {
		t.Errorf("written: %s", &out)
	}
}
