package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seed-ff2cb582/leader"
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

// put writes a record, as any user that may write the key can.
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

// A group without a record has no leader, and no observation reports it.
func TestAGroupThatIsNotThereIsKnownToHaveNoLeader(t *testing.T) {
	l := newLookout(t)
	l.put("one", "a.example")
	namer, absent := types.NamespacedName{Name: "first"}, place{"one", "invoices"}
	if seen, known := l.leader(namer, absent); known {
		t.Errorf("before its bucket was read: %+v", seen)
	}
	natslab.Eventually(t, "its absence is known", func(context.Context) error {
		if seen, known := l.leader(namer, absent); !known || seen.ID != "" {
			return fmt.Errorf("%v, %+v", known, seen)
		}
		return nil
	})
	if seen, known := l.leader(namer, place{"none", "orders"}); known {
		t.Errorf("in a bucket that is not there: %+v", seen)
	}
}

// A status is better than none only if it belongs to the group that is named
// now.
func TestAStatusIsKeptWhileNothingElseIsKnownOfItsGroup(t *testing.T) {
	g := &LeaderGroup{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Spec: LeaderGroupSpec{Group: "orders"}}
	if g.keeps(false) {
		t.Error("there is no status, and it is kept")
	}
	g.Status, _ = statusOf(g, observation{LeaderInfo: leader.LeaderInfo{ID: "a", Term: 1}}, leader.Term{Number: 8}, nil, time.Now())
	if !g.keeps(false) || g.keeps(true) {
		t.Errorf("kept %v where nothing is known, and %v where it is", g.keeps(false), g.keeps(true))
	}
	g.Spec.Group, g.Generation = "orders-v2", 2
	if g.keeps(false) {
		t.Error("the status belongs to another group, and is kept")
	}
	g.Status, _ = statusOf(g, observation{}, leader.Term{Number: 8}, nil, time.Now())
	if c := g.Status.Conditions[0]; c.Reason != "Vacant" || g.Status.Leader != "" || !g.keeps(false) {
		t.Errorf("%+v, kept %v", g.Status, g.keeps(false))
	}
}

func TestStatusReportsAConfigMapOfSomebodyElse(t *testing.T) {
	g := &LeaderGroup{ObjectMeta: metav1.ObjectMeta{Name: "orders", Generation: 1}}
	for reason, unwritten := range map[string]error{
		"Written": nil, "ForeignConfigMap": fmt.Errorf("the ConfigMap: %w", errForeign), "NotWritten": errors.New("no answer"),
	} {
		s, changed := statusOf(g, observation{}, leader.Term{Number: 8}, unwritten, time.Now())
		c := meta.FindStatusCondition(s.Conditions, shown)
		if !changed || c == nil || c.Reason != reason || (c.Status == metav1.ConditionTrue) != (unwritten == nil) {
			t.Errorf("%v: %+v", unwritten, c)
		}
		if unwritten != nil && c.Message != unwritten.Error() {
			t.Errorf("%q contains no reason", c.Message)
		}
	}
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
