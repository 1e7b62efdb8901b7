package leader_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
)

var rolesSeeds = flag.Int("roles.seeds", unlessRaced(6, 2), "how many random lives of a fleet TestRolesSettleEvenlyWhateverHappened tries")

// A life is one random history of instances that join, leave, crash and are cut
// off, over a network that fails.
type life struct {
	*fleet
	rng  *rand.Rand
	net  *faultstore.Faults
	calm atomic.Bool
	cap  int
	ids  []string
	up   map[string]*leader.RoleManager
}

// Whatever happened, when it has ended the roles settle: evenly, with as many
// leaders as there is room for, and then nothing moves any more. The fleet
// itself watches that no role ever has two leaders and no instance too many
// roles.
func TestRolesSettleEvenlyWhateverHappened(t *testing.T) {
	for i := range *rolesSeeds {
		seed := uint64(i)
		t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newLife(t, seed).live() })
		})
	}
}

func newLife(t *testing.T, seed uint64) *life {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 5))
	l := &life{fleet: newFleet(t, 5+rng.IntN(60)), rng: rng, up: make(map[string]*leader.RoleManager)}
	l.net = network(t, func() faultstore.Policy {
		rough := faultstore.Random(seed, faultstore.Rough())
		return func(c faultstore.Call) faultstore.Fate {
			if l.calm.Load() {
				return faultstore.Fate{}
			}
			return rough(c)
		}
	}())
	for i := range 2 + rng.IntN(5) {
		l.ids = append(l.ids, fmt.Sprint("i", i))
	}
	if rng.IntN(3) == 0 {
		l.cap = 1 + rng.IntN(2*len(l.roles)/len(l.ids)+1)
		l.bound = l.cap
	}
	return l
}

func (l *life) live() {
	for range 40 {
		time.Sleep(time.Duration(l.rng.Int64N(int64(2 * ttl))))
		id := l.ids[l.rng.IntN(len(l.ids))]
		m := l.up[id]
		if m == nil {
			l.join(id)
			continue
		}
		switch l.rng.IntN(6) {
		case 0:
			_ = m.Stop() // a callback that outlived its time is no matter here
			delete(l.up, id)
		case 1:
			l.crash(id)
		case 2:
			l.net.BlackHole(id)
		case 3:
			l.net.Partition(id)
		case 4:
			l.net.Heal(id)
		default:
			l.churn(id)
		}
	}
	l.settle()
}

func (l *life) join(id string) {
	l.net.Heal(id)
	cfg := spreading(id)
	cfg.MaxRoles = l.cap
	cfg.Spread.Pace = []float64{0, 0.02, 1}[l.rng.IntN(3)]
	m := l.manager(l.net.Client(id), cfg)
	if err := m.Start(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	l.up[id] = m
}

// crash lets an instance vanish: its leases run out.
func (l *life) crash(id string) {
	if err := l.up[id].StopWithContext(context.Background(), leader.StopOptions{WaitForDemote: true}); err != nil {
		l.t.Error(err)
	}
	delete(l.up, id)
}

// churn removes a role from an instance and adds it again.
func (l *life) churn(id string) {
	role := l.roles[l.rng.IntN(len(l.roles))]
	if err := l.up[id].Remove(context.Background(), role); err != nil {
		l.t.Error(err)
	}
	time.Sleep(time.Duration(l.rng.Int64N(int64(ttl))))
	l.add(l.up[id], id, role)
}

func (l *life) settle() {
	l.calm.Store(true)
	if len(l.up) == 0 {
		l.join(l.ids[0])
	}
	var all []*leader.RoleManager
	for id, m := range l.up {
		l.net.Heal(id)
		all = append(all, m)
	}
	time.Sleep(100 * ttl) // the slowest pace moves one of five roles in 10 × TTL
	l.moved()
	got := loads(all...)
	total := 0
	for _, n := range got {
		total += n
	}
	room := len(l.roles)
	if l.cap > 0 {
		room = min(room, l.cap*len(all))
	}
	l.t.Logf("%d roles, bound %d: %v", len(l.roles), l.cap, got)
	if total != room || slices.Max(got)-slices.Min(got) > 1 {
		l.t.Errorf("%d roles with the bound %d settled at %v", len(l.roles), l.cap, got)
		for _, m := range all {
			l.explain(m)
		}
	}
	time.Sleep(20 * ttl)
	if n := l.moved(); n != 0 {
		l.t.Errorf("%d roles moved after they had settled", n)
	}
	stopRoles(l.t, all...)
}

func (l *life) explain(m *leader.RoleManager) {
	for _, r := range m.Roles() {
		if r.LeaderID == "" {
			l.t.Logf("%+v, record %s", r, value(l.net.Entry(r.Name)))
		}
	}
}
