package natsfence_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/labs/stalewriter"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestStalledLeaderPutsNothingIntoABucket(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	js := bucket(t, srv.Connect(t), natsstore.BucketConfig{Bucket: "orders", Replicas: 1})
	stalewriter.Try(t, srv, kv(js))
}

func TestStalledLeaderPutsNothingIntoABucketOfOthers(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	natslab.KV(t, nc, jetstream.KeyValueConfig{Bucket: "orders", History: 5})
	stalewriter.Try(t, srv, kv(natslab.JetStream(t, nc)))
}

func TestStalledLeaderPutsNothingIntoAReplicatedBucket(t *testing.T) {
	t.Parallel()
	lab := natslab.StartCluster(t, 3)
	js := bucket(t, lab.Connect(t), natsstore.BucketConfig{Bucket: "orders", Replicas: 3})
	stalewriter.Try(t, lab.Nodes[0], kv(js))
}

func TestStalledLeaderPublishesNothing(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	js := stream(t, srv.Connect(t), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
	stalewriter.Try(t, srv, events(js))
}

func TestStalledLeaderPublishesNothingToAReplicatedStream(t *testing.T) {
	t.Parallel()
	lab := natslab.StartCluster(t, 3)
	js := stream(t, lab.Connect(t), jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, Replicas: 3})
	stalewriter.Try(t, lab.Nodes[0], events(js))
}
