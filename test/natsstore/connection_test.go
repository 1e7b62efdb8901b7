package natsstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A single server has JetStream or has not. A server of a cluster may learn of
// another server with JetStream, and so may a server behind a leaf node or an
// import of its domain.
func TestAServerAloneWithoutJetStreamIsRefused(t *testing.T) {
	t.Parallel()
	alone := natslab.Start(t, natslab.WithoutJetStream()).Connect(t)
	member := natslab.Start(t, natslab.WithoutJetStream(), func(o *server.Options) {
		o.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: server.RANDOM_PORT}
	}).Connect(t)
	req := store.CheckRequest{TTL: time.Second, Key: "g"}
	_, err := open(t, alone, "b", natsstore.Options{}).Check(natslab.Within(t), req)
	trial.Outcome(t, err, store.Permanent, "no JetStream", "nats-server -js")
	// An election that runs goes on: the server may have it after its next
	// start.
	_, err = open(t, alone, "b", natsstore.Options{}).CompareAndSwap(natslab.Within(t), store.Write{Key: "g"})
	trial.Outcome(t, err, store.Transient, "JetStream")
	_, err = open(t, alone, "b", natsstore.Options{Domain: "hub"}).Check(natslab.Within(t), req)
	trial.Outcome(t, err, store.Transient)
	_, err = open(t, member, "b", natsstore.Options{}).Check(natslab.Within(t), req)
	trial.Outcome(t, err, store.Transient)
}

func TestAConnectionThatGivesUpIsWarnedOf(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	for want, options := range map[string][]nats.Option{
		"":                     nil, // natslab's never gives up
		"after 60 attempts":    {nats.MaxReconnects(nats.DefaultMaxReconnect)},
		"after 0 attempts":     {nats.MaxReconnects(0)},
		"as soon as it breaks": {nats.NoReconnect()},
	} {
		nc := srv.Connect(t, options...)
		ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
		r, err := open(t, nc, "b", natsstore.Options{}).Check(natslab.Within(t), store.CheckRequest{TTL: time.Second, Key: "g"})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.Warnings, "\n"); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("warnings %q, want %q", got, want)
		}
	}
}

func TestEveryCallOnAClosedConnectionReportsIt(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	ensure(t, nc, natsstore.BucketConfig{Bucket: "b"})
	s := open(t, nc, "b", natsstore.Options{})
	nc.Close()
	ctx := natslab.Within(t)
	_, get := s.Get(ctx, "g")
	_, swap := s.CompareAndSwap(ctx, store.Write{Key: "g"})
	_, check := s.Check(ctx, store.CheckRequest{TTL: time.Second, Key: "g"})
	for call, err := range map[string]error{"Get": get, "CompareAndSwap": swap, "Check": check} {
		if !errors.Is(err, store.ErrClosed) || !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("%s: %v", call, err)
		}
	}
}
