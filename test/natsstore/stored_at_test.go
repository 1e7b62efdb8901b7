package natsstore_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestStoredAtIsTheServersTimeOfTheEntry(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	s := open(t, nc, "b", natsstore.Options{})
	begun := time.Now()
	want := must(t, s, store.Write{Key: "g", Value: []byte("{}")})
	at, revision, err := s.StoredAt(natslab.Within(t), "g")
	// The server is on this machine.
	if err != nil || revision != want || at.Before(begun.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("stored at %v with revision %d, error %v; want revision %d after %v", at, revision, err, want, begun)
	}
	if at, revision, err := s.StoredAt(natslab.Within(t), "other"); err != nil || revision != 0 || !at.IsZero() {
		t.Errorf("a key without an entry: stored at %v with revision %d, error %v", at, revision, err)
	}
}

func TestStoredAtIsUnknownInABucketThatRefusesDirectGets(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	if _, err := natslab.JetStream(t, nc).CreateStream(natslab.Within(t), jetstream.StreamConfig{
		Name: "KV_b", Subjects: []string{"$KV.b.>"}, MaxMsgsPerSubject: 1, AllowRollup: true, DenyDelete: true,
	}); err != nil {
		t.Fatal(err)
	}
	s := open(t, nc, "b", natsstore.Options{})
	must(t, s, store.Write{Key: "g", Value: []byte("{}")})
	if at, revision, err := s.StoredAt(natslab.Within(t), "g"); err != nil || revision != 0 || !at.IsZero() {
		t.Errorf("stored at %v with revision %d, error %v", at, revision, err)
	}
}
