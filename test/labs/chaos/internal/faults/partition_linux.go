package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/arena"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/round"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// partitioned is how long a server is cut off at most. After four to nine
// seconds the two others have a leader of the stream without it.
const partitioned = 12 * time.Second

var partitionKinds = []kind{{
	atServers("partition", "a server of three, mostly the one that leads the stream, is cut off from the two others for up to 12 s, and its clients reach it",
		schedule.Replicated), counted(partition),
}}

// partition cuts a server off, by a black hole or by closing the routes, and
// sees to it that this has an effect before its time counts.
func partition(r *round.Round, f schedule.Fault) {
	rng := f.RNG()
	alone, other := r.Servers.Nodes[rng.IntN(3)], r.Servers.Nodes[0]
	if rng.IntN(4) > 0 {
		alone = leadingNode(r, f)
	}
	if alone == other {
		other = r.Servers.Nodes[1]
	}
	cut := (*natslab.Relay).Cut
	if rng.IntN(2) == 0 {
		cut = func(p *natslab.Relay) { p.Hold(natslab.ToServer, natslab.ToClient) }
	}
	inside, outside := r.Client(alone), r.Client(other)
	defer inside.Close()
	defer outside.Close()
	echo, err := outside.Subscribe("partition.echo", func(m *nats.Msg) { _ = m.Respond(nil) })
	r.Check(err)
	defer echo.Unsubscribe() //nolint:errcheck // the connection is closed anyway
	r.Eventually("the servers reach each other before they are parted", round.Healing, reach(inside, true))
	for _, p := range alone.Routes() {
		cut(p)
	}
	r.Eventually("a server is cut off from the others", round.Healing, reach(inside, false))
	r.Sleep(schedule.Between(rng, f.Length, max(f.Length, partitioned)))
	if err := inside.FlushTimeout(round.Healing); err != nil || inside.Stats().Reconnects > 0 {
		r.Fatalf("a client of the server that was cut off was cut off too: %v, %d reconnects", err, inside.Stats().Reconnects)
	}
	for _, p := range alone.Routes() {
		p.Resume()
	}
	r.Eventually("the servers reach each other again", round.Healing, reach(inside, true))
	js := natslab.JetStream(r, inside)
	r.Eventually("the store takes writes through the server that was cut off", round.Healing, func(ctx context.Context) error {
		return arena.Write(ctx, js)
	})
}

// reach returns an error unless a request reaches the echo, or does not, as
// wanted.
func reach(nc *nats.Conn, want bool) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err := nc.RequestWithContext(ctx, "partition.echo", nil)
		if (err == nil) == want {
			return nil
		}
		return errors.Join(fmt.Errorf("reached: %v", !want), err)
	}
}
