package histories_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/histories"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// bucket is where the histories happen; each has keys of its own.
const bucket = "histories"

// least is what a history must have had to count.
type least struct {
	writes, won, refused, unknown int
	faults                        int // of each kind
}

// A fault is something that goes wrong for a while.
type fault struct {
	name   string
	happen func(r *rand.Rand)
}

// enough tells what a history still lacks.
func (l least) enough(h *histories.History, happened map[string]int, faults []fault) error {
	var lacks []error
	for _, c := range []struct {
		what      string
		has, want int
	}{
		{"writes", h.Count(), l.writes},
		{"acknowledged writes", h.Count(store.OK), l.won},
		{"conflicts", h.Count(store.Conflict), l.refused},
		{"writes of unknown outcome", h.Count(store.Unknown), l.unknown},
	} {
		if c.has < c.want {
			lacks = append(lacks, fmt.Errorf("%d %s, want %d", c.has, c.what, c.want))
		}
	}
	for _, f := range faults {
		if n := happened[f.name]; n < l.faults {
			lacks = append(lacks, fmt.Errorf("%q happened %d times, want %d", f.name, n, l.faults))
		}
	}
	return errors.Join(lacks...)
}

// record lets the clients contend while the faults happen, in an order of the seed, until the history has enough of
// everything; then heal ends all faults, the last client settles the keys, and the judge decides.
func record(t *testing.T, judge histories.Judge, stores []store.Store, want least, faults []fault, heal func()) {
	for range *rounds {
		n := *seed
		if n == 0 {
			n = rand.Uint64()
		}
		t.Logf("replay the order of calls and faults with -args -seed=%d", n)
		h := histories.New()
		clients := make([]*histories.Client, len(stores))
		for i, st := range stores {
			clients[i] = h.Client(i, st)
		}
		keys := []string{fmt.Sprintf("a%d", rand.Uint32()), fmt.Sprintf("b%d", rand.Uint32()), fmt.Sprintf("c%d", rand.Uint32())}
		ctx, stop := context.WithCancel(t.Context())
		var traffic sync.WaitGroup
		traffic.Go(func() { histories.Contend(ctx, clients, keys, n) })
		happened := inflict(t, h, want, faults, rand.New(rand.NewPCG(n, 1)))
		stop()
		traffic.Wait()
		heal()
		if err := histories.Settle(natslab.Within(t), clients[len(clients)-1], keys); err != nil {
			t.Fatalf("the keys do not settle: %v", err)
		}
		t.Logf("%d calls, of them %d writes: %d acknowledged, %d conflicts, %d unknown, %d without effect; faults: %v",
			len(h.Ops()), h.Count(), h.Count(store.OK), h.Count(store.Conflict), h.Count(store.Unknown),
			h.Count(store.Transient, store.Permanent), happened)
		if err := want.enough(h, happened, faults); err != nil {
			t.Errorf("this history shows too little: %v", err)
		}
		if err := judge.Verdict(h.Ops()); err != nil {
			t.Errorf("%v\n%s", err, told(h))
		}
	}
}

// inflict has the faults happen in turns, each round in another order, until the history has enough.
func inflict(t *testing.T, h *histories.History, want least, faults []fault, r *rand.Rand) map[string]int {
	t.Helper()
	happened := map[string]int{}
	limit := time.Now().Add(3 * natslab.Patience)
	for want.enough(h, happened, faults) != nil && time.Now().Before(limit) {
		r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		for _, f := range faults {
			f.happen(r)
			happened[f.name]++
			// Until somebody writes again: the next fault is to meet work.
			before := h.Count(store.OK)
			natslab.Eventually(t, "a write is acknowledged after "+f.name, func(context.Context) error {
				if h.Count(store.OK) == before {
					return errors.New("none")
				}
				return nil
			})
		}
		if len(faults) == 0 {
			<-time.After(10 * time.Millisecond)
		}
	}
	return happened
}

// told is the history as text, if a person can still read it.
func told(h *histories.History) string {
	ops := h.Ops()
	if len(ops) > 10_000 {
		return fmt.Sprintf("a history of %d calls", len(ops))
	}
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}

func TestMemoryStoreIsLinearizable(t *testing.T) {
	t.Parallel()
	st := memstore.New()
	// One store, many callers: it has no connections to fail.
	record(t, histories.Judge{CurrentConflicts: true}, []store.Store{st, st, st, st, st, st},
		least{writes: 2000, won: 500, refused: 200}, nil, func() {})
}

// open makes the bucket, and a store over each connection and one that no fault meets.
func open(t *testing.T, replicas int, sound *nats.Conn, conns []*nats.Conn) []store.Store {
	t.Helper()
	natslab.Eventually(t, "bucket made", func(ctx context.Context) error {
		js := natslab.JetStream(t, sound)
		if err := natsstore.EnsureBucket(ctx, js, natsstore.BucketConfig{Bucket: bucket, Replicas: replicas}); err != nil {
			return err
		}
		_, err := js.KeyValue(ctx, bucket)
		return err
	})
	var stores []store.Store
	for _, nc := range append(conns, sound) {
		st, err := natsstore.New(nc, bucket, natsstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(st.Close)
		stores = append(stores, st)
	}
	return stores
}

// spoiled are the faults of the way to a server.
func spoiled(proxies []*natslab.Proxy) []fault {
	during := func(least, spread time.Duration, spoil func(*natslab.Proxy)) func(*rand.Rand) {
		return func(r *rand.Rand) {
			p := proxies[r.IntN(len(proxies))]
			spoil(p)
			<-time.After(least + rand.N(spread))
			p.Resume()
		}
	}
	const ms = time.Millisecond
	return []fault{
		{"no way to the server and back", during(300*ms, 500*ms, func(p *natslab.Proxy) { p.Hold(natslab.ToServer, natslab.ToClient) })},
		{"answers are held", during(600*ms, 200*ms, func(p *natslab.Proxy) { p.Hold(natslab.ToClient) })},
		{"calls are held and their connection lost", func(r *rand.Rand) {
			p := proxies[r.IntN(len(proxies))]
			p.Hold(natslab.ToServer)
			<-time.After(200 * ms)
			p.Reset()
			p.Resume()
		}},
		{"connections are reset", during(0, 100*ms, func(p *natslab.Proxy) { p.Reset() })},
		{"cut", during(100*ms, 300*ms, func(p *natslab.Proxy) { p.Cut() })},
		{"delay", during(200*ms, 300*ms, func(p *natslab.Proxy) { p.Delay(30*ms, natslab.ToServer, natslab.ToClient) })},
	}
}

// behind returns proxies to the servers, in turns, with a connection by each. What a client publishes while it is not
// connected waits in its buffer, as by default, and is sent when it is back.
func behind(t *testing.T, n int, servers ...string) (proxies []*natslab.Proxy, conns []*nats.Conn) {
	t.Helper()
	for i := range n {
		p := natslab.NewProxy(t, servers[i%len(servers)])
		proxies = append(proxies, p)
		conns = append(conns, natslab.Connect(t, p.URL(), nats.IgnoreDiscoveredServers(), nats.ReconnectBufSize(8<<20)))
	}
	return proxies, conns
}

func resume(proxies []*natslab.Proxy) {
	for _, p := range proxies {
		p.Resume()
	}
}

func TestBucketOnOneServerIsLinearizable(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxies, conns := behind(t, 5, srv.Addr())
	stores := open(t, 1, srv.Connect(t), conns)
	faults := append(spoiled(proxies), fault{"the server restarts", func(*rand.Rand) { srv.Restart() }})
	record(t, histories.Judge{CurrentConflicts: true}, stores,
		least{writes: 500, won: 100, refused: 50, unknown: 10, faults: 1}, faults, func() { resume(proxies) })
}

// The servers are processes, and die as such. Conflicts are left out of the order: see the package's documentation.
func TestBucketInAClusterIsLinearizable(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartProcesses(t, 3, "")
	var servers []string
	for _, p := range cluster.Nodes {
		servers = append(servers, p.Addr())
	}
	proxies, conns := behind(t, 6, servers...)
	sound := cluster.Connect(t)
	stores := open(t, 3, sound, conns)
	faults := append(spoiled(proxies),
		fault{"kill", func(r *rand.Rand) {
			p := cluster.Nodes[r.IntN(3)]
			p.Kill()
			<-time.After(rand.N(time.Second))
			p.Run()
			cluster.AwaitReady()
		}},
		fault{"kill of the stream's leader", func(*rand.Rand) {
			p := cluster.StreamLeader(sound, "KV_"+bucket)
			p.Kill()
			<-time.After(rand.N(time.Second))
			p.Run()
			cluster.AwaitReady()
		}},
		fault{"step-down of the stream's leader", func(*rand.Rand) {
			// It may have none just now, which is a fault as well.
			_, _ = sound.Request("$JS.API.STREAM.LEADER.STEPDOWN.KV_"+bucket, nil, 2*time.Second)
		}},
	)
	record(t, histories.Judge{}, stores, least{writes: 500, won: 100, refused: 50, unknown: 10, faults: 1}, faults, func() { resume(proxies) })
}

// blind is a store whose writes forget what they expect, and are honest otherwise.
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
	stores := open(t, 1, srv.Connect(t), []*nats.Conn{srv.Connect(t), srv.Connect(t)})
	kv, err := natslab.JetStream(t, srv.Connect(t)).KeyValue(natslab.Within(t), bucket)
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
				t.Errorf("it passed:\n%s", told(h))
			} else {
				t.Log(err)
			}
		})
	}
}
