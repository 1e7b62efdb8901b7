package natsstore_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A connection that is being drained counts as connected but takes no new
// subscription: a new watch on it is refused permanently, and nothing of the
// attempt is left.
func TestAConnectionThatIsBeingDrainedTakesNoWatch(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	bucket := newBucket()
	ensure(t, nc, natsstore.BucketConfig{Bucket: bucket})
	busy, finish := make(chan struct{}), make(chan struct{})
	defer close(finish)
	if _, err := nc.Subscribe("busy", func(*nats.Msg) {
		close(busy)
		<-finish // for so long the connection is draining
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish("busy", nil); err != nil {
		t.Fatal(err)
	}
	<-busy
	if err := nc.Drain(); err != nil {
		t.Fatal(err)
	}
	s := open(t, nc, bucket, natsstore.Options{Republished: "leader." + bucket + "."})
	none := func(store.Entry) {}
	_, keys := s.Watch(t.Context(), []string{"k"}, none)
	_, pattern := s.WatchPattern(t.Context(), "*", none, func(error) {})
	for call, err := range map[string]error{"Watch": keys, "WatchPattern": pattern} {
		if !errors.Is(err, store.ErrPermanent) || !errors.Is(err, nats.ErrConnectionDraining) {
			t.Errorf("%s: %v", call, err)
		}
	}
}
