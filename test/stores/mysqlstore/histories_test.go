package mysqlstore_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/databases"
	"github.com/seed-ff2cb582/leader/test/histories"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var (
	short = flag.Int("histories", 300, "how many short histories to record and judge")
	seed  = flag.Uint64("seed", 0, "seed of the first history; 0: any")
)

// judge takes conflicts into the order: an update reads what is committed.
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

// A tally counts the writes of many histories.
type tally struct {
	mu                           sync.Mutex
	writes, won, refused, unsure int
}

func (c *tally) add(h *histories.History) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes += h.Count()
	c.won += h.Count(store.OK)
	c.refused += h.Count(store.Conflict)
	c.unsure += h.Count(store.Unknown)
}

// Short histories, several at a time, each with keys of its own.
func TestShortHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	const sides = 8
	first := firstSeed(t)
	var total tally
	var next sync.Mutex
	left := *short
	var all sync.WaitGroup
	for range sides {
		stores := []store.Store{made(t, url(srv), table), open(t, url(srv), table), open(t, url(srv), table)}
		all.Go(func() {
			for {
				next.Lock()
				n := left
				left--
				next.Unlock()
				if n <= 0 {
					return
				}
				h := contend(t, stores, first+uint64(n), 40)
				total.add(h)
				if err := judge.Verdict(h.Ops()); err != nil {
					t.Errorf("history %d: %v\n%v", n, err, h.Ops())
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d histories, %d writes: %d acknowledged, %d conflicts, %d unknown", *short, total.writes, total.won, total.refused, total.unsure)
	if total.unsure*100 >= total.writes || total.won == 0 || total.refused == 0 {
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
	for limit := time.Now().Add(databases.Patience); h.Count() < writes && time.Now().Before(limit); {
		<-time.After(2 * time.Millisecond)
	}
	stop()
	traffic.Wait()
	if err := histories.Settle(within(t), clients[0], keys); err != nil {
		t.Errorf("the keys do not settle: %v", err)
	}
	return h
}

func TestAHistoryWithFaultsIsLinearizable(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	sound := made(t, url(srv), table)
	var proxies []*natslab.Proxy
	var stores []store.Store
	for range 4 {
		p := natslab.NewProxy(t, srv.Addr())
		proxies = append(proxies, p)
		stores = append(stores, open(t, srv.URL("lab", p.Addr()), table))
	}
	n := firstSeed(t)
	r := rand.New(rand.NewPCG(n, 1))
	h := histories.New()
	var clients []*histories.Client
	for i, st := range append(stores, sound) {
		clients = append(clients, h.Client(i, st))
	}
	keys := []string{"a", "b", "c"}
	ctx, stop := context.WithCancel(t.Context())
	var traffic sync.WaitGroup
	traffic.Go(func() { histories.Contend(ctx, clients, keys, n) })
	some := func() *natslab.Proxy { return proxies[r.IntN(len(proxies))] }
	faults := []struct {
		name   string
		happen func()
	}{
		{"freeze", func() { srv.Freeze(); pause(r, 600); srv.Thaw() }},
		{"kill -9 and restart", func() { srv.Kill(); pause(r, 100); srv.Run() }},
		{"connections are reset", func() { some().Reset() }},
		{"answers are held", func() { p := some(); p.Hold(natslab.ToClient); pause(r, 700); p.Reset(); p.Resume() }},
		{"calls are held and lost", func() { p := some(); p.Hold(natslab.ToServer); pause(r, 300); p.Reset(); p.Resume() }},
		{"sessions are killed", func() { srv.Exec("KILL SOFT USER lab@'%'") }},
	}
	for range 2 {
		r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		for _, f := range faults {
			f.happen()
			before := h.Count(store.OK)
			natslab.Eventually(t, "writes are acknowledged after "+f.name, func(context.Context) error {
				if h.Count(store.OK) < before+10 {
					return fmt.Errorf("%d", h.Count(store.OK)-before)
				}
				return nil
			})
		}
	}
	stop()
	traffic.Wait()
	if err := histories.Settle(within(t), clients[len(clients)-1], keys); err != nil {
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

// pause lets a fault last, for up to so many milliseconds.
func pause(r *rand.Rand, ms int) { <-time.After(time.Duration(1+r.IntN(ms)) * time.Millisecond) }
