package trial

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// noticing is how long Noticed waits for a store that does not look, and so
// never notices anything. A store that looks each 20 ms looks twenty times
// meanwhile.
const noticing = 400 * time.Millisecond

// Opened are the stores that a harness has opened. The zero value has none.
type Opened struct {
	mu     sync.Mutex
	stores []store.Store
}

// Add takes a store in, and returns it.
func (o *Opened) Add(s store.Store) store.Store {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stores = append(o.stores, s)
	return s
}

// Noticed waits until each of the stores has noticed that it is cut off. An
// interruption between two looks of a store that goes by the clock is none.
func (o *Opened) Noticed() {
	o.mu.Lock()
	stores := slices.Clone(o.stores)
	o.mu.Unlock()
	connected := func(s store.Store) bool {
		c, ok := s.(store.ConnReporter)
		return !ok || c.ConnState() == store.Connected
	}
	for deadline := time.Now().Add(noticing); time.Now().Before(deadline) && slices.ContainsFunc(stores, connected); {
		<-time.After(time.Millisecond)
	}
}

// Cut returns a function that breaks all connections of the proxies, and lets
// nobody connect for a while. A client connects when it is first used: one that
// has not done so would notice nothing of a shorter interruption.
func Cut(proxies ...*natslab.Relay) func() error {
	return func() error {
		for _, p := range proxies {
			p.Cut()
		}
		<-time.After(200 * time.Millisecond) // this is the fault, not a wait for something
		for _, p := range proxies {
			p.Resume()
		}
		return nil
	}
}

// ComesTo waits until the store reports that its connection is in the state.
func ComesTo(tb testing.TB, s store.ConnReporter, want store.ConnState) {
	tb.Helper()
	Await(tb, want.String(), func() bool { return s.ConnState() == want })
}

// StaysConnected demands that a store whose server is sound stays connected for
// so long, though nothing happens. A machine that stalls meanwhile makes a
// server silent, and the store gives it up, rightly: so it has five tries.
func StaysConnected(tb testing.TB, s store.ConnReporter, long time.Duration) {
	tb.Helper()
	for range 5 {
		ComesTo(tb, s, store.Connected)
		var lost atomic.Bool
		stop := s.OnConnState(func(c store.ConnState) {
			if c != store.Connected {
				lost.Store(true)
			}
		})
		<-time.After(long) // this is what is judged
		stop()
		if !lost.Load() {
			return
		}
		tb.Log("the connection was given up")
	}
	tb.Errorf("of five times the connection was given up each time within %v", long)
}
