package quorumstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
)

// A gate is one process's way to a member, which it polls.
type gate struct {
	store.Store
	cut      atomic.Bool
	readonly atomic.Bool
	delay    atomic.Int64
	most     atomic.Int64  // the size of the largest value that is taken, if not 0
	lost     atomic.Uint64 // the revision of writes that the member forgets at once; 0 if there are none
	writes   atomic.Int64

	state atomic.Int32 // of the connection

	mu    sync.Mutex
	moved []func(store.ConnState)
}

// gates returns one process's ways to members.
func gates(stores []*memstore.Store) (ways []*gate, members []quorumstore.Member) {
	for i, st := range stores {
		ways = append(ways, &gate{Store: st})
		members = append(members, quorumstore.Member{Name: "abc"[i : i+1], Store: ways[i]})
	}
	return ways, members
}

func (g *gate) pass(closed bool) error {
	time.Sleep(time.Duration(g.delay.Load())) // of virtual time
	if closed || g.cut.Load() {
		return fmt.Errorf("%w: cut", store.ErrTransient)
	}
	return nil
}

func (g *gate) Get(ctx context.Context, key string) (store.Entry, error) {
	if err := g.pass(false); err != nil {
		return store.Entry{}, err
	}
	return g.Store.Get(ctx, key)
}

func (g *gate) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if err := g.pass(g.readonly.Load()); err != nil {
		return 0, err
	}
	if most := g.most.Load(); most != 0 && len(w.Value) > int(most) {
		return 0, fmt.Errorf("%w: the value is too large", store.ErrPermanent)
	}
	if rev := g.lost.Load(); rev != 0 {
		return rev, nil
	}
	g.writes.Add(1)
	return g.Store.CompareAndSwap(ctx, w)
}

func (g *gate) ConnState() store.ConnState { return store.ConnState(g.state.Load()) }

func (g *gate) OnConnState(f func(store.ConnState)) (stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.moved = append(g.moved, f)
	return func() {}
}

// connection sets the state of the connection.
func (g *gate) connection(state store.ConnState) {
	g.state.Store(int32(state))
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.moved {
		f(state)
	}
}

func (g *gate) reconnect() {
	g.connection(store.Disconnected)
	g.connection(store.Connected)
}

// A wiped member counts its revisions from the beginning. Others bring it to the
// very revision that a process expects, over a value of which the process knows
// nothing. The process must have found out that the member was made again, in
// any of these ways; otherwise its write replaces that value, and one
// acknowledged write is lost.
func TestMemberThatWasMadeAgainIsReadBeforeItIsWritten(t *testing.T) {
	read := func(key string) func(*testing.T, *quorumstore.Store, []*gate) {
		return func(t *testing.T, s *quorumstore.Store, ways []*gate) {
			// c answers first, so that its answer is taken in.
			ways[0].delay.Store(int64(time.Millisecond))
			ways[1].delay.Store(int64(time.Millisecond))
			if _, err := s.Get(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			ways[0].delay.Store(0)
			ways[1].delay.Store(0)
		}
	}
	for name, learn := range map[string]func(*testing.T, *quorumstore.Store, []*gate){
		"a read of the key":        read("k"),
		"a read of another key":    read("other"),
		"a lost connection":        func(_ *testing.T, _ *quorumstore.Store, ways []*gate) { ways[2].reconnect() },
		"half a minute of silence": func(*testing.T, *quorumstore.Store, []*gate) { time.Sleep(31 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, stores := memories(3)
				ways, members := gates(stores)
				otherWays, otherMembers := gates(stores)
				s, other := open(t, members), open(t, otherMembers)
				if _, err := s.CompareAndSwap(t.Context(), store.Write{Key: "other"}); err != nil {
					t.Fatal(err)
				}
				rev := uint64(0)
				for i := range 6 {
					rev = write(t, s, rev, fmt.Sprint(i))
					synctest.Wait()
				}
				expected, _ := stores[2].Get(t.Context(), "k")
				stores[2].Restore(nil, 0)
				learn(t, s, ways)
				synctest.Wait()

				newest, c := rev, store.Entry{}
				for i := 0; c.Revision+1 < expected.Revision; i++ {
					newest = write(t, other, newest, fmt.Sprint("other", i))
					synctest.Wait()
					c, _ = stores[2].Get(t.Context(), "k")
				}
				otherWays[0].cut.Store(true)
				newest = write(t, other, newest, "acknowledged")
				if c, _ = stores[2].Get(t.Context(), "k"); c.Revision != expected.Revision {
					t.Fatalf("the member has revision %d, and %d is expected", c.Revision, expected.Revision)
				}

				ways[1].cut.Store(true)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if _, err := s.CompareAndSwap(ctx, store.Write{Key: "k", Expected: rev, Value: []byte("lost")}); err == nil {
					t.Error("a write over an older version was acknowledged")
				}
				shows(t, open(t, members), newest, "acknowledged") // by a and c
			})
		})
	}
}

// A member that counts from the beginning while a write is on its way has not
// voted.
func TestWriteWithoutAHigherRevisionIsNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, stores := memories(3)
		ways, members := gates(stores)
		s := open(t, members)
		rev := write(t, s, 0, "0")
		synctest.Wait()
		ways[1].cut.Store(true)
		ways[2].lost.Store(1)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if rev, err := s.CompareAndSwap(ctx, store.Write{Key: "k", Expected: rev}); err == nil {
			t.Errorf("the write was acknowledged with revision %d", rev)
		}
	})
}

// A renewal that finds a member without memory needs promises first: a second
// round. If the member refuses to be healed, only every other renewal does.
func TestMemberThatRefusesCostsFewSecondRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, stores := memories(3)
		ways, members := gates(stores)
		s := open(t, members)
		rev := write(t, s, 0, "0")
		ways[2].readonly.Store(true)
		stores[2].Restore(nil, 0)
		ways[2].reconnect()
		for range 3 { // in which it finds out
			rev = write(t, s, rev, "1")
			time.Sleep(2 * time.Second)
		}
		before := ways[0].writes.Load()
		for range 20 {
			rev = write(t, s, rev, "2")
			time.Sleep(time.Second)
		}
		if n := ways[0].writes.Load() - before; n > 32 {
			t.Errorf("%d writes of 20 renewals", n)
		}
	})
}

// Neither of two writers has the lead when it writes, and each has outbid the
// other since that drew its last ballot.
func TestWritersInTurnHealAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, stores := memories(3)
		ways, members := gates(stores)
		s, other, rev := open(t, members), open(t, members), uint64(0)
		for i := range 30 {
			wiped, n := i%3, 0
			for healed := false; !healed; n++ {
				if n == 100 {
					t.Fatalf("wipe %d: the member is not healed after %d writes", i, n)
				}
				s, other = other, s
				rev = write(t, s, rev, "v")
				synctest.Wait()
				states, err := s.Inspect(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				healed = states[wiped].Memory
			}
			stores[(i+1)%3].Restore(nil, 0)
			ways[(i+1)%3].reconnect()
		}
	})
}
