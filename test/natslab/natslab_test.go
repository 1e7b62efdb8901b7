package natslab_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The server removes the directory of an account's streams a moment after the
// last one has gone (stream.go, internalDelete). A stream that is made just
// then failed with "error creating store for stream".
func TestAStreamIsMadeAfterTheLastOneHasGone(t *testing.T) {
	t.Parallel()
	js := natslab.JetStream(t, natslab.Start(t).Connect(t))
	for range 500 {
		if _, err := js.CreateStream(natslab.Within(t), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
			t.Fatal(err)
		}
		if err := js.DeleteStream(natslab.Within(t), "S"); err != nil {
			t.Fatal(err)
		}
	}
}
