package leader_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func TestHundredRolesOverFourInstancesSettleAt25Each(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := newFleet(t, 100), memstore.New()
		ms := make([]*leader.RoleManager, 4)
		for i := range ms {
			ms[i] = f.start(st, spreading(fmt.Sprintf("i%d", i)))
		}
		mustHold(t, []int{0, 0, 0, 100}, ms...)
		f.moved()
		time.Sleep(10 * ttl)
		mustHold(t, []int{25, 25, 25, 25}, ms...)
		if n := f.moved(); n != 75 {
			t.Errorf("%d roles moved, want the 75 that had to", n)
		}
		time.Sleep(20 * ttl)
		if n := f.moved(); n != 0 {
			t.Errorf("%d roles moved when all was even", n)
		}

		stopRoles(t, ms[3])
		time.Sleep(ttl / 10) // some lost a race, and wait a little
		if l := loads(ms[:3]...); l[0]+l[1]+l[2] != 100 || l[2] > 34 {
			t.Errorf("the others took over as %v", l)
		}
		time.Sleep(10 * ttl)
		mustHold(t, []int{33, 33, 34}, ms[:3]...)
		if n := f.moved(); n < 25 || n > 50 {
			t.Errorf("%d roles moved when an instance with 25 left", n)
		}

		ms[3] = f.start(st, spreading("i3"))
		time.Sleep(ttl)
		if n := f.moved(); n == 0 || n > 15 {
			t.Errorf("%d roles moved in the first TTL, want about a tenth of 100", n)
		}
		time.Sleep(5 * ttl)
		mustHold(t, []int{25, 25, 25, 25}, ms...)
		if n := f.moved(); n > 25 {
			t.Errorf("%d more roles moved back", n)
		}
		stopRoles(t, ms...)
	})
}

func TestCrashedInstanceIsMadeUpForEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, net := newFleet(t, 60), network(t, nil)
		ms := make([]*leader.RoleManager, 4)
		for i := range ms {
			id := fmt.Sprintf("i%d", i)
			ms[i] = f.start(net.Client(id), spreading(id))
		}
		time.Sleep(10 * ttl)
		mustHold(t, []int{15, 15, 15, 15}, ms...)
		f.moved()
		net.BlackHole("i3")
		time.Sleep(wait + heartbeat)
		if n := f.moved(); n < 15 || n > 30 {
			t.Errorf("%d roles moved, want the 15 that had to, and few more", n)
		}
		time.Sleep(10 * ttl)
		mustHold(t, []int{0, 20, 20, 20}, ms...)
		net.Heal("i3")
		time.Sleep(5 * ttl)
		mustHold(t, []int{15, 15, 15, 15}, ms...)
		stopRoles(t, ms...)
	})
}

// Without a MaxRoles, and if nothing is spread, the first instance takes all
// roles.
func TestBoundHoldsWhenManyRolesFallVacantAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := newFleet(t, 50), memstore.New()
		a := f.start(st, leader.RoleManagerConfig{Election: spreading("a").Election})
		mustHold(t, []int{50}, a)
		f.bound = 10
		cfg := leader.RoleManagerConfig{Election: spreading("b").Election, MaxRoles: 10}
		b := f.start(st, cfg)
		cfg.Election.InstanceID = "c"
		c := f.start(st, cfg)
		stopRoles(t, a)
		time.Sleep(2 * ttl)
		mustHold(t, []int{10, 10}, b, c)
		for _, r := range b.Roles() {
			if !r.IsLeader && r.Barred != leader.ReasonFull {
				t.Fatalf("%s is barred by %q, want %q", r.Name, r.Barred, leader.ReasonFull)
			}
		}

		// An instance that has room takes a freed role again at once.
		f.moved()
		for _, r := range b.Roles()[:50] {
			if r.IsLeader {
				if err := b.Election(r.Name).Resign(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(2 * wait)
		mustHold(t, []int{10, 10}, b, c)
		stopRoles(t, b, c)
	})
}

func TestRolesWithoutRoomAreWarnedOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, logs := newFleet(t, 5), &logbook{}
		cfg := leader.RoleManagerConfig{Election: spreading("a").Election, MaxRoles: 3}
		cfg.Election.Logger = slog.New(slog.NewJSONHandler(logs, nil))
		m := f.start(memstore.New(), cfg)
		mustHold(t, []int{3}, m)
		time.Sleep(10 * ttl)
		f.add(m, "a", "another")
		time.Sleep(10 * ttl)
		if n := len(logs.lines(t, "roles without a leader, and no room for them here")); n != 1 {
			t.Errorf("warned %d times", n)
		}
		stopRoles(t, m)
	})
}

func TestRoleIsNotAskedOfALeaderThatIsPreferredForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		instance := func(id string, priority int) *leader.RoleManager {
			m, err := leader.NewRoleManagerWithStore(st, spreading(id))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				if err := m.Add(t.Context(), leader.Role{Name: fmt.Sprint("r", i), Priority: priority}); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return m
		}
		a := instance("a", 2)
		b := instance("b", 1)
		c := instance("c", 2)
		time.Sleep(20 * ttl)
		if led(b) != 0 || led(a) != 5 || led(c) != 5 {
			t.Errorf("a, b and c lead %d, %d and %d roles", led(a), led(b), led(c))
		}
		stopRoles(t, a, b, c)
	})
}

func TestInstancesWithOtherRolesSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		few, many := newFleet(t, 10), newFleet(t, 40)
		a := many.start(st, spreading("a"))
		b := few.start(st, spreading("b"))
		time.Sleep(20 * ttl)
		// Each leads half of the ten roles that both know. b does not know the
		// other roles that a leads; and a, which leads more than its half of
		// all that it knows, asks for nothing.
		mustHold(t, []int{5, 35}, a, b)
		few.moved()
		many.moved()
		time.Sleep(20 * ttl)
		if n := few.moved() + many.moved(); n != 0 {
			t.Errorf("%d roles moved after they had settled", n)
		}
		stopRoles(t, a, b)
	})
}

// A request that is late finds that the leader has nothing to give any more.
func TestLeaderGivesNoRoleThatWouldLeaveItWithFewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := newFleet(t, 4), memstore.New()
		m := f.start(st, spreading("a"))
		ask := func(role string, have int) {
			put(t, st, "_ctl."+role, map[string]any{
				"op": "balance", "term": m.Election(role).Term().Number, "successor": "b", "by": "b", "have": have,
			})
			synctest.Wait()
		}
		ask("role.000", 3)
		mustHold(t, []int{4}, m)
		ask("role.000", 2)
		ask("role.001", 2)
		mustHold(t, []int{3}, m)
		if info := m.Roles()[0].Leader; info.Reason != leader.ReasonBalanced || info.By != "b" || info.Successor != "b" {
			t.Errorf("the vacancy reads %+v", info)
		}
		stopRoles(t, m)
	})
}

// An instance without room does not ask for what it could not take: the leader
// would give it up for nothing, again and again.
func TestInstanceWithoutRoomDoesNotAskToTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := newFleet(t, 4), memstore.New()
		cfg := leader.RoleManagerConfig{Election: spreading("a").Election}
		cfg.Election.AllowPriorityTakeover, cfg.Election.MinTenure = true, ttl
		a := f.start(st, cfg)
		cfg.Election.InstanceID, cfg.Election.Priority, cfg.MaxRoles = "b", 1, 2
		b := f.start(st, cfg)
		f.moved()
		time.Sleep(20 * ttl)
		mustHold(t, []int{2, 2}, a, b)
		if n := f.moved(); n != 2 {
			t.Errorf("%d roles moved, want the 2 that there was room for", n)
		}
		stopRoles(t, a, b)
	})
}

// An election ends beside work that outlives DemoteTimeout. The instance still
// has that work: no other role takes the room, and the role does not start
// again beside its own work.
func TestWorkThatOutlivesItsElectionKeepsTheRoomOfItsRole(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *leader.RoleManager) error{
		"removed": func(t *testing.T, m *leader.RoleManager) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := m.Remove(ctx, "long"); !errors.Is(err, leader.ErrStopTimeout) {
				t.Errorf("Remove that does not wait for long: %v", err)
			}
			return m.Remove(t.Context(), "long")
		},
		"stopped by itself": func(_ *testing.T, m *leader.RoleManager) error { return m.Election("long").Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { outlive(t, end) })
		})
	}
}

// An instance that is asked by name to take over does so at once, even if it
// has more than its fair share.
func TestNamedSuccessorDoesNotLeaveTheRoleToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := newFleet(t, 10), memstore.New()
		b := f.start(st, spreading("b"))
		small := spreading("a")
		small.MaxRoles = 1
		a := f.start(st, small)
		small.Election.InstanceID = "c"
		c := f.start(st, small)
		time.Sleep(20 * ttl)
		mustHold(t, []int{1, 1, 8}, a, b, c)
		led := slices.IndexFunc(a.Roles(), func(r leader.RoleStatus) bool { return r.IsLeader })
		if err := a.Election(f.roles[led]).Transfer(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if e := b.Election(f.roles[led]); !e.IsLeader() {
			t.Errorf("b does not lead: %s", status(e))
		}
		stopRoles(t, a, b, c)
	})
}

// When an instance leaves or crashes, each of the others takes its share of
// what it led, and at no instant more, though all of them hear of all vacancies
// at once, and whichever of these roles they have led before. It takes a store
// that answers within the time for which a vacancy is left to those who have
// less.
func TestInstancesTakeNoMoreThanTheirShareOfWhatOneLeaves(t *testing.T) {
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

// An instance that has asked for a role keeps the last of its room for it,
// since that role is given to it alone. It once took another role in the
// meantime, and refused, so that nobody led a healthy role until all others
// might claim it.
func TestLastRoomIsKeptForARoleThatWasAskedFor(t *testing.T) {
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

// If a leader gives up a role for an instance that no longer has room, nobody
// leads the role for longer than a lease: all others stay back for that
// instance.
func TestInstanceAsksToTakeOverWhatItHasRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = time.Second // to stop
		var names []string
		for i := range 8 {
			names = append(names, fmt.Sprintf("r%d", i))
		}
		st := memstore.New()
		first := leader.RoleManagerConfig{Election: spreading("a").Election}
		first.Election.AllowPriorityTakeover = true
		moves := make(chan struct{}, 100)
		a := instance(t, st, first, names, func(ctx context.Context, _ string) {
			moves <- struct{}{}
			<-ctx.Done()
			time.Sleep(work)
		})
		time.Sleep(10 * ttl)
		mustHold(t, []int{len(names)}, a)
		second := leader.RoleManagerConfig{Election: spreading("b").Election, MaxRoles: 2}
		second.Election.Priority, second.Election.AllowPriorityTakeover = 1, true
		b := instance(t, st, second, names, nil)
		for name, d := range gaps(a, 20*ttl) {
			if d > work+ttl/6 {
				t.Errorf("nobody leads %s for %v", name, d)
			}
		}
		mustHold(t, []int{second.MaxRoles, len(names) - second.MaxRoles}, a, b)
		if again := len(moves) - len(names); again > 0 {
			t.Errorf("%d roles came back", again)
		}
		stopRoles(t, a, b)
	})
}

// gaps watches an instance's roles for some time, and returns for how long
// nobody led each.
func gaps(m *leader.RoleManager, during time.Duration) map[string]time.Duration {
	const each = 10 * time.Millisecond
	gap := make(map[string]time.Duration)
	for range during / each {
		for _, r := range m.Roles() {
			if r.Leader.ID == "" {
				gap[r.Name] += each
			}
		}
		time.Sleep(each)
	}
	return gap
}

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
			_ = m.Stop() // a callback that outlived its time does not matter here
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
