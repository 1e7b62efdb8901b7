package elections_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// historiesBucket is where the histories happen; each has keys of its own.
const historiesBucket = "histories"

// openStores makes the bucket, and a store over each connection and one that no
// fault meets.
func openStores(t *testing.T, replicas int, sound *nats.Conn, conns []*nats.Conn) []store.Store {
	t.Helper()
	natslab.Eventually(t, "bucket made", func(ctx context.Context) error {
		js := natslab.JetStream(t, sound)
		if err := natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: historiesBucket, Replicas: replicas}); err != nil {
			return err
		}
		_, err := js.KeyValue(ctx, historiesBucket)
		return err
	})
	var stores []store.Store
	for _, nc := range append(conns, sound) {
		st, err := natsstore.New(nc, historiesBucket, natsstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(st.Close)
		stores = append(stores, st)
	}
	return stores
}

// spoiled are the faults of the way to a server, as every store meets them, and
// a delay.
func spoiled(proxies []*natslab.Proxy) []trial.Fault {
	return append(trial.Spoil(proxies...), trial.Fault{Name: "delay", Happen: func(r *rand.Rand) {
		p := proxies[r.IntN(len(proxies))]
		p.Delay(30*time.Millisecond, natslab.ToServer, natslab.ToClient)
		trial.Last(r, 500)
		p.Resume()
	}}, trial.Fault{Name: "no way to the server and back", Happen: func(r *rand.Rand) {
		p := proxies[r.IntN(len(proxies))]
		p.Hold(natslab.ToServer, natslab.ToClient)
		trial.Last(r, 800)
		p.Resume()
	}})
}

// behind returns proxies to the servers, in turns, with a connection by each.
// What a client publishes while it is not connected waits in its buffer, as by
// default, and is sent when it is back.
func behind(t *testing.T, n int, servers ...string) (proxies []*natslab.Proxy, conns []*nats.Conn) {
	t.Helper()
	for i := range n {
		p := natslab.NewProxy(t, servers[i%len(servers)])
		proxies = append(proxies, p)
		conns = append(conns, natslab.Connect(t, p.URL(), nats.IgnoreDiscoveredServers(), nats.ReconnectBufSize(8<<20)))
	}
	return proxies, conns
}

// enough is what a history must have had to count. The asynchronous writes are
// those of elections.
func enough(c histories.Tally) error {
	if c.Async < 100 {
		return fmt.Errorf("%d asynchronous writes, want 100", c.Async)
	}
	return trial.Least(500, 100, 50, 10)(c)
}

func TestBucketOnOneServerIsLinearizable(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxies, conns := behind(t, 5, srv.Addr())
	trial.HistoryWithFaults(t, histories.Judge{CurrentConflicts: true}, trial.Faulted{
		Stores: openStores(t, 1, srv.Connect(t), conns),
		Faults: append(spoiled(proxies), trial.Fault{Name: "the server restarts", Happen: func(*rand.Rand) { srv.Restart() }}),
		Enough: enough,
	})
}

// The servers are processes, and die as such. Conflicts are left out of the
// order: see the package's documentation.
func TestBucketInAClusterIsLinearizable(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartProcesses(t, 3, "")
	var servers []string
	for _, p := range cluster.Nodes {
		servers = append(servers, p.Addr())
	}
	proxies, conns := behind(t, 6, servers...)
	sound := cluster.Connect(t)
	stores := openStores(t, 3, sound, conns)
	faults := append(spoiled(proxies),
		trial.Fault{Name: "kill", Happen: func(r *rand.Rand) {
			p := cluster.Nodes[r.IntN(3)]
			p.Kill()
			<-time.After(rand.N(time.Second))
			p.Run()
			cluster.AwaitReady()
		}},
		trial.Fault{Name: "kill of the stream's leader", Happen: func(*rand.Rand) {
			p := cluster.StreamLeader(sound, "KV_"+historiesBucket)
			p.Kill()
			<-time.After(rand.N(time.Second))
			p.Run()
			cluster.AwaitReady()
		}},
		trial.Fault{Name: "step-down of the stream's leader", Happen: func(*rand.Rand) {
			// It may have none just now, which is a fault as well.
			_, _ = sound.Request("$JS.API.STREAM.LEADER.STEPDOWN.KV_"+historiesBucket, nil, 2*time.Second)
		}},
	)
	trial.HistoryWithFaults(t, histories.Judge{}, trial.Faulted{Stores: stores, Faults: faults, Enough: enough})
}

// blind is a store whose writes forget what they expect, and are honest
// otherwise.
type blind struct {
	store.Store
	put func(ctx context.Context, key string, value []byte) (uint64, error)
}

func (b blind) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	rev, err := b.put(ctx, w.Key, w.Value)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return rev, nil
}

func TestStoreThatForgetsTheExpectedRevisionIsCondemned(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	stores := openStores(t, 1, srv.Connect(t), []*nats.Conn{srv.Connect(t), srv.Connect(t)})
	kv, err := natslab.JetStream(t, srv.Connect(t)).KeyValue(natslab.Within(t), historiesBucket)
	if err != nil {
		t.Fatal(err)
	}
	memory := memstore.New()
	for name, all := range map[string][]store.Store{
		"NATS": {blind{stores[0], kv.Put}, blind{stores[1], kv.Put}, blind{stores[2], kv.Put}},
		"Memory": {blind{memory, func(_ context.Context, key string, value []byte) (uint64, error) {
			return memory.Put(key, value), nil
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := histories.New()
			var clients []*histories.Client
			for i, st := range all {
				clients = append(clients, h.Client(i, st))
			}
			// Two that expect the same are enough.
			for _, c := range []*histories.Client{clients[0], clients[len(clients)-1]} {
				if _, outcome := c.Swap(natslab.Within(t), "k", 0); outcome != store.OK {
					t.Fatalf("a write ended %v", outcome)
				}
			}
			if err := (histories.Judge{}).Verdict(h.Ops()); err == nil {
				t.Errorf("it passed:\n%v", h.Ops())
			} else {
				t.Log(err)
			}
		})
	}
}
