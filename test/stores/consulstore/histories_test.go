package consulstore_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/consulstore"
	"github.com/seed-ff2cb582/leader/test/histories"
	"github.com/seed-ff2cb582/leader/test/natslab"
	"github.com/seed-ff2cb582/leader/test/stores/consullab"
)

var (
	short = flag.Int("histories", 300, "how many short histories to record and judge")
	seed  = flag.Uint64("seed", 0, "seed of the first history; 0: any")
)

// judge takes conflicts into the order: Consul decides them in the order of its writes.
var judge = histories.Judge{CurrentConflicts: true}

func firstSeed(t *testing.T) uint64 {
	t.Helper()
	n := *seed
	if n == 0 {
		n = rand.Uint64()
	}
	t.Logf("replay the order of calls with -args -seed=%d", n)
	return n
}

// Short histories, several at a time, each with keys of its own.
func TestShortHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	cluster := consullab.Start(t, 1)
	const sides = 6
	first := firstSeed(t)
	var writes, won, refused, unsure, taken atomic.Int64
	var all sync.WaitGroup
	for range sides {
		var stores []store.Store
		for range 3 {
			stores = append(stores, open(t, cluster.Nodes[0].Client(t), consulstore.Options{}))
		}
		all.Go(func() {
			for n := taken.Add(1); n <= int64(*short); n = taken.Add(1) {
				h := contend(t, stores, first+uint64(n), 40)
				writes.Add(int64(h.Count()))
				won.Add(int64(h.Count(store.OK)))
				refused.Add(int64(h.Count(store.Conflict)))
				unsure.Add(int64(h.Count(store.Unknown)))
				if err := judge.Verdict(h.Ops()); err != nil {
					t.Errorf("history %d: %v\n%v", n, err, h.Ops())
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d histories, %d writes: %d acknowledged, %d conflicts, %d unknown", *short, writes.Load(), won.Load(), refused.Load(), unsure.Load())
	if unsure.Load()*100 >= writes.Load() || won.Load() == 0 || refused.Load() == 0 {
		t.Error("without faults these show too little")
	}
}

// contend records a history of at least so many writes over two keys.
func contend(t *testing.T, stores []store.Store, seed uint64, writes int) *histories.History {
	t.Helper()
	h := histories.New()
	clients := make([]*histories.Client, len(stores))
	for i, st := range stores {
		clients[i] = h.Client(i, st)
	}
	keys := []string{fmt.Sprintf("a%d", seed), fmt.Sprintf("b%d", seed)}
	ctx, stop := context.WithCancel(t.Context())
	var traffic sync.WaitGroup
	traffic.Go(func() { histories.Contend(ctx, clients, keys, seed) })
	for limit := time.Now().Add(natslab.Patience); h.Count() < writes && time.Now().Before(limit); {
		<-time.After(2 * time.Millisecond)
	}
	stop()
	traffic.Wait()
	if err := histories.Settle(natslab.Within(t), clients[0], keys); err != nil {
		t.Errorf("the keys do not settle: %v", err)
	}
	return h
}

// A fault is something that goes wrong for a while.
type fault struct {
	name   string
	happen func(r *rand.Rand)
}

func TestAHistoryWithFaultsIsLinearizable(t *testing.T) {
	t.Parallel()
	cluster := consullab.Start(t, 1)
	node := cluster.Nodes[0]
	proxies := []*natslab.Proxy{natslab.NewProxy(t, node.Addr), natslab.NewProxy(t, node.Addr), natslab.NewProxy(t, node.Addr)}
	var stores []store.Store
	for _, p := range proxies {
		stores = append(stores, open(t, consullab.Client(t, p.Addr(), consullab.Root), consulstore.Options{}))
	}
	stores = append(stores, open(t, cluster.Nodes[0].Client(t), consulstore.Options{}))
	some := func(r *rand.Rand) *natslab.Proxy { return proxies[r.IntN(len(proxies))] }
	inflict(t, stores, 8, []fault{
		{"freeze", func(r *rand.Rand) { node.Pause(); last(r, 700); node.Resume() }},
		{"kill -9 and restart", func(r *rand.Rand) { node.Kill(); last(r, 100); cluster.Run() }},
		{"connections are reset", func(r *rand.Rand) { some(r).Reset() }},
		{"answers are held and lost", func(r *rand.Rand) { p := some(r); p.Hold(natslab.ToClient); last(r, 700); p.Reset(); p.Resume() }},
		{"calls are held and lost", func(r *rand.Rand) { p := some(r); p.Hold(natslab.ToServer); last(r, 300); p.Reset(); p.Resume() }},
		{"calls come late", func(r *rand.Rand) { p := some(r); p.Hold(natslab.ToServer); last(r, 700); p.Resume() }},
	})
}

func TestAHistoryWithFaultsOfAClusterIsLinearizable(t *testing.T) {
	t.Parallel()
	cluster := consullab.Start(t, 3)
	var stores []store.Store
	for i := range 4 { // two by the same
		stores = append(stores, open(t, cluster.Nodes[i%3].Client(t), consulstore.Options{}))
	}
	some := func(r *rand.Rand) *consullab.Node { return cluster.Nodes[r.IntN(3)] }
	inflict(t, stores, 24, []fault{
		{"the leader is frozen", func(r *rand.Rand) { n := cluster.Leader(); n.Pause(); last(r, 1500); n.Resume() }},
		{"the leader is killed", func(r *rand.Rand) { n := cluster.Leader(); n.Kill(); last(r, 500); cluster.Run() }},
		{"a member is frozen", func(r *rand.Rand) { n := some(r); n.Pause(); last(r, 700); n.Resume() }},
		{"two members are killed", func(r *rand.Rand) {
			i := r.IntN(3)
			cluster.Nodes[i].Kill()
			cluster.Nodes[(i+1)%3].Kill()
			last(r, 500)
			cluster.Run()
		}},
	})
}

// last lets a fault last, for up to so many milliseconds.
func last(r *rand.Rand, ms int) { <-time.After(time.Duration(1+r.IntN(ms)) * time.Millisecond) }

// inflict records a history with the faults, each of them once and in an order of the seed, and judges it. It needs so many
// keys that few of each one's writes have an unknown outcome: each of those may be anywhere in the order.
func inflict(t *testing.T, stores []store.Store, width int, faults []fault) {
	t.Helper()
	n := firstSeed(t)
	r := rand.New(rand.NewPCG(n, 1))
	h := histories.New()
	var clients []*histories.Client
	for i, st := range stores {
		clients = append(clients, h.Client(i, st))
	}
	var keys []string
	for i := range width {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	ctx, stop := context.WithCancel(t.Context())
	var traffic sync.WaitGroup
	traffic.Go(func() { histories.Contend(ctx, clients, keys, n) })
	r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	for _, f := range faults {
		f.happen(r)
		// Until work goes on: the next fault is to meet some.
		before := h.Count(store.OK)
		natslab.Eventually(t, "writes are acknowledged after: "+f.name, func(context.Context) error {
			if h.Count(store.OK) < before+10 {
				return fmt.Errorf("%d", h.Count(store.OK)-before)
			}
			return nil
		})
	}
	stop()
	traffic.Wait()
	if err := histories.Settle(natslab.Within(t), clients[len(clients)-1], keys); err != nil {
		t.Fatalf("the keys do not settle: %v", err)
	}
	t.Logf("%d writes: %d acknowledged, %d conflicts, %d unknown, %d without effect", h.Count(), h.Count(store.OK),
		h.Count(store.Conflict), h.Count(store.Unknown), h.Count(store.Transient, store.Permanent))
	if h.Count(store.Unknown) == 0 || h.Count(store.Conflict) == 0 {
		t.Error("the faults met no write")
	}
	if err := judge.Verdict(h.Ops()); err != nil {
		t.Error(err)
	}
}
