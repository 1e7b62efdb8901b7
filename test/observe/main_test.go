// Package observe_test judges observers of many groups on real servers.
package observe_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 3 * time.Second

// kinds are the two kinds of buckets.
var kinds = map[string]func(testing.TB, *nats.Conn){
	"republishing": func(tb testing.TB, nc *nats.Conn) {
		tb.Helper()
		if err := natsstore.EnsureBucket(natslab.Within(tb), natslab.JetStream(tb, nc), natsstore.BucketConfig{Bucket: "b"}); err != nil {
			tb.Fatal(err)
		}
	},
	"other": func(tb testing.TB, nc *nats.Conn) {
		tb.Helper()
		natslab.KV(tb, nc, jetstream.KeyValueConfig{Bucket: "b"})
	},
}

// lead elects a leader of the group, and returns its election.
func lead(tb testing.TB, nc *nats.Conn, group, id string) leader.Election {
	tb.Helper()
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: "b", Group: group, InstanceID: id, TTL: ttl, HeartbeatInterval: ttl / 6, AcquireGrace: leader.GraceOff,
	})
	if err != nil {
		tb.Fatal(err)
	}
	won := make(chan struct{})
	once := sync.OnceFunc(func() { close(won) })
	e.OnPromote(func(context.Context, string) { once() })
	if err := e.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = e.Stop() })
	select {
	case <-won:
	case <-natslab.Within(tb).Done():
		tb.Fatalf("%s never leads %s", id, group)
	}
	return e
}

// A told is what an observer was told, in the order of telling.
type told struct {
	tb     testing.TB
	mu     sync.Mutex
	news   chan struct{} // closed and replaced with each
	events []event
	ended  chan error
}

// An event is one call of an Observer's functions.
type event struct {
	info    leader.LeaderInfo
	renewed bool
	present bool
	failed  error
}

func (e event) String() string {
	switch {
	case e.present:
		return "present"
	case e.failed != nil:
		return fmt.Sprint("failed: ", e.failed)
	default:
		return fmt.Sprintf("%s %q %s", e.info.Group, e.info.ID, e.info.Reason)
	}
}

// observe observes until the test ends.
func observe(tb testing.TB, nc *nats.Conn, pattern string) *told {
	tb.Helper()
	o := &told{tb: tb, news: make(chan struct{}), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.ended <- leader.ObserveFunc(ctx, nc, "b", pattern, leader.Observer{
			Leader:  func(l leader.LeaderInfo) { o.note(event{info: l}) },
			Renewed: func(l leader.LeaderInfo) { o.note(event{info: l, renewed: true}) },
			Present: func() { o.note(event{present: true}) },
			Failed:  func(err error) { o.note(event{failed: err}) },
		})
	}()
	tb.Cleanup(func() { cancel(); <-done })
	return o
}

func (o *told) note(e event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
	close(o.news)
	o.news = make(chan struct{})
}

func (o *told) all() []event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events)
}

// until waits for the first event that satisfies ok, and returns those up to
// it.
func (o *told) until(what string, ok func(event) bool) []event {
	o.tb.Helper()
	deadline := natslab.Within(o.tb)
	for from := 0; ; {
		o.mu.Lock()
		events, news := o.events, o.news
		o.mu.Unlock()
		for ; from < len(events); from++ {
			if ok(events[from]) {
				return events[:from+1]
			}
		}
		select {
		case <-news:
		case <-deadline.Done():
			o.tb.Fatalf("never told: %s; told %v", what, events)
		}
	}
}

func (o *told) leads(group, id string) {
	o.tb.Helper()
	o.until(id+" leads "+group, func(e event) bool { return e.info.Group == group && e.info.ID == id })
}
