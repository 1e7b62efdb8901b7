// Package natsstore_test judges the NATS store on real servers.
package natsstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMain(m *testing.M) {
	if natslab.Serving() {
		return
	}
	leaks.Main(m)
}

// bucketNumber makes the buckets' names unique among all tests.
var bucketNumber atomic.Int64

func newBucket() string { return fmt.Sprintf("b%d", bucketNumber.Add(1)) }

// open returns a store over the bucket that is closed when the test ends. Its
// calls have as long as the tests wait, unless the options set a timeout: of a
// thousand watches that begin one after the other, one may meet a machine that
// stalls for the default.
func open(tb testing.TB, nc *nats.Conn, bucket string, opts natsstore.Options) *natsstore.Store {
	tb.Helper()
	if opts.Timeout == 0 {
		opts.Timeout = natslab.Patience
	}
	s, err := natsstore.New(nc, bucket, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// ensure makes a bucket with the library.
func ensure(tb testing.TB, nc *nats.Conn, cfg natsstore.BucketConfig) {
	tb.Helper()
	js := natslab.JetStream(tb, nc)
	natslab.Eventually(tb, "bucket "+cfg.Bucket+" made", func(ctx context.Context) error {
		if err := natsstore.EnsureBucket(ctx, js, cfg); err != nil {
			return err
		}
		// A replicated bucket may be acknowledged before it has a leader.
		_, err := js.KeyValue(ctx, cfg.Bucket)
		return err
	})
}

func must(tb testing.TB, s store.Store, w store.Write) uint64 {
	tb.Helper()
	rev, err := s.CompareAndSwap(natslab.Within(tb), w)
	if err != nil {
		tb.Fatal(err)
	}
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
	stop, err := s.Watch(tb.Context(), keys, func(e store.Entry) { h.entries <- e })
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

func (h *heard) revision(rev uint64) store.Entry {
	h.tb.Helper()
	return h.until(fmt.Sprintf("revision %d", rev), func(e store.Entry) bool { return e.Revision == rev })
}

// foreign is a bucket as `nats kv add` makes it.
func foreign(bucket string) jetstream.KeyValueConfig {
	return jetstream.KeyValueConfig{Bucket: bucket, History: 1}
}
