package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A fleet is some instances that take part in the same roles, and what is seen
// of all of them: it fails the test if two terms of a role live at an instant,
// or if an instance leads more roles than it may.
type fleet struct {
	t     *testing.T
	roles []string

	mu    sync.Mutex
	live  map[string]string // who acts in a role: from OnPromote to the end of OnDemote
	load  map[string]int    // how many roles an instance acts in
	moves int               // promotions
	bound int               // of load, 0 for none
}

func newFleet(t *testing.T, roles int) *fleet {
	t.Helper()
	f := &fleet{t: t, live: make(map[string]string), load: make(map[string]int)}
	for i := range roles {
		f.roles = append(f.roles, fmt.Sprintf("role.%03d", i))
	}
	return f
}

// spreading is a configuration of an instance that spreads roles.
func spreading(id string) leader.RoleManagerConfig {
	c := config(id)
	c.Group = ""
	return leader.RoleManagerConfig{Election: c, Spread: leader.SpreadConfig{Enabled: true}}
}

// manager returns an instance of the fleet, with all its roles, that was not
// started.
func (f *fleet) manager(st store.Store, cfg leader.RoleManagerConfig) *leader.RoleManager {
	f.t.Helper()
	m, err := leader.NewRoleManagerWithStore(st, cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = m.Stop() })
	for _, name := range f.roles {
		f.add(m, cfg.Election.InstanceID, name)
	}
	return m
}

func (f *fleet) add(m *leader.RoleManager, id, name string) {
	f.t.Helper()
	err := m.Add(f.t.Context(), leader.Role{
		Name:      name,
		OnPromote: func(ctx context.Context, _ string) { f.promoted(ctx, id, name) },
		OnDemote:  func() { f.demoted(id, name) },
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) start(st store.Store, cfg leader.RoleManagerConfig) *leader.RoleManager {
	f.t.Helper()
	m := f.manager(st, cfg)
	if err := m.Start(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	synctest.Wait()
	return m
}

func (f *fleet) promoted(ctx context.Context, id, role string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if other := f.live[role]; other != "" && ctx.Err() == nil {
		f.t.Errorf("%s is promoted in %s while %s acts", id, role, other)
	}
	f.live[role] = id
	f.load[id]++
	f.moves++
	if f.bound > 0 && f.load[id] > f.bound {
		f.t.Errorf("%s acts in %d roles, above %d", id, f.load[id], f.bound)
	}
}

func (f *fleet) demoted(id, role string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.load[id]--
	if f.live[role] == id {
		delete(f.live, role)
	}
}

// moved returns how many promotions there were since the last call.
func (f *fleet) moved() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.moves
	f.moves = 0
	return n
}

// led is how many roles a manager leads.
func led(m *leader.RoleManager) (n int) {
	for _, r := range m.Roles() {
		if r.IsLeader {
			n++
		}
	}
	return n
}

func loads(ms ...*leader.RoleManager) (all []int) {
	for _, m := range ms {
		all = append(all, led(m))
	}
	slices.Sort(all)
	return all
}

func mustHold(t *testing.T, want []int, ms ...*leader.RoleManager) {
	t.Helper()
	if got := loads(ms...); !slices.Equal(got, want) {
		t.Fatalf("the instances lead %v roles, want %v", got, want)
	}
}

func stopRoles(t *testing.T, ms ...*leader.RoleManager) {
	t.Helper()
	for _, m := range ms {
		if err := m.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

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

// Where nobody says how many roles an instance may lead, and nothing is spread,
// the first takes all.
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

		// What becomes free is taken again at once, by whoever has room.
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

func TestRolesThatNobodyHasRoomForAreWarnedOfOnce(t *testing.T) {
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

func TestRolesComeAndGoWhileOthersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := newFleet(t, 3), memstore.New()
		m := f.start(st, spreading("a"))
		f.add(m, "a", "late")
		synctest.Wait()
		mustHold(t, []int{4}, m)
		if err := m.Add(t.Context(), leader.Role{Name: "late"}); !errors.Is(err, leader.ErrRoleExists) {
			t.Errorf("the same role again: %v", err)
		}
		terms := map[string]leader.Term{}
		for _, name := range f.roles {
			terms[name] = m.Election(name).Term()
		}
		if err := m.Remove(t.Context(), "late"); err != nil {
			t.Fatal(err)
		}
		if f.live["late"] != "" || m.Election("late") != nil {
			t.Error("the role is still there")
		}
		if e, _ := st.Get(t.Context(), "late"); !e.Tombstone {
			t.Errorf("the record was not released: %s", e.Value)
		}
		if err := m.Remove(t.Context(), "late"); !errors.Is(err, leader.ErrUnknownRole) {
			t.Errorf("removed twice: %v", err)
		}
		f.add(m, "a", "late")
		synctest.Wait()
		mustHold(t, []int{4}, m)
		for name, term := range terms {
			if m.Election(name).Term() != term {
				t.Errorf("%s has another term", name)
			}
		}
		stopRoles(t, m)
		if err := m.Add(t.Context(), leader.Role{Name: "later"}); !errors.Is(err, leader.ErrStopped) {
			t.Errorf("added to a stopped manager: %v", err)
		}
	})
}

func TestCallbacksOfRolesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := leader.NewRoleManagerWithStore(memstore.New(), spreading("a"))
		if err != nil {
			t.Fatal(err)
		}
		j := newJournal()
		for _, name := range []string{"a", "b"} {
			if err := m.Add(t.Context(), leader.Role{
				Name:      name,
				OnPromote: func(ctx context.Context, _ string) { <-ctx.Done(); j.note("%s stopped", name) },
				OnDemote:  func() { j.note("%s demoted", name) },
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := m.Remove(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		j.demand(t, "b stopped", "b demoted")
		stopRoles(t, m)
		j.demand(t, "b stopped", "b demoted", "a stopped", "a demoted")
	})
}

func TestStopAndRemoveFromACallbackDoNotWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := leader.NewRoleManagerWithStore(memstore.New(), spreading("a"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			if err := m.Add(t.Context(), leader.Role{Name: name, OnPromote: func(context.Context, string) {
				if err := errors.Join(m.Remove(t.Context(), name), m.Stop()); err != nil {
					t.Error(err)
				}
			}}); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		stopRoles(t, m)
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestObserverOfRolesHearsThePresentStateFirstAndThenEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := newFleet(t, 2), memstore.New()
		m := f.start(st, spreading("a"))
		j := newJournal()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for r := range m.Observe(t.Context()) {
				j.note("%s %s %q", r.Name, r.State, r.Leader.ID)
			}
		}()
		synctest.Wait()
		j.demand(t, `role.000 LEADER "a"`, `role.001 LEADER "a"`)
		f.add(m, "a", "z")
		synctest.Wait()
		if n := j.count(`z LEADER "a"`); n != 1 {
			t.Errorf("the added role was told of %d times: %v", n, j.all())
		}
		if err := m.Remove(t.Context(), "role.000"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := j.count(`role.000 STOPPED ""`); n != 1 {
			t.Errorf("the removed role was told of %d times: %v", n, j.all())
		}
		stopRoles(t, m)
		<-done
		if n := j.count(`z STOPPED ""`); n != 1 {
			t.Errorf("the end was told of %d times: %v", n, j.all())
		}
	})
}

// A checker counts the questions.
type counting struct {
	mu   sync.Mutex
	n    int
	sick bool
}

func (c *counting) Check(context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return !c.sick
}

func (c *counting) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *counting) set(sick bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sick = sick
}

func TestOneHealthCheckSpeaksForAllRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := newFleet(t, 10), memstore.New()
		health, cfg := &counting{}, spreading("a")
		cfg.Election.HealthChecker = health
		a := f.start(st, cfg)
		b := f.start(st, spreading("b"))
		time.Sleep(10 * ttl)
		mustHold(t, []int{5, 5}, a, b)
		if want := int(10 * ttl / heartbeat); health.asked() > want+1 {
			t.Errorf("asked %d times in %d intervals", health.asked(), want)
		}
		health.set(true)
		time.Sleep(4 * heartbeat)
		mustHold(t, []int{0, 10}, a, b)
		if led(a) != 0 {
			t.Error("the sick instance leads")
		}
		f.add(a, "a", "late")
		time.Sleep(10 * ttl)
		if led(a) != 0 {
			t.Error("the sick instance asks for roles")
		}
		health.set(false)
		time.Sleep(10 * ttl)
		if n := led(a); n != 6 && n != 5 {
			t.Errorf("the instance, well again, leads %d of 11", n)
		}
		stopRoles(t, a, b)
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
		// Of the ten that both know each leads half. What a leads besides, b
		// does not know; and a, which leads more than its half of all that it
		// knows, asks for nothing.
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

// leader step-down --withdraw leaves a request for a term that nobody leads. It
// must not block the role for ever.
func TestRequestForNoTermKeepsNoRoleWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := newFleet(t, 4), memstore.New()
		a := f.start(st, spreading("a"))
		mustHold(t, []int{4}, a)
		for i := range 4 {
			put(t, st, fmt.Sprintf("_ctl.role.%03d", i), map[string]any{"op": "step-down", "term": 1 << 53, "by": "ops"})
		}
		b := f.start(st, spreading("b"))
		time.Sleep(20 * ttl)
		mustHold(t, []int{2, 2}, a, b)
		stopRoles(t, a, b)
	})
}

func TestManagerRefusesWhatItCannotDo(t *testing.T) {
	cfg := spreading("a")
	cfg.Election.Group, cfg.MaxRoles, cfg.Spread.Pace = "g", -1, 2
	cfg.Election.TTL = 0
	err := cfg.Validate()
	want := []string{"Election.Group", "MaxRoles", "Spread.Pace", "TTL"}
	for _, field := range want {
		if !slices.Contains(fields(err), field) {
			t.Errorf("no word of %s: %v", field, err)
		}
	}
	if _, err := leader.NewRoleManagerWithStore(nil, spreading("a")); !errors.Is(err, leader.ErrInvalidConfig) {
		t.Errorf("without a store: %v", err)
	}
	m, err := leader.NewRoleManagerWithStore(memstore.New(), spreading("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Add(t.Context(), leader.Role{}); !errors.Is(err, leader.ErrInvalidConfig) {
		t.Errorf("a role without a name: %v", err)
	}
	if err := m.Stop(); err != nil {
		t.Error(err)
	}
	if err := m.Start(t.Context()); !errors.Is(err, leader.ErrStopped) {
		t.Errorf("started when stopped: %v", err)
	}
}

func TestStoreThatMustBeMendedStartsNoRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &checked{Store: memstore.New(), err: fmt.Errorf("%w: no bucket", store.ErrPermanent)}
		f := newFleet(t, 3)
		m := f.manager(st, spreading("a"))
		if err := m.Start(t.Context()); !errors.Is(err, store.ErrPermanent) {
			t.Fatalf("Start: %v", err)
		}
		st.repair()
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.Start(t.Context()); !errors.Is(err, leader.ErrAlreadyStarted) {
			t.Errorf("started twice: %v", err)
		}
		time.Sleep(ttl)
		mustHold(t, []int{3}, m)
		st.err = store.ErrPermanent
		if err := m.Add(t.Context(), leader.Role{Name: "late"}); !errors.Is(err, store.ErrPermanent) {
			t.Errorf("Add: %v", err)
		}
		synctest.Wait()
		if m.Election("late") != nil {
			t.Error("the role that could not be added is there")
		}
		stopRoles(t, m)
	})
}

func TestEndOfTheContextStopsTheManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, st := newFleet(t, 3), memstore.New()
		m := f.manager(st, spreading("a"))
		ctx, cancel := context.WithCancel(t.Context())
		if err := m.Start(ctx); err != nil {
			t.Fatal(err)
		}
		f.add(m, "a", "late")
		synctest.Wait()
		mustHold(t, []int{4}, m)
		cancel()
		for range m.Observe(t.Context()) { // ends with the manager
		}
		for _, r := range m.Roles() {
			if r.State != leader.StateStopped {
				t.Errorf("%s is %s", r.Name, r.State)
			}
		}
		if len(f.live) != 0 {
			t.Errorf("still at work: %v", f.live)
		}
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

func TestRoleMayHaveAPriorityAndMetaOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := spreading("a")
		cfg.Election.Priority, cfg.Election.Meta = 1, map[string]string{"zone": "z"}
		m, err := leader.NewRoleManagerWithStore(memstore.New(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(
			m.Add(t.Context(), leader.Role{Name: "common"}),
			m.Add(t.Context(), leader.Role{Name: "own", Priority: 7, Meta: map[string]string{"zone": "y"}}),
			m.Start(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i, want := range []string{"common 1 z", "own 7 y"} {
			r := m.Roles()[i]
			if got := fmt.Sprint(r.Name, " ", r.Leader.Priority, " ", r.Leader.Meta["zone"]); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		stopRoles(t, m)
	})
}

func TestStopOfAManagerSaysWhatDidNotEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		m, err := leader.NewRoleManagerWithStore(memstore.New(), spreading("a"))
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(
			m.Add(t.Context(), leader.Role{Name: "good"}),
			m.Add(t.Context(), leader.Role{Name: "bad", OnPromote: func(context.Context, string) { <-hang }}),
			m.Start(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		err = m.StopWithContext(t.Context(), leader.StopOptions{DeleteKey: true, WaitForDemote: true, Timeout: time.Second})
		if !errors.Is(err, leader.ErrStopTimeout) {
			t.Errorf("while a callback hangs: %v", err)
		}
		if err := m.Stop(); !errors.Is(err, leader.ErrDemoteTimeout) {
			t.Errorf("when it was waited for long enough: %v", err)
		}
		close(hang)
	})
}

// An election ends beside work that outlives DemoteTimeout. The instance is
// not rid of that work: no other role takes the room, and the role does not
// begin anew beside its own work.
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

func outlive(t *testing.T, end func(*testing.T, *leader.RoleManager) error) {
	t.Helper()
	cfg := spreading("a")
	cfg.MaxRoles, cfg.Election.DemoteTimeout = 1, 2*time.Second
	m, err := leader.NewRoleManagerWithStore(memstore.New(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	hang := make(chan struct{})
	long := leader.Role{Name: "long", OnPromote: func(context.Context, string) { <-hang }}
	if err := errors.Join(m.Add(t.Context(), long), m.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if err := m.Add(t.Context(), leader.Role{Name: "other"}); err != nil {
		t.Fatal(err)
	}
	if err := end(t, m); !errors.Is(err, leader.ErrDemoteTimeout) {
		t.Errorf("it ends with %v", err)
	}
	time.Sleep(10 * ttl)
	if err := m.Add(t.Context(), long); !errors.Is(err, leader.ErrRoleExists) {
		t.Errorf("added beside its own work: %v", err)
	}
	if n := led(m); n != 0 {
		t.Errorf("it leads %d roles beside the work of another", n)
	}
	close(hang)
	time.Sleep(2 * ttl)
	if !m.Election("other").IsLeader() {
		t.Error("no other takes the room that is free now")
	}
	_ = m.Remove(t.Context(), "long") // may be gone
	if err := m.Add(t.Context(), long); err != nil {
		t.Errorf("added when its work has returned: %v", err)
	}
	stopRoles(t, m)
}

// Work that never returns keeps the room of its role for good, and not the
// manager from ending.
func TestManagerEndsBesideTheWorkOfARoleThatWasRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		defer close(hang)
		m, err := leader.NewRoleManagerWithStore(memstore.New(), spreading("a"))
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(
			m.Add(t.Context(), leader.Role{Name: "bad", OnPromote: func(context.Context, string) { <-hang }}),
			m.Start(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := m.Remove(t.Context(), "bad"); !errors.Is(err, leader.ErrDemoteTimeout) {
			t.Errorf("Remove: %v", err)
		}
		begun := time.Now()
		if err := m.Stop(); !errors.Is(err, leader.ErrDemoteTimeout) {
			t.Errorf("Stop: %v", err)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("Stop took %v", took)
		}
		<-m.Done()
	})
}

// slow is healthy, and does not look at the context.
type slow struct{ underWay atomic.Bool }

func (s *slow) Check(context.Context) bool {
	s.underWay.Store(true)
	defer s.underWay.Store(false)
	time.Sleep(30 * time.Second)
	return true
}

// What a program closes after Stop may be what a health check looks at.
func TestStopOfAManagerWaitsForItsEndWhateverItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		defer close(hang)
		check, cfg := &slow{}, spreading("a")
		cfg.Election.DemoteTimeout = time.Second
		cfg.Election.HealthChecker, cfg.Election.HealthCheckInterval = check, time.Minute
		m, err := leader.NewRoleManagerWithStore(memstore.New(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(
			m.Add(t.Context(), leader.Role{Name: "bad", OnPromote: func(context.Context, string) { <-hang }}),
			m.Start(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		for !check.underWay.Load() || !m.Election("bad").IsLeader() {
			time.Sleep(time.Second)
		}
		if err := m.Stop(); !errors.Is(err, leader.ErrDemoteTimeout) {
			t.Error(err)
		}
		if check.underWay.Load() {
			t.Error("Stop has returned, and a health check is under way")
		}
		select {
		case <-m.Done():
		default:
			t.Error("Stop has returned, and the manager has not ended")
			<-m.Done()
		}
	})
}

func TestAddGivesUpWithItsContextAndLeavesNoRoleBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &checked{Store: memstore.New()}
		m := newFleet(t, 1).start(st, spreading("a"))
		st.mu.Lock()
		st.hold = make(chan struct{})
		st.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.AfterFunc(2*time.Second, func() { close(st.hold) })
		if err := m.Add(ctx, leader.Role{Name: "late"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Add: %v", err)
		}
		synctest.Wait()
		if m.Election("late") != nil {
			t.Error("the role is there")
		}
		if m.Election("role.000") == nil {
			t.Error("the other is not")
		}
		stopRoles(t, m)
	})
}

// Who is asked to take over by name takes over at once, even if it has more
// than its fair share.
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

func TestObserverHearsOfARoleThatNeverRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		m := f.manager(memstore.New(), spreading("a"))
		j := newJournal()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for r := range m.Observe(t.Context()) {
				j.note("%s %s", r.Name, r.State)
			}
		}()
		synctest.Wait()
		if err := m.Remove(t.Context(), f.roles[0]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		j.demand(t, "role.000 INIT", "role.000 STOPPED")
		stopRoles(t, m)
		<-done
	})
}

// A panic of the health check is told from the goroutine of an election, or
// from the manager's own without one, neither of which must wait for itself.
func TestManagerMayBeStoppedFromTheHookThatTellsOfAHealthCheck(t *testing.T) {
	for _, roles := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			cfg := spreading("a")
			cfg.Election.HealthChecker = panicking{}
			var m *leader.RoleManager
			told := false
			cfg.Election.Hooks.Note = func(n leader.Note) {
				if n.Kind == leader.NotePanic {
					told = true
					_ = m.Stop()
				}
			}
			m = newFleet(t, roles).manager(memstore.New(), cfg)
			if err := m.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * heartbeat)
			mustHold(t, []int{0}, m)
			stopRoles(t, m)
			if !told {
				t.Error("nothing was told")
			}
		})
	}
}

type panicking struct{}

func (panicking) Check(context.Context) bool { panic("sick") }

// A health check that panics is told of as often as a lone election tells of
// it: exporters count what the hooks of each election tell, and one check is
// made for all roles.
func TestAPanicOfTheHealthCheckIsToldToTheHooksOfOneElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		told := make(map[string]int) // by group, and by "" in all
		count := func(group string) func(leader.Note) {
			return func(n leader.Note) {
				mu.Lock()
				defer mu.Unlock()
				if n.Kind == leader.NotePanic {
					told[group]++
				}
			}
		}
		demand := func(want string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if got := fmt.Sprint(told); got != want {
				t.Errorf("told of panics: %v, want %v", got, want)
			}
			clear(told)
		}
		hooks := leader.Hooks{Note: count(""), PerElection: func(_ leader.Election, cfg leader.ElectionConfig) leader.Hooks {
			return leader.Hooks{Note: count(cfg.Group)}
		}}
		const checks = 10
		lone := config("lone")
		lone.Hooks, lone.HealthChecker, lone.HealthCheckInterval = hooks, panicking{}, time.Second
		e := start(t, memstore.New(), lone)
		time.Sleep(checks*time.Second + jitter)
		demand("map[:10 g:10]")
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}

		cfg := spreading("a")
		cfg.Election.Hooks, cfg.Election.HealthChecker, cfg.Election.HealthCheckInterval = hooks, panicking{}, time.Second
		f := newFleet(t, 2)
		m := f.start(memstore.New(), cfg)
		time.Sleep(checks*time.Second + jitter)
		demand("map[:10 role.000:10]")
		if err := m.Remove(t.Context(), f.roles[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(checks * time.Second)
		demand("map[:10 role.001:10]")
		if err := m.Election(f.roles[1]).Stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(checks * time.Second)
		demand("map[:10]") // no election runs, and the Note of all is told
		stopRoles(t, m)
	})
}
