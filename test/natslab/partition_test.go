package natslab_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestMain(m *testing.M) {
	if natslab.Serving() {
		return
	}
	m.Run()
}

// A server that is cut off takes no write, since it has no majority, and its
// clients keep their connections; the two others go on.
func TestAServerWithoutItsRoutesIsAloneWithItsClients(t *testing.T) {
	for name, cut := range map[string]func(*natslab.Relay){
		"held": func(p *natslab.Relay) { p.Hold(natslab.ToServer, natslab.ToClient) },
		"cut":  (*natslab.Relay).Cut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := natslab.StartPartitionable(t, natslab.Command{}, 3, "")
			natslab.KV(t, c.Connect(t), jetstream.KeyValueConfig{Bucket: "b", Replicas: 3})
			alone := c.Nodes[0]
			inside := natslab.Connect(t, alone.URL(), nats.IgnoreDiscoveredServers())
			outside := natslab.Connect(t, c.Nodes[1].URL(), nats.IgnoreDiscoveredServers())
			natslab.Eventually(t, "a write through the server before it is cut off", put(t, inside))

			for _, p := range alone.Routes() {
				cut(p)
			}
			natslab.Eventually(t, "no write through the server that is cut off", func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				defer cancel()
				if put(t, inside)(ctx) == nil {
					return errors.New("it takes one")
				}
				return nil
			})
			natslab.Eventually(t, "a write through one of the two others", put(t, outside))
			if err := put(t, inside)(brief(t)); err == nil {
				t.Error("the server takes a write while the others do")
			}
			if err := inside.FlushTimeout(natslab.Patience); err != nil || inside.Stats().Reconnects > 0 {
				t.Errorf("its client was cut off too: %v, %d reconnects", err, inside.Stats().Reconnects)
			}

			for _, p := range alone.Routes() {
				p.Resume()
			}
			natslab.Eventually(t, "a write through the server that is back", put(t, inside))
		})
	}
}

func brief(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, nc *nats.Conn) func(context.Context) error {
	t.Helper()
	js := natslab.JetStream(t, nc)
	return func(ctx context.Context) error {
		_, err := js.Publish(ctx, "$KV.b.k", nil, jetstream.WithRetryAttempts(0))
		return err
	}
}
