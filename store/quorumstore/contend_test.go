package quorumstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
)

// slow returns three stores that answer within twice the delay. hear, optional,
// receives each call.
func slow(t *testing.T, delay time.Duration, hear func(faultstore.Call)) (faults [3]*faultstore.Faults) {
	for i := range faults {
		late := faultstore.Random(uint64(i), faultstore.Rates{Delay: delay})
		faults[i] = faultstore.New(faultstore.Options{Policy: func(c faultstore.Call) faultstore.Fate {
			if hear != nil {
				hear(c)
			}
			return late(c)
		}})
		t.Cleanup(faults[i].Close)
	}
	return faults
}

// clients returns the members as process p reaches them.
func clients(faults [3]*faultstore.Faults, p int) (members []quorumstore.Member) {
	for i, f := range faults {
		members = append(members, quorumstore.Member{Name: "abc"[i : i+1], Store: f.Client(fmt.Sprint(p))})
	}
	return members
}

// TestContendersLearnWhatBecameOfTheirWrites has processes write one key, over
// members that answer within 2 ms. Without a fault hardly any write may be of
// unknown outcome.
func TestContendersLearnWhatBecameOfTheirWrites(t *testing.T) {
	for _, n := range []int{2, 4, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { contend(t, n) }) })
	}
}

func contend(t *testing.T, n int) {
	faults := slow(t, time.Millisecond, nil)
	var ended [5]atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for p := range n {
		s := open(t, clients(faults, p))
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(p)))
			for range 300 {
				time.Sleep(time.Duration(r.IntN(int(5 * time.Millisecond)))) // in virtual time
				e, err := s.Get(ctx, "k")
				if err != nil {
					t.Errorf("Get: %v", err)
					return
				}
				_, err = s.CompareAndSwap(ctx, store.Write{Key: "k", Expected: e.Revision})
				ended[store.Classify(err)].Add(1)
			}
		})
	}
	all.Wait()
	ok, unknown, writes := ended[store.OK].Load(), ended[store.Unknown].Load(), int64(300*n)
	t.Logf("%d writes: %d acknowledged, %d conflicts, %d unknown", writes, ok, ended[store.Conflict].Load(), unknown)
	if unknown*100 >= writes {
		t.Errorf("%d of %d writes are of unknown outcome; want less than 1 in 100", unknown, writes)
	}
}

// TestManyFirstWritesEndSoon has processes write the first value of a key at
// the same time. Each founds the key, for which it needs the promises of all
// members over what it saw there.
func TestManyFirstWritesEndSoon(t *testing.T) {
	for _, c := range []struct {
		processes int
		delay     time.Duration
	}{{100, time.Millisecond}, {200, 20 * time.Millisecond}} {
		t.Run(fmt.Sprint(c.processes, " within ", c.delay), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				faults := slow(t, c.delay, nil)
				var won atomic.Int64
				var all sync.WaitGroup
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				for p := range c.processes {
					s := open(t, clients(faults, p))
					all.Go(func() {
						if _, err := s.CompareAndSwap(ctx, store.Write{Key: "k"}); err == nil {
							won.Add(1)
							t.Logf("written after %v", time.Since(began))
						}
					})
				}
				all.Wait()
				t.Logf("all ended after %v", time.Since(began))
				if won.Load() != 1 || ctx.Err() != nil {
					t.Errorf("of %d first writes %d succeeded, and the last ended after %v; want one, and all within a minute", c.processes, won.Load(), time.Since(began))
				}
			})
		})
	}
}

// TestFirstWriteEndsWhileOthersBegin has a process begin to write the first value
// of a key every 2 ms, over members that answer within 20 ms and are prepared for
// it. All watch the key. Whoever begins later must not end the first attempts.
func TestFirstWriteEndsWhileOthersBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes, won atomic.Int64
		faults := slow(t, 20*time.Millisecond, func(c faultstore.Call) {
			if c.Op == faultstore.CompareAndSwap {
				writes.Add(1)
			}
		})
		var stores []*quorumstore.Store
		for p := range 200 {
			s := open(t, clients(faults, p))
			stop, err := s.Watch(t.Context(), []string{"k"}, func(store.Entry) {})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stop)
			stores = append(stores, s)
		}
		if _, err := stores[0].Check(t.Context(), store.CheckRequest{Reads: []string{"k"}}); err != nil {
			t.Fatal(err)
		}
		writes.Store(0)
		var all sync.WaitGroup
		began := time.Now()
		for i, s := range stores {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 2 * time.Millisecond) // in virtual time
				if _, err := s.CompareAndSwap(t.Context(), store.Write{Key: "k"}); err == nil {
					won.Add(1)
					t.Logf("written after %v, with %d writes to the members", time.Since(began), writes.Load())
				}
			})
		}
		all.Wait()
		if n := writes.Load(); won.Load() != 1 || n > 100 {
			t.Errorf("%d first writes succeeded, with %d writes to the members; want one, with at most 100", won.Load(), n)
		}
	})
}

// TestManyChecksPrepareAKeyOnce has processes check the store at the same time,
// as the candidates of a new group do when they start together.
func TestManyChecksPrepareAKeyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int64
		faults := slow(t, time.Millisecond, func(c faultstore.Call) {
			if c.Op == faultstore.CompareAndSwap {
				writes.Add(1)
			}
		})
		var all sync.WaitGroup
		for p := range 200 {
			s := open(t, clients(faults, p))
			all.Go(func() {
				if r, err := s.Check(t.Context(), store.CheckRequest{Reads: []string{"k"}}); err != nil || len(r.Warnings) > 0 {
					t.Errorf("Check: %v, %q", err, r.Warnings)
				}
			})
		}
		all.Wait()
		// Three promises and three values are needed.
		if n := writes.Load(); n > 200 {
			t.Errorf("%d writes to the members; want at most 200", n)
		} else {
			t.Logf("%d writes to the members", n)
		}
	})
}

// TestCallGoesOnWhenAMajorityIsBack has a call wait for members that refuse all
// requests. It goes on soon after they are back, however long that took.
func TestCallGoesOnWhenAMajorityIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		var faults [3]*faultstore.Faults
		for i := range faults {
			faults[i] = faultstore.New(faultstore.Options{Policy: func(faultstore.Call) faultstore.Fate {
				return faultstore.Fate{Refuse: away.Load()}
			}})
			t.Cleanup(faults[i].Close)
		}
		s := open(t, clients(faults, 0))
		rev := write(t, s, 0, "first")
		for range 20 {
			away.Store(true)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				rev = write(t, s, rev, "later")
			}()
			time.Sleep(10 * time.Second)
			away.Store(false)
			for _, f := range faults {
				f.Report(store.Disconnected, "0")
				f.Report(store.Connected, "0")
			}
			back := time.Now()
			<-ended
			if took := time.Since(back); took > 300*time.Millisecond {
				t.Errorf("the call ended %v after the members were back", took)
			}
		}
	})
}
