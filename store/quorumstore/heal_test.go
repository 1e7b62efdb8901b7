package quorumstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/store/quorumstore"
)

// A reporter is a gate that reports changes, also while it is closed.
type reporter struct {
	*gate
	of *memstore.Store
}

func (r reporter) Watch(ctx context.Context, keys []string, deliver func(store.Entry)) (func(), error) {
	return r.of.Watch(ctx, keys, deliver)
}

// reporters returns one process's ways to members that report changes.
func reporters(stores []*memstore.Store) (ways []*gate, members []quorumstore.Member) {
	ways, members = gates(stores)
	for i := range members {
		members[i].Store = reporter{ways[i], stores[i]}
	}
	return ways, members
}

// The first key that shows the wipe has the others doubted, whose member is the
// last to answer.
func TestEachIdleKeyOfAWipedMemberIsHealed(t *testing.T) {
	t.Run("one key", func(t *testing.T) { idleKeysAreHealed(t, 1) })
	t.Run("five keys", func(t *testing.T) { idleKeysAreHealed(t, 5) })
}

func idleKeysAreHealed(t *testing.T, n int) {
	synctest.Test(t, func(t *testing.T) {
		_, stores := memories(3)
		ways, members := reporters(stores)
		ways[1].delay.Store(int64(5 * time.Millisecond))
		var keys []string
		for i := range n {
			keys = append(keys, fmt.Sprint("k", i))
			if _, err := open(t, members).CompareAndSwap(t.Context(), store.Write{Key: keys[i], Value: []byte("v")}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		listen(t, open(t, members), keys...)
		time.Sleep(time.Minute)
		stores[1].Restore(nil, 0)
		ways[1].readonly.Store(true) // the first attempts fail
		time.Sleep(15 * time.Second)
		ways[1].readonly.Store(false)
		time.Sleep(3 * time.Minute)
		for _, key := range keys {
			if e, _ := stores[1].Get(t.Context(), key); !strings.Contains(string(e.Value), " value\n") {
				t.Errorf("key %s of the wiped member is %q", key, e.Value)
			}
		}
	})
}

// Whoever watches a key that cannot be brought together tries that less and less
// often.
func TestVainHealingGetsRare(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, []*memstore.Store, *gate, uint64){
		"a wiped member refuses writes": func(_ *testing.T, stores []*memstore.Store, c *gate, _ uint64) {
			c.readonly.Store(true)
			stores[2].Restore(nil, 0)
		},
		"a member with a newer value is away": func(t *testing.T, stores []*memstore.Store, c *gate, rev uint64) {
			e, _ := stores[2].Get(t.Context(), "k")
			stores[2].Put("k", accept(t, e, "w", rev+1))
			c.cut.Store(true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, stores := memories(3)
				ways, members := reporters(stores)
				rev := write(t, open(t, members), 0, "v")
				listen(t, open(t, members), "k")
				time.Sleep(time.Second)
				spoil(t, stores, ways[2], rev)
				time.Sleep(time.Minute)
				before := ways[0].writes.Load()
				time.Sleep(time.Hour)
				if n := ways[0].writes.Load() - before; n > 60 {
					t.Errorf("%d writes in an hour", n)
				}
			})
		})
	}
}

// A read ends the call of a writer that died half-way, whatever else moves.
func TestReadEndsADeadWritersCall(t *testing.T) {
	for name, disturb := range map[string]func(*testing.T, []*memstore.Store, []*gate){
		"a member answers every other read": func(_ *testing.T, _ []*memstore.Store, ways []*gate) { ways[2].flaky.Store(true) },
		"a writer reaches one member alone": func(t *testing.T, stores []*memstore.Store, ways []*gate) {
			others, members := gates(stores)
			others[1].cut.Store(true)
			others[2].cut.Store(true)
			ways[2].cut.Store(true)
			s := open(t, members)
			go func() {
				_, _ = s.CompareAndSwap(t.Context(), store.Write{Key: "k", Value: []byte("x")})
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, stores := memories(3)
				ways, members := gates(stores)
				rev := write(t, open(t, members), 0, "v1")
				synctest.Wait()
				for i, n := range []int{1, 0} { // b has the second version, and a alone the third
					e, _ := stores[0].Get(t.Context(), "k")
					if i == 1 {
						e, _ = stores[1].Get(t.Context(), "k")
					}
					stores[n].Put("k", accept(t, e, fmt.Sprint("v", i+2), rev+uint64(i)+1))
				}
				disturb(t, stores, ways)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if e, err := open(t, members).Get(ctx, "k"); err != nil {
					t.Errorf("a read shows %d %q, %v", e.Revision, e.Value, err)
				}
			})
		})
	}
}

// The members' refusals arrive one after the other, also while the call waits to
// try again.
func TestValueThatAllMembersRefuseIsPermanent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, stores := memories(3)
		ways, members := gates(stores)
		s := open(t, members)
		rev := write(t, s, 0, "v")
		for i, g := range ways {
			g.most.Store(1000)
			g.delay.Store(int64(time.Duration(i+1) * 300 * time.Microsecond))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 20 {
			_, err := s.CompareAndSwap(ctx, store.Write{Key: "k", Expected: rev, Value: make([]byte, 2000)})
			if store.Classify(err) != store.Permanent {
				t.Fatalf("a value that all members refuse: %v", err)
			}
		}
	})
}
