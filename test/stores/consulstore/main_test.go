// Package consulstore_test judges the Consul store on real servers.
package consulstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/consulstore"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// prefixNumber makes the prefixes unique among all tests.
var prefixNumber atomic.Int64

func newPrefix() string { return fmt.Sprintf("p%d/", prefixNumber.Add(1)) }

// open returns a store over the client that is closed when the test ends.
func open(tb testing.TB, client *api.Client, opts consulstore.Options) *consulstore.Store {
	tb.Helper()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler) // interruptions are what the tests are about
	}
	s, err := consulstore.New(client, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func must(tb testing.TB, s store.Store, w store.Write) uint64 {
	tb.Helper()
	rev, err := s.CompareAndSwap(natslab.Within(tb), w)
	if err != nil {
		tb.Fatal(err)
	}
	return rev
}

func get(tb testing.TB, s store.Store, key string) store.Entry {
	tb.Helper()
	e, err := s.Get(natslab.Within(tb), key)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// brief is a deadline for calls that are meant to miss it.
func brief(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 300*time.Millisecond)
	tb.Cleanup(cancel)
	return ctx
}

// outcome fails the test unless err is of the class, and contains what a person needs.
func outcome(tb testing.TB, err error, want store.Outcome, words ...string) {
	tb.Helper()
	if got := store.Classify(err); got != want {
		tb.Fatalf("got %v, want %v: %v", got, want, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			tb.Errorf("the error does not say %q: %v", w, err)
		}
	}
}

// eventually writes until the write is acknowledged or found, as a store's user does across faults.
func eventually(tb testing.TB, s store.Store, key string, expected uint64, value string) (rev uint64) {
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

// heard collects what a watch delivers.
type heard struct {
	tb      testing.TB
	entries chan store.Entry
}

func listen(tb testing.TB, s store.Watcher, keys ...string) *heard {
	tb.Helper()
	h := &heard{tb: tb, entries: make(chan store.Entry, 1<<16)}
	stop, err := s.Watch(natslab.Within(tb), keys, func(e store.Entry) { h.entries <- e })
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
	return h
}

// until waits for an entry that satisfies ok.
func (h *heard) until(what string, ok func(store.Entry) bool) store.Entry {
	h.tb.Helper()
	ctx := natslab.Within(h.tb)
	var last store.Entry
	for {
		select {
		case last = <-h.entries:
			if ok(last) {
				return last
			}
		case <-ctx.Done():
			h.tb.Fatalf("never heard: %s; last: %q revision %d tombstone %v", what, last.Value, last.Revision, last.Tombstone)
		}
	}
}

func (h *heard) value(v string) store.Entry {
	h.tb.Helper()
	return h.until(fmt.Sprintf("value %q", v), func(e store.Entry) bool { return string(e.Value) == v })
}
