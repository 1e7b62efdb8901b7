package trial

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/histories"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var (
	short = flag.Int("histories", 300, "how many histories without faults to record and judge")
	seed  = flag.Uint64("seed", 0, "seed of the first history; 0: any")
)

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
type tally struct{ writes, won, refused, unsure atomic.Int64 }

func (c *tally) add(h *histories.History) {
	c.writes.Add(int64(h.Count()))
	c.won.Add(int64(h.Count(store.OK)))
	c.refused.Add(int64(h.Count(store.Conflict)))
	c.unsure.Add(int64(h.Count(store.Unknown)))
}

// Histories records and judges as many histories as the flag -histories says, so
// many at a time, each of 40 writes over two keys of its own. open returns the
// stores of one side, which contend with each other; the sides may share
// registers.
func Histories(t *testing.T, judge histories.Judge, sides int, open func(side int) []store.Store) {
	t.Helper()
	first := firstSeed(t)
	var total tally
	var taken atomic.Int64
	var all sync.WaitGroup
	for side := range sides {
		stores := open(side)
		all.Go(func() {
			for n := taken.Add(1); n <= int64(*short); n = taken.Add(1) {
				h := contend(t, stores, first+uint64(n), 40)
				total.add(h)
				verdict(t, judge, h)
			}
		})
	}
	all.Wait()
	writes, unsure := total.writes.Load(), total.unsure.Load()
	t.Logf("%d histories, %d writes: %d acknowledged, %d conflicts, %d unknown", *short, writes, total.won.Load(), total.refused.Load(), unsure)
	if unsure*100 >= writes || total.won.Load() == 0 || total.refused.Load() == 0 {
		t.Error("without faults these show too little")
	}
}

// traffic has a client on each store write the keys until end is called.
func traffic(t *testing.T, stores []store.Store, keys []string, seed uint64) (h *histories.History, clients []*histories.Client, end func()) {
	t.Helper()
	h = histories.New()
	for i, st := range stores {
		clients = append(clients, h.Client(i, st))
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { histories.Contend(ctx, clients, keys, seed) })
	return h, clients, func() { stop(); all.Wait() }
}

// contend records a history of at least so many writes over two keys.
func contend(t *testing.T, stores []store.Store, seed uint64, writes int) *histories.History {
	t.Helper()
	keys := []string{fmt.Sprintf("a%d", seed), fmt.Sprintf("b%d", seed)}
	h, clients, end := traffic(t, stores, keys, seed)
	for limit := time.Now().Add(natslab.Patience); h.Count() < writes && time.Now().Before(limit); {
		<-time.After(2 * time.Millisecond)
	}
	end()
	if err := histories.Settle(Within(t), clients[0], keys); err != nil {
		t.Errorf("the keys do not settle: %v", err)
	}
	return h
}

// verdict has the history judged, and shows one that no store tells.
func verdict(t *testing.T, judge histories.Judge, h *histories.History) {
	t.Helper()
	err := judge.Verdict(h.Ops())
	if err == nil {
		return
	}
	var calls strings.Builder
	if ops := h.Ops(); len(ops) <= 1000 {
		for _, o := range ops {
			fmt.Fprintln(&calls, o)
		}
	}
	t.Errorf("%v\n%s", err, &calls)
}

// A Fault is something that goes wrong for a while, and is over when Happen
// returns.
type Fault struct {
	Name   string
	Happen func(r *rand.Rand)
}

// Last lets a fault last, for up to so many milliseconds.
func Last(r *rand.Rand, ms int) { <-time.After(time.Duration(1+r.IntN(ms)) * time.Millisecond) }

// Spoil returns the faults of a way to a server, each of which meets one of the
// proxies.
func Spoil(proxies ...*natslab.Proxy) []Fault {
	spoil := func(name string, ms int, begin, end func(*natslab.Proxy)) Fault {
		return Fault{name, func(r *rand.Rand) {
			p := proxies[r.IntN(len(proxies))]
			begin(p)
			Last(r, ms)
			end(p)
			p.Resume()
		}}
	}
	resume := (*natslab.Proxy).Resume
	return []Fault{
		spoil("connections are reset", 1, (*natslab.Proxy).Reset, resume),
		spoil("nobody can connect", 100, (*natslab.Proxy).Cut, resume),
		spoil("answers are held and lost", 700, func(p *natslab.Proxy) { p.Hold(natslab.ToClient) }, (*natslab.Proxy).Reset),
		spoil("calls are held and lost", 300, func(p *natslab.Proxy) { p.Hold(natslab.ToServer) }, (*natslab.Proxy).Reset),
		// For longer than a call of a client takes.
		spoil("calls come late", 700, func(p *natslab.Proxy) { p.Hold(natslab.ToServer) }, resume),
	}
}

// Faulted is what a history with faults is recorded of.
type Faulted struct {
	// Stores share registers. The last settles them when the faults are over.
	Stores []store.Store
	Faults []Fault
	// Rounds is how often each fault happens, in an order of the seed. The
	// default is once.
	Rounds int
	// Keys is how many registers are written, 3 by default. Of a store that many
	// a fault leaves in doubt it takes more: each write of unknown outcome may be
	// anywhere in its register's order, so that many of one take long to judge.
	Keys int
}

// HistoryWithFaults records and judges one history while faults happen.
func HistoryWithFaults(t *testing.T, judge histories.Judge, f Faulted) {
	t.Helper()
	n := firstSeed(t)
	r := rand.New(rand.NewPCG(n, 1))
	if f.Keys == 0 {
		f.Keys = 3
	}
	var keys []string
	for i := range f.Keys {
		keys = append(keys, fmt.Sprint("k", i))
	}
	h, clients, end := traffic(t, f.Stores, keys, n)
	for range max(f.Rounds, 1) {
		r.Shuffle(len(f.Faults), func(i, j int) { f.Faults[i], f.Faults[j] = f.Faults[j], f.Faults[i] })
		for _, fault := range f.Faults {
			fault.Happen(r)
			// Until work goes on: the next fault is to meet some.
			before := h.Count(store.OK)
			Await(t, "writes are acknowledged after: "+fault.Name, func() bool { return h.Count(store.OK) >= before+10 })
		}
	}
	end()
	if err := histories.Settle(Within(t), clients[len(clients)-1], keys); err != nil {
		t.Fatalf("the keys do not settle: %v", err)
	}
	t.Logf("%d writes: %d acknowledged, %d conflicts, %d unknown, %d without effect", h.Count(), h.Count(store.OK),
		h.Count(store.Conflict), h.Count(store.Unknown), h.Count(store.Transient, store.Permanent))
	if h.Count(store.Unknown) == 0 || h.Count(store.Conflict) == 0 {
		t.Error("the faults met no write")
	}
	verdict(t, judge, h)
}
