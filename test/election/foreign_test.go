package election_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Buckets as `nats kv add` makes them. Each is written to by KV tools under a
// running election.
func TestBucketsMadeByOthers(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	admin := srv.Connect(t)
	for name, c := range map[string]struct {
		cfg      jetstream.KeyValueConfig
		warning  string // a word of it
		coolDown bool
	}{
		"plain":   {cfg: jetstream.KeyValueConfig{}, warning: "rollup"},
		"history": {cfg: jetstream.KeyValueConfig{History: 64}, warning: "rollup"},
		"ttl":     {cfg: jetstream.KeyValueConfig{TTL: 2 * short}, warning: "expires records", coolDown: true},
		"markers": {cfg: jetstream.KeyValueConfig{TTL: 2 * short, LimitMarkerTTL: time.Second}, warning: "expires records", coolDown: true},
		"memory":  {cfg: jetstream.KeyValueConfig{Storage: jetstream.MemoryStorage}, warning: "memory", coolDown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.cfg.Bucket = name
			kv := natslab.KV(t, admin, c.cfg)
			g := newGroup(t, name)
			found := func(c *leader.ElectionConfig) { c.BucketAutoCreate, c.AcquireGrace = false, leader.GraceAuto }
			begun := time.Now()
			a := g.join(srv.Connect(t), "a", ttl(short), found)
			g.leader()
			if took := time.Since(begun); c.coolDown && took < short {
				t.Errorf("promoted after %v, without a cool-down", took)
			}
			g.await("a warning that says "+c.warning, func() bool {
				return strings.Contains(strings.Join(a.noted(leader.NoteWarning), "\n"), c.warning)
			})
			b := g.join(srv.Connect(t), "b", ttl(short), found)
			g.await("b hears who leads", func() bool { return b.LeaderID() != "" })

			b.succeed()
			for i, spoil := range []func(context.Context) error{
				func(ctx context.Context) error { return kv.Delete(ctx, "g") },
				func(ctx context.Context) error { return kv.Purge(ctx, "g") },
				func(ctx context.Context) error { _, err := kv.PutString(ctx, "g", "hello"); return err },
			} {
				before := g.leader().Term()
				if err := spoil(natslab.Within(t)); err != nil {
					t.Fatal(err)
				}
				g.await(fmt.Sprintf("a leader after spoiling %d", i), func() bool {
					return a.Term().Number > before.Number || b.Term().Number > before.Number
				})
			}
		})
	}
}
