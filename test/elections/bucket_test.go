package elections_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Buckets as `nats kv add` makes them. Each is written to by KV tools under a
// running election.
func TestBucketsMadeByOthersServe(t *testing.T) {
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
			g.await("a warning with "+c.warning, func() bool {
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
			a := g.joinBehind(srv, "a", ttl(short), graceful)
			a.leads()
			b := g.joinBehind(srv, "b", ttl(short), graceful)
			b.hears()
			// The current leader falls silent: the machine may have stalled for
			// a's lease.
			old, losses, first := g.leading()
			old.proxy.Hold(natslab.ToServer, natslab.ToClient)
			if next := g.leaderOfALaterTerm(first); next == old {
				t.Errorf("%s, which is silent, leads again", old.id)
			}
			old.proxy.Resume()
			g.await(old.id+" knows that its term is over", func() bool { return old.losses() > losses })
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
	a := g.join(srv.Connect(t), "a", ttl(lease), graceful)
	// On a machine that stalls a term may end. The next one may do.
	g.await("a term that outlasts three lives of the bucket's records", func() bool {
		s := a.Status()
		return s.IsLeader && time.Since(s.LastTransition) > 3*lease && a.count("renew ok") > 6
	})
	if _, err := open(t, srv.Connect(t), "b").Get(natslab.Within(t), "g"); err != nil && a.IsLeader() {
		t.Errorf("the leader's key: %v", err)
	}
}

func TestTermsGrowAcrossADeletedBucket(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	admin := natslab.JetStream(t, srv.Connect(t))
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a", ttl(short))
	g.leader()
	b := g.join(srv.Connect(t), "b", ttl(short))
	b.hears()
	for range 3 {
		before := g.leader().Term()
		if err := admin.DeleteKeyValue(natslab.Within(t), "b"); err != nil {
			t.Fatal(err)
		}
		g.await("a leader of a later term", func() bool {
			return a.Term().Number > before.Number || b.Term().Number > before.Number
		})
	}
	// Every watch still delivers.
	from := g.leader()
	to := a
	if from == a {
		to = b
	}
	g.handover(from, to)
}

// A bucket that is deleted under its elections is noticed and reported, and the
// elections wait for it.
func TestDeletedBucketIsReportedAndAwaited(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	admin := srv.Connect(t)
	ensure(t, admin, natsstore.BucketConfig{Bucket: "b"})
	g := newGroup(t, "b")
	awaiting := func(c *leader.ElectionConfig) { c.BucketAutoCreate = false }
	a := g.join(srv.Connect(t), "a", ttl(short), awaiting)
	a.leads()
	b := g.join(srv.Connect(t), "b", ttl(short), awaiting)
	b.hears()
	_, _, term := g.leading() // b by now, if the machine stalled for a's lease
	if err := natslab.JetStream(t, admin).DeleteKeyValue(natslab.Within(t), "b"); err != nil {
		t.Fatal(err)
	}
	g.await("the term ends", func() bool { return !a.IsLeader() && !b.IsLeader() })
	for _, m := range []*member{a, b} {
		g.await(m.id+" reports the fault", func() bool {
			err := m.Status().LastError
			return errors.Is(err, store.ErrPermanent) && strings.Contains(err.Error(), "leader bucket create --bucket b")
		})
	}
	if a.IsLeader() || b.IsLeader() {
		t.Error("somebody leads without a bucket")
	}
	ensure(t, admin, natsstore.BucketConfig{Bucket: "b"})
	g.leaderOfALaterTerm(term)
}

// graceful leaves it to the candidate when to cool down, as programs do.
func graceful(c *leader.ElectionConfig) { c.AcquireGrace = leader.GraceAuto }

// A leader that cannot hear leads until its lease runs out. Meanwhile its
// bucket is deleted, and made again by a candidate that has never heard of
// either.
func TestLeaderOfADeletedBucketHasNoRival(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	srv := natslab.Start(t)
	proxy := natslab.NewRelay(t, srv.Addr())
	admin, cut, direct := srv.Connect(t), natslab.Connect(t, proxy.URL()), srv.Connect(t)
	g := newGroup(t, "b")
	a := g.join(cut, "a", ttl(lease))
	old := g.leader()
	if old != a {
		t.Fatal(old.id)
	}
	first := a.Term()
	proxy.Hold(natslab.ToServer, natslab.ToClient)
	if err := natslab.JetStream(t, admin).DeleteStream(natslab.Within(t), "KV_b"); err != nil {
		t.Fatal(err)
	}
	b := g.join(direct, "b", ttl(lease), graceful)
	g.await("b has claimed the record", func() bool { return b.count("acquire ok") > 0 })
	g.await("b leads", b.IsLeader) // the group looks for two leaders all the while
	if !b.Term().Supersedes(first) {
		t.Errorf("term %v after %v", b.Term(), first)
	}
	if w := strings.Join(b.noted(leader.NoteWaiting), "\n"); !strings.Contains(w, "made less than a lease ago") {
		t.Errorf("warned of %q", w)
	}
}

func TestBucketOfAnAccountThatDemandsABoundHasTheOneThatIsConfigured(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	account, err := srv.Inner().LookupAccount(server.DEFAULT_GLOBAL_ACCOUNT)
	if err == nil {
		err = account.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{
			"": {MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1, MaxBytesRequired: true},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := startBounded(t, nc, 1, 0); !errors.Is(err, store.ErrPermanent) || !strings.Contains(err.Error(), "BucketMaxBytes or `leader bucket create b --max-bytes") {
		t.Errorf("without a bound: %v", err)
	}
	if _, err := startBounded(t, nc, 1, 1<<20); err != nil {
		t.Fatal(err)
	}
	m, err := leader.NewRoleManager(nc, leader.RoleManagerConfig{Election: leader.ElectionConfig{
		Bucket: "roles", BucketAutoCreate: true, Replicas: 1, BucketMaxBytes: 1 << 20, InstanceID: "a", TTL: long, HeartbeatInterval: time.Second,
	}})
	if err == nil {
		err = m.Add(natslab.Within(t), leader.Role{Name: "r"})
	}
	if err == nil {
		err = m.Start(natslab.Within(t))
	}
	if err == nil {
		err = m.Stop()
	}
	if err != nil {
		t.Errorf("a RoleManager: %v", err)
	}
	for _, bucket := range []string{"b", "roles"} {
		s, err := natslab.JetStream(t, nc).Stream(natslab.Within(t), "KV_"+bucket)
		if err != nil || s.CachedInfo().Config.MaxBytes != 1<<20 {
			t.Errorf("%s: %+v, %v", bucket, s, err)
		}
	}
}

// startWith starts an election that asks for so many replicas, and returns what
// Start said and warned of.
func startWith(t *testing.T, nc *nats.Conn, replicas int) (warnings []string, err error) {
	t.Helper()
	return startBounded(t, nc, replicas, 0)
}

// startBounded is startWith a bound for the bucket.
func startBounded(t *testing.T, nc *nats.Conn, replicas int, maxBytes int64) (warnings []string, err error) {
	t.Helper()
	var mu sync.Mutex
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: "b", BucketAutoCreate: true, Replicas: replicas, BucketMaxBytes: maxBytes, Group: "g", InstanceID: "a",
		TTL: long, HeartbeatInterval: time.Second,
		Hooks: leader.Hooks{Note: func(n leader.Note) {
			mu.Lock()
			defer mu.Unlock()
			if n.Kind == leader.NoteWarning {
				warnings = append(warnings, n.Text)
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = e.Start(natslab.Within(t))
	if stopped := e.Stop(); stopped != nil {
		t.Error(stopped)
	}
	mu.Lock()
	defer mu.Unlock()
	return warnings, err
}

func TestReplicasThatCannotBeKeptAreRefused(t *testing.T) {
	t.Parallel()
	nc := natslab.Start(t).Connect(t)
	_, err := startWith(t, nc, 3)
	if !errors.Is(err, store.ErrPermanent) || !strings.Contains(err.Error(), "cannot keep 3 replicas") {
		t.Errorf("three on one server: %v", err)
	}
	if _, err := startWith(t, nc, 1); err != nil {
		t.Fatal(err)
	}
	warnings, err := startWith(t, nc, 3)
	if err != nil || !strings.Contains(strings.Join(warnings, "\n"), "has 1 replicas and not 3") {
		t.Errorf("a bucket that exists: %q, %v", warnings, err)
	}
}
