package consulstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/consul/consulstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/consullab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestWatching(t *testing.T) {
	t.Parallel()
	node := consullab.Start(t, 1).Nodes[0]
	for name, judge := range map[string]func(*testing.T, *consullab.Node){
		"ChangesAreHeardOfWithoutReads": withoutReads,
		"WatchesComeAndGo":              comeAndGo,
		"ManyKeysAreWatchedByOneQuery":  manyKeys,
	} {
		t.Run(name, func(t *testing.T) { judge(t, node) })
	}
}

// A poll would find each of the changes by a separate read.
func withoutReads(t *testing.T, node *consullab.Node) {
	r := newRelay(t, node.Addr)
	watching := by(t, r.addr, newPrefix())
	writing := by(t, node.Addr, watching.Prefix())
	one, all := trial.Listen(t, watching, "g"), trial.ListenPattern(t, watching, "g.>")
	before := r.served("read")
	var rev, below uint64
	const rounds = 50
	for i := range rounds {
		rev = trial.Must(t, writing, store.Write{Key: "g", Expected: rev, Value: fmt.Appendf(nil, "one %d", i), Tombstone: i%2 == 1})
		one.Value(fmt.Sprintf("one %d", i))
		below = trial.Must(t, writing, store.Write{Key: "g.x", Expected: below, Value: fmt.Appendf(nil, "all %d", i), Tombstone: i%2 == 1})
		all.Value(fmt.Sprintf("all %d", i))
	}
	reads := r.served("read") - before
	t.Logf("%d writes were heard of with %d reads", 2*rounds, reads)
	if reads > rounds/2 {
		t.Errorf("%d writes took %d reads", 2*rounds, reads)
	}
}

func becomes(t *testing.T, s *consulstore.Store, want store.ConnState) {
	t.Helper()
	natslab.Eventually(t, want.String(), func(context.Context) error {
		if c := s.ConnState(); c != want {
			return errors.New(c.String())
		}
		return nil
	})
}

// A frozen agent keeps its connections, so only the silence reveals it. Reads
// do not help here, for they wait as well.
func TestASilentAgentIsGivenUp(t *testing.T) {
	t.Parallel()
	node := consullab.Start(t, 1).Nodes[0]
	s := open(t, node.Client(t), consulstore.Options{Prefix: newPrefix(), Timeout: time.Hour})
	h := trial.Listen(t, s, "g")
	rev := trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	h.Value("1")
	becomes(t, s, store.Connected)
	node.Freeze()
	becomes(t, s, store.Disconnected)
	node.Thaw()
	becomes(t, s, store.Connected)
	h.Value("1") // once more
	trial.Settle(t, s, "g", rev, "2")
	h.Value("2")
}

// Silence while nothing changes does not mean that the agent is dead.
func TestAnIdleQueryIsKept(t *testing.T) {
	t.Parallel()
	node := consullab.Start(t, 1).Nodes[0]
	s := by(t, node.Addr, newPrefix())
	h := trial.Listen(t, s, "g")
	h.Until("nothing", func(e store.Entry) bool { return e.Revision == 0 })
	trial.StaysConnected(t, s, 4*time.Second) // longer than a query waits
	trial.Must(t, s, store.Write{Key: "g", Value: []byte("1")})
	h.Value("1")
}

// The set of watched keys changes while queries wait.
func comeAndGo(t *testing.T, node *consullab.Node) {
	s := by(t, node.Addr, newPrefix())
	trial.WatchesComeAndGo(t, s, by(t, node.Addr, s.Prefix()))
}

// An agent allows a client 200 connections, and each query has one.
func manyKeys(t *testing.T, node *consullab.Node) {
	r := newRelay(t, node.Addr)
	s := by(t, r.addr, newPrefix())
	writing := by(t, node.Addr, s.Prefix())
	var all []*trial.Heard
	for i := range 100 {
		all = append(all, trial.Listen(t, s, fmt.Sprintf("k%d", i)))
	}
	for i, h := range all {
		key := fmt.Sprintf("k%d", i)
		rev := trial.Must(t, writing, store.Write{Key: key, Value: []byte("1")})
		h.Value("1")
		if i%10 == 0 {
			trial.Must(t, writing, store.Write{Key: key, Expected: rev, Value: []byte("2")})
			h.Value("2")
		}
	}
	if n := r.most("blocking"); n >= len(all) { // those that were given up may not have noticed yet
		t.Errorf("%d queries have waited at a time for 100 keys", n)
	}
	// Only the first of them has its own query again.
	few := by(t, r.addr, s.Prefix())
	h := trial.Listen(t, few, "k0")
	h.Value("2")
	trial.Must(t, writing, store.Write{Key: "k0", Expected: trial.Get(t, few, "k0").Revision, Value: []byte("3")})
	h.Value("3")
	all[0].Value("3")
}
