package leader_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// When an instance leaves or crashes, each of the others takes its share of
// what it led, and at no instant more, though all of them hear of all vacancies
// at once, and whichever of these roles they have led before. It takes a store
// that answers within the time for which a vacancy is left to those who have
// less.
func TestNobodyTakesMoreThanItsShareOfWhatAnInstanceLeaves(t *testing.T) {
	for i := range *rolesSeeds {
		t.Run(fmt.Sprint("Seed", i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { leaving(t, uint64(i)) })
		})
	}
}

func leaving(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	f, n := newFleet(t, 15+rng.IntN(35)), 3+rng.IntN(3)
	delay := time.Duration(rng.IntN(4)) * 10 * time.Millisecond
	net := network(t, faultstore.Random(seed, faultstore.Rates{Delay: delay, EventDelay: delay}))
	ms := make([]*leader.RoleManager, n)
	for i := range ms { // the first leads all roles at first
		cfg := spreading(fmt.Sprint("i", i))
		cfg.Spread.Pace = 1
		ms[i] = f.start(net.Client(cfg.Election.InstanceID), cfg)
	}
	time.Sleep(10 * ttl)
	share := (len(f.roles) + n - 1) / n
	if l := loads(ms...); l[0] < share-1 || l[n-1] > share {
		t.Fatalf("%d roles have settled at %v", len(f.roles), l)
	}
	gone := rng.IntN(n)
	f.mu.Lock()
	f.bound = (len(f.roles) + n - 2) / (n - 1)
	f.mu.Unlock()
	if rng.IntN(2) == 0 {
		stopRoles(t, ms[gone])
	} else if err := ms[gone].StopWithContext(t.Context(), leader.StopOptions{WaitForDemote: true}); err != nil {
		t.Fatal(err)
	}
	ms = slices.Delete(ms, gone, gone+1)
	time.Sleep(20 * ttl)
	if l := loads(ms...); l[0] < f.bound-1 || l[n-2] > f.bound {
		t.Errorf("%d roles were taken over as %v", len(f.roles), l)
	}
	f.mu.Lock()
	f.bound = 0
	f.mu.Unlock()
	stopRoles(t, ms...)
}

// Instances whose roles differ come to rest, too: each leads its share of what
// it knows, or nobody leads more than one more of what it knows than it leads
// altogether.
func TestInstancesWithDifferentRolesComeToRest(t *testing.T) {
	for i := range *rolesSeeds {
		t.Run(fmt.Sprint("Seed", i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { differing(t, uint64(i)) })
		})
	}
}

func differing(t *testing.T, seed uint64) {
	rng, st := rand.New(rand.NewPCG(seed, 13)), memstore.New()
	f := newFleet(t, 0)
	type instance struct {
		*leader.RoleManager
		id    string
		knows map[string]bool
	}
	var all []instance
	for i := range 2 + rng.IntN(4) {
		in := instance{id: fmt.Sprint("i", i), knows: map[string]bool{}}
		cfg := spreading(in.id)
		cfg.Spread.Pace = 1
		in.RoleManager = f.manager(st, cfg)
		of := 2 + rng.IntN(3)
		for r := range 40 {
			if name := fmt.Sprintf("role.%03d", r); rng.IntN(of) > 0 {
				in.knows[name] = true
				f.add(in.RoleManager, in.id, name)
			}
		}
		if err := in.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(2 * ttl))))
		all = append(all, in)
	}
	time.Sleep(60 * ttl)
	f.moved()
	time.Sleep(20 * ttl)
	if n := f.moved(); n != 0 {
		t.Errorf("%d roles moved after they had settled", n)
	}
	for _, in := range all {
		others := map[string]int{}
		for _, r := range in.Roles() {
			switch r.LeaderID {
			case "":
				t.Errorf("nobody leads %s", r.Name)
			case in.id:
			default:
				others[r.LeaderID]++
			}
		}
		share := (len(in.knows) + len(others)) / (len(others) + 1)
		for id, n := range others {
			if led(in.RoleManager) < share && n > led(in.RoleManager)+1 {
				t.Errorf("%s leads %d of %d roles, and %s %d of these", in.id, led(in.RoleManager), len(in.knows), id, n)
			}
		}
		t.Logf("%s knows %d roles and leads %d, others of these %v", in.id, len(in.knows), led(in.RoleManager), others)
	}
	for _, in := range all {
		stopRoles(t, in.RoleManager)
	}
}

// An instance that has asked for a role keeps the last of its room for it. What
// it asked for is given to it alone. It took another role in the meantime, and
// refused, so that nobody led a healthy role until all others might claim it.
func TestTheLastRoomIsKeptForARoleThatWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = time.Second
		st, names := memstore.New(), []string{"r1", "r2", "r3"}
		stopping := make(chan struct{}, len(names))
		first := spreading("a")
		first.Spread.Enabled = false
		a := instance(t, st, first, names, func(ctx context.Context, _ string) {
			<-ctx.Done()
			stopping <- struct{}{}
			time.Sleep(work)
		})
		time.Sleep(10 * time.Second)
		mustHold(t, []int{len(names)}, a)
		second := spreading("b")
		second.MaxRoles = 1
		b := instance(t, st, second, names, nil)
		<-stopping
		if err := b.Add(t.Context(), leader.Role{Name: "own"}); err != nil {
			t.Fatal(err)
		}
		for name, d := range gaps(a, 10*time.Second) {
			if d > work+ttl/6 {
				t.Errorf("nobody leads %s for %v", name, d)
			}
		}
		mustHold(t, []int{1, len(names) - 1}, a, b)
		stopRoles(t, a, b)
	})
}

// instance starts an instance with roles that share a callback.
func instance(
	t *testing.T, st store.Store, cfg leader.RoleManagerConfig, names []string, work func(context.Context, string),
) *leader.RoleManager {
	t.Helper()
	m, err := leader.NewRoleManagerWithStore(st, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Stop() })
	for _, name := range names {
		if err := m.Add(t.Context(), leader.Role{Name: name, OnPromote: work}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}
