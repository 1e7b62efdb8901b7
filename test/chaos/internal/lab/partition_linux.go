package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// partitioned is how long a server is cut off at the most. After four to nine
// seconds the two others have a leader of the stream without it.
const partitioned = 12 * time.Second

var partitionKinds = []kind{{
	"partition", "a server of three, mostly the one that leads the stream, is cut off from the two others for up to 12 s, and its clients reach it",
	true, replicated, counted(func(r *round, f fault) { r.partition(f) }),
}}

// partition cuts a server off, by a black hole or by closing the routes, and
// sees to it that this has an effect before its time counts.
func (r *round) partition(f fault) {
	rng := f.rng()
	alone, other := r.servers.Nodes[rng.IntN(3)], r.servers.Nodes[0]
	if rng.IntN(4) > 0 {
		alone = r.leadingNode(f)
	}
	if alone == other {
		other = r.servers.Nodes[1]
	}
	cut := (*natslab.Proxy).Cut
	if rng.IntN(2) == 0 {
		cut = func(p *natslab.Proxy) { p.Hold(natslab.ToServer, natslab.ToClient) }
	}
	inside, outside := r.client(alone), r.client(other)
	defer inside.Close()
	defer outside.Close()
	echo, err := outside.Subscribe("partition.echo", func(m *nats.Msg) { _ = m.Respond(nil) })
	r.check(err)
	defer echo.Unsubscribe() //nolint:errcheck // the connection is closed anyway
	r.eventually("the servers reach each other before they are parted", healing, reach(inside, true))
	for _, p := range alone.Routes() {
		cut(p)
	}
	r.eventually("a server is cut off from the others", healing, reach(inside, false))
	r.sleep(between(rng, f.length, max(f.length, partitioned)))
	if err := inside.FlushTimeout(healing); err != nil || inside.Stats().Reconnects > 0 {
		r.Fatalf("a client of the server that was cut off was cut off too: %v, %d reconnects", err, inside.Stats().Reconnects)
	}
	for _, p := range alone.Routes() {
		p.Resume()
	}
	r.eventually("the servers reach each other again", healing, reach(inside, true))
	js := natslab.JetStream(r, inside)
	r.eventually("the store takes writes through the server that was cut off", healing, func(ctx context.Context) error {
		return write(ctx, js)
	})
}

// client is a connection of the lab to one server and no other.
func (r *round) client(node *natslab.Process) *nats.Conn {
	return natslab.Connect(r, node.URL(), nats.IgnoreDiscoveredServers())
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
