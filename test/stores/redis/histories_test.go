package redis_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/test/databases"
	"github.com/seed-ff2cb582/leader/test/histories"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var rounds = flag.Int("histories", 300, "how many histories without faults to record and judge")

// short is how long the clients of one history contend.
const short = 60 * time.Millisecond

// contend has clients write three keys while the faults happen, and returns the
// history, which is settled by the last client when heal has ended all faults.
func contend(t *testing.T, stores []store.Store, seed uint64, faults, heal func()) *histories.History {
	t.Helper()
	h := histories.New()
	clients := make([]*histories.Client, len(stores))
	for i, st := range stores {
		clients[i] = h.Client(i, st)
	}
	keys := []string{fmt.Sprintf("a%d", seed), fmt.Sprintf("b%d", seed), fmt.Sprintf("c%d", seed)}
	ctx, stop := context.WithCancel(t.Context())
	var traffic sync.WaitGroup
	traffic.Go(func() { histories.Contend(ctx, clients, keys, seed) })
	faults()
	stop()
	traffic.Wait()
	heal()
	if err := histories.Settle(within(t), clients[len(clients)-1], keys); err != nil {
		t.Fatalf("the keys do not settle: %v", err)
	}
	// A conflict tells of the register as it was during the call: there is one
	// server, whose reads and writes are in one order.
	if err := (histories.Judge{CurrentConflicts: true}).Verdict(h.Ops()); err != nil {
		t.Errorf("seed %d: %v", seed, err)
		for _, o := range h.Ops() {
			t.Log(o)
		}
	}
	return h
}

func TestRedisIsLinearizable(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	const lanes = 4
	var mu sync.Mutex
	writes, unknown := 0, 0
	var all sync.WaitGroup
	for lane := range lanes {
		stores := make([]store.Store, 4)
		for i := range stores {
			stores[i] = over(t, dial(t, srv.Addr()), redisstore.Options{Prefix: fmt.Sprintf("lane%d:", lane)})
		}
		all.Go(func() {
			for range *rounds / lanes {
				h := contend(t, stores, rand.Uint64(), func() { <-time.After(short) }, func() {})
				mu.Lock()
				writes, unknown = writes+h.Count(), unknown+h.Count(store.Unknown)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d histories: %d writes, %d of unknown outcome", *rounds/lanes*lanes, writes, unknown)
	if unknown*100 > writes {
		t.Errorf("%d of %d writes were of unknown outcome without a fault", unknown, writes)
	}
}

func TestRedisIsLinearizableUnderFaults(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	proxy := natslab.NewProxy(t, srv.Addr())
	var stores []store.Store
	for range 4 {
		stores = append(stores, over(t, dial(t, proxy.Addr()), redisstore.Options{}))
	}
	stores = append(stores, over(t, dial(t, srv.Addr()), redisstore.Options{}))
	faults := []func(){
		func() { srv.Freeze(); <-time.After(600 * time.Millisecond); srv.Thaw() }, // longer than a call
		func() { srv.Kill(); srv.Run() },
		func() { proxy.Cut(); <-time.After(50 * time.Millisecond); proxy.Resume() },
		func() { proxy.Reset() },
		func() {
			proxy.Hold(natslab.ToClient)
			<-time.After(100 * time.Millisecond)
			proxy.Reset()
			proxy.Resume()
		},
		func() { proxy.Hold(natslab.ToServer); <-time.After(600 * time.Millisecond); proxy.Resume() },
	}
	writes, unknown := 0, 0
	for range 3 {
		rand.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		h := contend(t, stores, rand.Uint64(), func() {
			for _, fault := range faults {
				<-time.After(short)
				fault()
			}
			<-time.After(short)
		}, proxy.Resume)
		writes, unknown = writes+h.Count(), unknown+h.Count(store.Unknown)
	}
	t.Logf("%d writes, %d of unknown outcome", writes, unknown)
	if unknown == 0 {
		t.Error("no fault met a write")
	}
}
