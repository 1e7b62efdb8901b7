package spec_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// expiring are buckets whose records expire, as `nats kv add --ttl` and older
// programs make them.
var expiring = map[string]func(tb testing.TB, nc *nats.Conn, bucket string, ttl time.Duration){
	"legacy": func(tb testing.TB, nc *nats.Conn, bucket string, ttl time.Duration) {
		tb.Helper()
		js, err := nc.JetStream()
		if err != nil {
			tb.Fatal(err)
		}
		natslab.Eventually(tb, "bucket made", func(context.Context) error {
			_, err := js.CreateKeyValue(&nats.KeyValueConfig{Bucket: bucket, TTL: ttl})
			return err
		})
	},
	"present": func(tb testing.TB, nc *nats.Conn, bucket string, ttl time.Duration) {
		tb.Helper()
		natslab.KV(tb, nc, jetstream.KeyValueConfig{Bucket: bucket, TTL: ttl})
	},
	"markers": func(tb testing.TB, nc *nats.Conn, bucket string, ttl time.Duration) {
		tb.Helper()
		natslab.KV(tb, nc, jetstream.KeyValueConfig{Bucket: bucket, TTL: ttl, LimitMarkerTTL: time.Minute})
	},
}

// A leader that falls silent loses its key to the server's expiry, and another
// leads.
func TestSilentLeaderOfAnExpiringBucketIsSucceeded(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	for name, create := range expiring {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			create(t, srv.Connect(t), name, 2*short)
			g := newGroup(t, name)
			a := g.joinBehind(srv, "a", ttl(short))
			a.leads()
			b := g.joinBehind(srv, "b", ttl(short))
			b.hears()
			// Whoever leads by now falls silent: the machine may have stalled for
			// a's lease.
			old, losses, first := g.leading()
			old.proxy.Hold(natslab.ToServer, natslab.ToClient)
			if next := g.leaderAfter(first); next == old {
				t.Errorf("%s, which is silent, leads again", old.id)
			}
			old.proxy.Resume()
			g.await(old.id+" knows that its term is over", func() bool { return len(old.lost()) > losses })
		})
	}
}

// As long as its leader renews it, a key does not expire.
func TestLeaderKeepsItsKeyFromExpiring(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	srv := natslab.Start(t)
	expiring["legacy"](t, srv.Connect(t), "b", lease)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a", ttl(lease))
	// On a machine that stalls a term may end. The next one may do.
	g.await("a term that outlasts three lives of the bucket's records", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.IsLeader() && time.Since(a.promoted) > 3*lease && a.renewals > 6
	})
	if _, err := open(t, srv.Connect(t), "b").Get(within(t), "g"); err != nil && a.IsLeader() {
		t.Errorf("the leader's key: %v", err)
	}
}
