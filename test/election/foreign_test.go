package election_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Writes that replace the record of a leader whose trust window is open. It
// stops its work, and what it then writes lets the others go at once: leases
// are long here, and nobody waits one out.
func TestForeignWriteOverALeadersRecordCostsTheTermOnly(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	admin := srv.Connect(t)
	put := func(value string) func(context.Context, jetstream.KeyValue) error {
		return func(ctx context.Context, kv jetstream.KeyValue) error {
			_, err := kv.Put(ctx, "g", []byte(value))
			return err
		}
	}
	for name, c := range map[string]struct {
		do     func(context.Context, jetstream.KeyValue) error
		reason leader.Reason
	}{
		"Garbage":      {put(string(garbage(100))), leader.ReasonOverwritten},
		"Oversize":     {put(string(garbage(512 << 10))), leader.ReasonOverwritten},
		"LongJSON":     {put(`{"id":"x","token":"` + strings.Repeat("y", 64<<10) + `"}`), leader.ReasonOverwritten},
		"EmptyValue":   {put(""), leader.ReasonOverwritten},
		"EmptyObject":  {put("{}"), leader.ReasonOverwritten},
		"Null":         {put("null"), leader.ReasonOverwritten},
		"Array":        {put(`[{"id":"x"}]`), leader.ReasonOverwritten},
		"DeepNesting":  {put(strings.Repeat(`{"a":`, 3000)), leader.ReasonOverwritten},
		"DeepArrays":   {put(`{"meta":` + strings.Repeat("[", 15000) + `}`), leader.ReasonOverwritten},
		"WrongTypes":   {put(`{"id":7,"token":true,"ttl":"long"}`), leader.ReasonOverwritten},
		"NegativeTTL":  {put(`{"id":"x","token":"y","ttl":-5}`), leader.ReasonOverwritten},
		"HugeNumber":   {put(`{"id":"x","token":"y","ttl":1e400}`), leader.ReasonOverwritten},
		"HugeTerm":     {put(`{"id":"x","token":"y","ttl":1000,"term":18446744073709551615}`), leader.ReasonOverwritten},
		"AnotherClaim": {put(`{"id":"x","token":"y","ttl":500}`), leader.ReasonSuperseded},
		"Vacancy":      {put(`{"reason":"operator","by":"operator"}`), leader.ReasonOverwritten},
		"Delete": {func(ctx context.Context, kv jetstream.KeyValue) error {
			return kv.Delete(ctx, "g")
		}, leader.ReasonDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, name)
			a := g.join(srv.Connect(t), "a")
			g.leader()
			b := g.join(srv.Connect(t), "b")
			b.follows(a)
			kv, err := natslab.JetStream(t, admin).KeyValue(natslab.Within(t), name)
			if err != nil {
				t.Fatal(err)
			}
			first := a.Term()
			if err := c.do(natslab.Within(t), kv); err != nil {
				t.Fatal(err)
			}
			g.await("somebody leads again", func() bool {
				return a.Term().Number > first.Number || b.Term().Number > first.Number
			})
			if why := a.lost(); why != c.reason {
				t.Errorf("a's reason is %q, want %q", why, c.reason)
			}
			// Nobody has gone deaf.
			from, to := a, b
			if b.IsLeader() {
				from, to = b, a
			}
			g.handover(from, to)
		})
	}
}

// What stands in the key when nobody leads is no permission, unless it is a
// vacancy. A deletion by an operator gets the key going, after the wait that a
// lease seen before it takes.
func TestRecordsThatNobodyCanReadKeepEverybodyWaiting(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	admin := srv.Connect(t)
	ensure(t, admin, natsstore.BucketConfig{Bucket: "b"})
	kv, err := natslab.JetStream(t, admin).KeyValue(natslab.Within(t), "b")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		value  string
		leader string
		reason leader.Reason // why nobody leads
	}{
		"garbage":   {string(garbage(1000)), "", leader.ReasonOverwritten},
		"object":    {"{}", "", leader.ReasonOverwritten},
		"no-marker": {`{"reason":"cleared","by":"operator"}`, "", leader.ReasonOverwritten},
		"unlimited": {`{"id":"x","token":"y","ttl":1e30}`, "", leader.ReasonOverwritten},
		"faraway":   {`{"id":"x","token":"y","ttl":9007199254740992}`, "x", ""},
		"timeless":  {`{"id":"x","token":"y"}`, "x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, "b")
			g.name = name
			if _, err := kv.Put(natslab.Within(t), name, []byte(c.value)); err != nil {
				t.Fatal(err)
			}
			a := g.join(srv.Connect(t), "a", ttl(short), func(c *leader.ElectionConfig) { c.ForeignTTL = leader.MaxTTL })
			g.await("a has seen it", func() bool {
				info := a.latest()
				return info.ID == c.leader && info.Reason == c.reason
			})
			if n := a.count("acquire"); n != 0 {
				t.Fatalf("%d claims", n)
			}
			// The way out for an operator that needs no waiting: a vacancy,
			// which is a delete marker that says why.
			vacancy := nats.NewMsg("$KV.b." + name)
			vacancy.Header.Set("KV-Operation", "DEL")
			vacancy.Data = []byte(`{"reason":"cleared","by":"operator"}`)
			if _, err := natslab.JetStream(t, admin).PublishMsg(natslab.Within(t), vacancy); err != nil {
				t.Fatal(err)
			}
			g.await("a leads", a.IsLeader)
		})
	}
}

// An operator deletes a key that nobody serves any more.
func TestDeletionIsWaitedOutAndThenTaken(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	admin := srv.Connect(t)
	ensure(t, admin, natsstore.BucketConfig{Bucket: "b"})
	kv, err := natslab.JetStream(t, admin).KeyValue(natslab.Within(t), "b")
	if err != nil {
		t.Fatal(err)
	}
	g := newGroup(t, "b")
	if _, err := kv.Put(natslab.Within(t), "g", garbage(100)); err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(natslab.Within(t), "g"); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	g.join(srv.Connect(t), "a", ttl(short))
	g.leader()
	if took := time.Since(begun); took < short {
		t.Errorf("led %v after a bare deletion; its lease is %v", took, short)
	}
}

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

// A bucket of ours refuses the purge of a key, which would bring its revisions
// back to nothing.
func TestOurBucketRefusesPurges(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a")
	term := g.leader().Term()
	js := natslab.JetStream(t, srv.Connect(t))
	kv, err := js.KeyValue(natslab.Within(t), "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Purge(natslab.Within(t), "g"); err == nil {
		t.Error("kv.Purge succeeded")
	}
	stream, err := js.Stream(natslab.Within(t), "KV_b")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(natslab.Within(t)); err == nil {
		t.Error("a purge of the stream succeeded")
	}
	if err := a.ValidateToken(natslab.Within(t)); err != nil || a.Term() != term {
		t.Errorf("term %v, was %v: %v", a.Term(), term, err)
	}
}
