package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

const leafTTL = 3 * time.Second

// stand starts a candidate of group g on the store.
func stand(tb testing.TB, nc *nats.Conn, id string, opts natsstore.Options) leader.Election {
	tb.Helper()
	e, err := leader.NewElectionWithStore(open(tb, nc, "b", opts), leader.ElectionConfig{
		Group: "g", InstanceID: id, TTL: leafTTL, HeartbeatInterval: leafTTL / 6, AcquireGrace: leader.GraceOff,
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := e.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = e.Stop() })
	return e
}

func leads(tb testing.TB, e leader.Election, what string) {
	tb.Helper()
	natslab.Eventually(tb, what, func(context.Context) error {
		if !e.IsLeader() {
			return fmt.Errorf("%+v", e.Status())
		}
		return nil
	})
}

// handsOver has one candidate resign until another leads. The one that resigned
// leads again where the other is too slow to claim the vacancy, and no longer
// where its renewals were.
func handsOver(tb testing.TB, from, to leader.Election, what string) {
	tb.Helper()
	natslab.Eventually(tb, what, func(ctx context.Context) error {
		if to.IsLeader() {
			return nil
		}
		if err := from.Resign(ctx); err != nil && !errors.Is(err, leader.ErrNotLeader) {
			return err
		}
		return fmt.Errorf("%+v", to.Status())
	})
}

// sees waits until the observer reports that id leads g.
func sees(tb testing.TB, infos <-chan leader.LeaderInfo, id string) {
	tb.Helper()
	for deadline := natslab.Within(tb); ; {
		select {
		case l := <-infos:
			if l.Group == "g" && l.ID == id {
				return
			}
		case <-deadline.Done():
			tb.Fatalf("the observer never sees that %q leads", id)
		}
	}
}

// A bucket that lives behind a leaf node is named by its domain; the leaf has
// its own JetStream and domain.
func TestElectionAndObserverAcrossALeafNode(t *testing.T) {
	t.Parallel()
	byFeed(t, func(t *testing.T, create func(testing.TB, *nats.Conn, string)) {
		hub := natslab.Start(t, natslab.Domain("hub"), natslab.AcceptLeaves())
		link := natslab.NewRelay(t, hub.LeafAddr())
		leaf := natslab.StartLeaf(t, link.Addr(), natslab.Domain("leaf"))
		create(t, hub.Connect(t), "b")
		inHub := natsstore.Options{Domain: "hub"}

		infos := make(chan leader.LeaderInfo, 1000)
		observer := open(t, leaf.Connect(t), "b", inHub)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() {
			err := leader.ObserveFuncWithStore(ctx, observer, "*", leader.Observer{
				Leader: func(l leader.LeaderInfo) { infos <- l },
				Failed: func(error) {},
			})
			if err != nil {
				t.Error(err)
			}
		})

		a := stand(t, hub.Connect(t), "a", natsstore.Options{})
		leads(t, a, "a leads in the hub")
		sees(t, infos, "a")
		b := stand(t, leaf.Connect(t), "b", inHub)
		handsOver(t, a, b, "b leads through the leaf node")
		sees(t, infos, "b")

		link.Cut()
		leads(t, a, "a leads since b is cut off")
		if b.IsLeader() {
			t.Error("two leaders")
		}
		link.Resume()
		leaf.AwaitHub()
		sees(t, infos, "a")
		handsOver(t, a, b, "b leads again")
		sees(t, infos, "b")
	})
}

func TestConformanceThroughALeafNode(t *testing.T) {
	elsewhere(t)
	t.Parallel()
	hub := natslab.Start(t, natslab.Domain("hub"), natslab.AcceptLeaves())
	link := natslab.NewRelay(t, hub.LeafAddr())
	leaf := natslab.StartLeaf(t, link.Addr(), natslab.Domain("leaf"))
	b := bed{
		connect: func(tb testing.TB) *nats.Conn { return leaf.Connect(tb) },
		opts:    natsstore.Options{Domain: "hub"},
		interrupt: func() {
			link.Drop()
			leaf.DropClients()
			leaf.AwaitHub()
		},
	}
	b.make = func(tb testing.TB, _ *nats.Conn, bucket string) {
		tb.Helper()
		makeOurs(natsstore.BucketConfig{})(tb, hub.Connect(tb), bucket)
	}
	storetest.Run(t, b.harness, storetest.Caps{NoPurge: noPurge})
}
