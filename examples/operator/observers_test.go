package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A lookout has observers that run, in two buckets.
type lookout struct {
	*testing.T
	*observers
}

func newLookout(t *testing.T) *lookout {
	t.Helper()
	nc := natslab.Start(t).Connect(t)
	for _, bucket := range []string{"one", "two"} {
		natslab.Eventually(t, "the bucket "+bucket, func(ctx context.Context) error {
			return natsstore.EnsureBucket(ctx, natslab.JetStream(t, nc), natsstore.BucketConfig{Bucket: bucket})
		})
	}
	l := &lookout{t, newObservers(nc)}
	done := make(chan error, 1)
	go func() { done <- l.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l
}

// put writes a record, as whoever may write the key can.
func (l *lookout) put(bucket, address string) {
	l.Helper()
	msg := &nats.Msg{Subject: "$KV." + bucket + ".orders", Data: fmt.Appendf(nil, `{"id":"a","token":"t","ttl":3600000,"term":1,"renewal":1,"address":%q}`, address)}
	if _, err := natslab.JetStream(l.T, l.nc).PublishMsg(natslab.Within(l.T), msg); err != nil {
		l.Fatal(err)
	}
}

// awaits waits until a LeaderGroup that names the bucket is shown the address.
func (l *lookout) awaits(namer types.NamespacedName, bucket, address string) {
	l.Helper()
	for {
		if seen, _ := l.leader(namer, place{bucket, "orders"}); seen.Address == address {
			return
		}
		select {
		case <-l.events:
		case <-natslab.Within(l.T).Done():
			l.Fatalf("%s is not seen in the bucket %s", address, bucket)
		}
	}
}

// watches waits until there are so many subscriptions.
func (l *lookout) watches(subscriptions int) {
	l.Helper()
	natslab.Eventually(l.T, fmt.Sprintf("%d subscriptions", subscriptions), func(context.Context) error {
		if n := l.nc.NumSubscriptions(); n != subscriptions {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

func TestABucketIsWatchedForAsLongAsALeaderGroupNamesIt(t *testing.T) {
	l := newLookout(t)
	l.put("one", "a.example")
	l.put("two", "b.example")
	first, second := types.NamespacedName{Name: "first"}, types.NamespacedName{Name: "second"}
	none := l.nc.NumSubscriptions()
	l.awaits(first, "one", "a.example")
	one := l.nc.NumSubscriptions()
	l.awaits(second, "one", "a.example")
	l.awaits(second, "two", "b.example") // it names another now
	l.watches(none + 2*(one-none))
	l.awaits(first, "two", "b.example")
	l.watches(one)
	l.forget(first)
	l.watches(one)
	l.forget(second)
	l.watches(none)
	// And one that returns is watched again.
	l.awaits(first, "one", "a.example")
}

func TestTheAddressOfALeaderIsShownWhenItChanges(t *testing.T) {
	l := newLookout(t)
	l.put("one", "a.example")
	namer := types.NamespacedName{Name: "first"}
	l.awaits(namer, "one", "a.example")
	before, _ := l.leader(namer, place{"one", "orders"})
	l.put("one", "b.example")
	l.awaits(namer, "one", "b.example")
	if after, _ := l.leader(namer, place{"one", "orders"}); !after.since.Equal(before.since) {
		t.Errorf("it leads since %v, and since %v before", after.since, before.since)
	}
}
