package quorumstore_test

import (
	"context"
	"fmt"
	"strings"
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
	flaky    atomic.Bool  // every other read fails
	reads    atomic.Int64 // while it is flaky
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
	if err := g.pass(g.flaky.Load() && g.reads.Add(1)%2 == 0); err != nil {
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

// A scene is a wiped member, c, that counts its revisions from the beginning.
// The process s expects a revision of it, and others are to bring c to this very
// revision.
type scene struct {
	stores   []*memstore.Store
	ways     []*gate // of s
	watches  []*echo // at a and c
	s        *quorumstore.Store
	rev      uint64 // the version that s knows
	expected store.Entry
}

// An echo is a gate whose watch reports what a test has it report.
type echo struct {
	*gate
	mu      sync.Mutex
	deliver func(store.Entry)
}

func (e *echo) Watch(_ context.Context, _ []string, deliver func(store.Entry)) (func(), error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deliver = deliver
	return func() {}, nil
}

func (e *echo) report(en store.Entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deliver(en)
}

func newScene(t *testing.T) *scene {
	sc := &scene{}
	_, sc.stores = memories(3)
	ways, members := gates(sc.stores)
	sc.ways, sc.watches = ways, []*echo{{gate: ways[0]}, {gate: ways[2]}}
	members[0].Store, members[2].Store = sc.watches[0], sc.watches[1]
	sc.s = open(t, members)
	if _, err := sc.s.CompareAndSwap(t.Context(), store.Write{Key: "other"}); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		sc.rev = write(t, sc.s, sc.rev, fmt.Sprint(i))
		synctest.Wait()
	}
	sc.expected, _ = sc.stores[2].Get(t.Context(), "k")
	return sc
}

// watch has s watch both keys, in which a and c are silent.
func (sc *scene) watch(t *testing.T) {
	go func() { // it begins when a and c report something
		if stop, err := sc.s.Watch(t.Context(), []string{"k", "other"}, func(store.Entry) {}); err == nil {
			t.Cleanup(stop)
		}
	}()
	time.Sleep(time.Second)
}

// read has s read a key, and c answer first, so that its answer is taken in.
func (sc *scene) read(t *testing.T, key string) {
	sc.ways[0].delay.Store(int64(time.Millisecond))
	sc.ways[1].delay.Store(int64(time.Millisecond))
	if _, err := sc.s.Get(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	sc.ways[0].delay.Store(0)
	sc.ways[1].delay.Store(0)
}

// overtake has others write until c contains, at the expected revision, a value
// that they acknowledged without a. Then s reaches a and c.
func (sc *scene) overtake(t *testing.T) (newest uint64) {
	ways, members := gates(sc.stores)
	other, c := open(t, members), store.Entry{}
	newest = sc.rev
	for i := 0; c.Revision+1 < sc.expected.Revision; i++ {
		newest = write(t, other, newest, fmt.Sprint("other", i))
		synctest.Wait()
		c, _ = sc.stores[2].Get(t.Context(), "k")
	}
	ways[0].cut.Store(true)
	newest = write(t, other, newest, "acknowledged")
	if c, _ = sc.stores[2].Get(t.Context(), "k"); c.Revision != sc.expected.Revision {
		t.Fatalf("the member has revision %d, and %d is expected", c.Revision, sc.expected.Revision)
	}
	for i, g := range sc.ways {
		g.cut.Store(i == 1)
	}
	return newest
}

// keeps requires that the newest value is still there, by a and c.
func (sc *scene) keeps(t *testing.T, newest uint64) {
	ways, members := gates(sc.stores)
	ways[1].cut.Store(true)
	shows(t, open(t, members), newest, "acknowledged")
}

// The process must have found out that the member was made again, in any of these
// ways; otherwise its write replaces the value, and an acknowledged write is lost.
func TestMemberThatWasMadeAgainIsReadBeforeItIsWritten(t *testing.T) {
	for name, learn := range map[string]func(*testing.T, *scene){
		"a read of the key":        func(t *testing.T, sc *scene) { sc.read(t, "k") },
		"a read of another key":    func(t *testing.T, sc *scene) { sc.read(t, "other") },
		"a lost connection":        func(_ *testing.T, sc *scene) { sc.ways[2].reconnect() },
		"half a minute of silence": func(*testing.T, *scene) { time.Sleep(31 * time.Second) },
		"a lost connection, and a report of before": func(_ *testing.T, sc *scene) {
			sc.ways[2].reconnect()
			sc.ways[2].cut.Store(true)
			sc.watches[1].report(sc.expected)
		},
		"a report about another key, and no answer": func(_ *testing.T, sc *scene) {
			sc.ways[2].cut.Store(true)
			sc.watches[1].report(store.Entry{Key: "other"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := newScene(t)
				if strings.Contains(name, "report") {
					sc.watch(t)
				}
				sc.stores[2].Restore(nil, 0)
				learn(t, sc)
				synctest.Wait()
				newest := sc.overtake(t)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if _, err := sc.s.CompareAndSwap(ctx, store.Write{Key: "k", Expected: sc.rev, Value: []byte("lost")}); err == nil {
					t.Error("a write over an older version was acknowledged")
				}
				sc.keeps(t, newest)
			})
		})
	}
}

// A call may last longer than what it knows.
func TestLongCallReadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := newScene(t)
		for _, g := range sc.ways {
			g.cut.Store(true)
		}
		ended := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			_, err := sc.s.CompareAndSwap(ctx, store.Write{Key: "k", Expected: sc.rev, Value: []byte("lost")})
			ended <- err
		}()
		time.Sleep(5 * time.Minute)
		sc.stores[2].Restore(nil, 0)
		newest := sc.overtake(t)
		if err := <-ended; err == nil {
			t.Error("a write over an older version was acknowledged")
		}
		sc.keeps(t, newest)
	})
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
