// Package trial is common to the tests of all stores on real servers, in
// addition to the cases of package judge: calls that have to succeed, answers
// that a test gives in a server's place, the values that a watch delivers.
//
// The flags -histories, -writes, -seed and -outlive belong to this package:
// see [Flags].
package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Main runs the tests of a package, has each of the functions end what they
// began, and exits: with a failure if a goroutine is left.
func Main(m *testing.M, ends ...func() error) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, end := range ends {
			if err := end(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
		os.Exit(code) //nolint:forbidigo // goleak leaves it to its cleanup
	}))
}

// Within returns a context for a call that has to succeed. It outlives the
// test's own, so that cleanups may use it.
func Within(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), natslab.Patience)
	tb.Cleanup(cancel)
	return ctx
}

// Brief returns a context for a call that does not end by itself.
func Brief(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), 300*time.Millisecond)
	tb.Cleanup(cancel)
	return ctx
}

// Must writes, and returns the write's revision.
func Must(tb testing.TB, s store.Store, w store.Write) (rev uint64) {
	tb.Helper()
	err := insist(tb, func(ctx context.Context) (err error) {
		rev, err = s.CompareAndSwap(ctx, w)
		return err
	})
	if err != nil {
		tb.Fatalf("writing %s over %d: %v", w.Key, w.Expected, err)
	}
	return rev
}

// Get reads the key.
func Get(tb testing.TB, s store.Store, key string) (e store.Entry) {
	tb.Helper()
	err := insist(tb, func(ctx context.Context) (err error) {
		e, err = s.Get(ctx, key)
		return err
	})
	if err != nil {
		tb.Fatalf("reading %s: %v", key, err)
	}
	return e
}

// insist makes a call that has to succeed, again for as long as it had no
// effect: a server that is back may refuse for a moment, and the connection may
// be one of before. It logs each failure.
func insist(tb testing.TB, call func(context.Context) error) error {
	tb.Helper()
	ctx := Within(tb)
	for {
		err := call(ctx)
		if store.Classify(err) != store.Transient || ctx.Err() != nil {
			return err
		}
		tb.Logf("once more: %v", err)
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// Outcome fails the test unless err is of the class, and contains what a person
// needs.
func Outcome(tb testing.TB, err error, want store.Outcome, words ...string) {
	tb.Helper()
	if got := store.Classify(err); got != want {
		tb.Fatalf("got %v, want %v: %v", got, want, err)
	}
	for _, w := range words {
		if !strings.Contains(fmt.Sprint(err), w) {
			tb.Errorf("the error does not contain %q: %v", w, err)
		}
	}
}

var errNotYet = errors.New("not yet")

// Await waits until the condition holds.
func Await(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	natslab.Eventually(tb, what, func(context.Context) error {
		if holds() {
			return nil
		}
		return errNotYet
	})
}

// Request is what an election asks of a store.
var Request = store.CheckRequest{TTL: 10 * time.Second, HeartbeatInterval: time.Second, Key: "group", Reads: []string{"_ctl.group"}}

// Check has the store examined for an election.
func Check(tb testing.TB, s store.Checker) (store.Report, error) {
	tb.Helper()
	return s.Check(Within(tb), Request)
}

// FindsNothingWrong lets a store be examined on a server that suits an
// election. Its registers were made after the instant since, or are made now.
// They must not be reported as older: an election that believes it promotes
// beside a leader of former registers.
func FindsNothingWrong(tb testing.TB, s store.Checker, since time.Time) {
	tb.Helper()
	for range 2 {
		r, err := Check(tb, s)
		if err != nil || r.Forgetful || r.Expires || len(r.Warnings) > 0 {
			tb.Fatalf("%+v, %v", r, err)
		}
		if most := time.Since(since); r.Age <= 0 || r.Age > most {
			tb.Errorf("the registers are reported to be %v old, and were made at most %v ago", r.Age, most)
		}
	}
}

// Heard collects what a watch delivers.
type Heard struct {
	tb      testing.TB
	entries chan store.Entry
}

// Listen watches the keys until the test ends.
func Listen(tb testing.TB, s store.Watcher, keys ...string) *Heard {
	tb.Helper()
	return hear(tb, func(ctx context.Context, deliver func(store.Entry)) (func(), error) {
		return s.Watch(ctx, keys, deliver)
	})
}

// ListenPattern watches the keys of the pattern until the test ends.
func ListenPattern(tb testing.TB, s store.PatternWatcher, pattern string) *Heard {
	tb.Helper()
	return hear(tb, func(ctx context.Context, deliver func(store.Entry)) (func(), error) {
		return s.WatchPattern(ctx, pattern, deliver, func(error) {})
	})
}

func hear(tb testing.TB, watch func(context.Context, func(store.Entry)) (func(), error)) *Heard {
	tb.Helper()
	h := &Heard{tb: tb, entries: make(chan store.Entry, 1<<16)}
	stop, err := watch(context.WithoutCancel(tb.Context()), func(e store.Entry) { h.entries <- e })
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
	return h
}

// Until waits for an entry that satisfies ok.
func (h *Heard) Until(what string, ok func(store.Entry) bool) store.Entry {
	h.tb.Helper()
	limit := time.NewTimer(natslab.Patience)
	defer limit.Stop()
	var last store.Entry
	for {
		select {
		case last = <-h.entries:
			if ok(last) {
				return last
			}
		case <-limit.C:
			h.tb.Fatalf("never heard: %s; last: %q revision %d tombstone %v", what, last.Value, last.Revision, last.Tombstone)
		}
	}
}

// Value waits for an entry with the value.
func (h *Heard) Value(v string) store.Entry {
	h.tb.Helper()
	return h.Until(fmt.Sprintf("value %q", v), func(e store.Entry) bool { return string(e.Value) == v })
}

// A Followed store has watches.
type Followed interface {
	store.Store
	store.Watcher
	store.PatternWatcher
}

// WatchesComeAndGo begins and ends watches of the store, of keys and of a
// pattern, beside a watch that stays, and demands that each hears of the writes
// by the other client.
func WatchesComeAndGo(t *testing.T, s Followed, writing store.Store) {
	t.Helper()
	kept := Listen(t, s, "kept")
	for i := range 20 {
		key := fmt.Sprintf("k%d", i)
		heard := make(chan store.Entry, 100)
		watch := func() (stop func(), err error) {
			return s.Watch(Within(t), []string{key, "shared"}, func(e store.Entry) { heard <- e })
		}
		if i%2 == 0 {
			watch = func() (stop func(), err error) {
				return s.WatchPattern(Within(t), "*", func(e store.Entry) { heard <- e }, func(error) {})
			}
		}
		stop, err := watch()
		if err != nil {
			t.Fatal(err)
		}
		Must(t, writing, store.Write{Key: key, Value: []byte(key)})
		for e := range heard {
			if string(e.Value) == key {
				break
			}
		}
		stop()
		Must(t, writing, store.Write{Key: "kept", Expected: Get(t, s, "kept").Revision, Value: []byte(key)})
		kept.Value(key)
	}
}
