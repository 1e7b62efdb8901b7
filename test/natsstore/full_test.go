package natsstore_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A leader that is shut down answers a write that its peers store as a full
// bucket answers one that nobody does, and such a write may be what filled the
// bucket. So with replicas nothing is certain.
func TestRefusalOfAFullReplicatedBucketIsUnknown(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := natslab.StartCluster(t, 3)
	nc := c.Connect(t)
	_, err := natslab.JetStream(t, nc).CreateStream(natslab.Within(t), jetstream.StreamConfig{
		Name: "KV_b", Subjects: []string{"$KV.b.>"}, MaxMsgsPerSubject: 1, Replicas: 3,
		Discard: jetstream.DiscardNew, AllowDirect: true, MaxBytes: 300,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, nc, "b", natsstore.Options{})
	natslab.Eventually(t, "the stream has a leader", func(ctx context.Context) error {
		if _, err = s.CompareAndSwap(ctx, store.Write{Key: "g", Value: make([]byte, 290)}); store.Classify(err) == store.Transient {
			return err
		}
		return nil
	})
	trial.Outcome(t, err, store.Unknown, "bytes")
}
