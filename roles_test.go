package leader_test

import (
	"context"
	"errors"
	"fmt"
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

func TestObserverOfRolesHearsTheCurrentStateFirstAndThenEachChange(t *testing.T) {
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
			t.Errorf("the added role was reported %d times: %v", n, j.all())
		}
		if err := m.Remove(t.Context(), "role.000"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := j.count(`role.000 STOPPED ""`); n != 1 {
			t.Errorf("the removed role was reported %d times: %v", n, j.all())
		}
		stopRoles(t, m)
		<-done
		if n := j.count(`z STOPPED ""`); n != 1 {
			t.Errorf("the end was reported %d times: %v", n, j.all())
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

func TestOneHealthCheckServesAllRoles(t *testing.T) {
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

func TestStoreThatMustBeRepairedStartsNoRole(t *testing.T) {
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

func TestRoleOverridesPriorityAndMeta(t *testing.T) {
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

func TestStopOfAManagerNamesTheRolesThatDidNotEndInTime(t *testing.T) {
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

// Work that never returns keeps the room of its role permanently, but does not
// keep the manager from ending.
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

// A health check may look at something that the program closes after Stop.
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

// A panic of the health check is reported from the goroutine of an election, or
// from the manager's own without one, neither of which must wait for itself.
func TestManagerMayBeStoppedFromTheHookOfAHealthCheck(t *testing.T) {
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
				t.Error("nothing was reported")
			}
		})
	}
}

type panicking struct{}

func (panicking) Check(context.Context) bool { panic("sick") }

// A health check that panics is reported as often as by a lone election:
// exporters count what the hooks of each election report, and one check is made
// for all roles.
func TestPanicOfTheHealthCheckIsReportedToTheHooksOfOneElection(t *testing.T) {
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
				t.Errorf("reported panics: %v, want %v", got, want)
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
		demand("map[:10]") // no election runs, and the Note hook of all roles is called
		stopRoles(t, m)
	})
}

// The manager runs then, with the other roles; a program that gets an error
// makes a second manager.
func TestRoleMayBeRemovedWhileTheManagerStarts(t *testing.T) {
	for _, verdict := range []error{nil, store.ErrTransient, store.ErrPermanent} {
		synctest.Test(t, func(t *testing.T) {
			st := &checked{Store: memstore.New(), hold: make(chan struct{})}
			f := newFleet(t, 2)
			m := f.manager(&checkedRole{checked: st, key: f.roles[1], err: verdict}, spreading("a"))
			errs := make(chan error, 1)
			go func() { errs <- m.Start(t.Context()) }()
			synctest.Wait()
			if err := m.Remove(t.Context(), f.roles[1]); err != nil {
				t.Errorf("Remove: %v", err)
			}
			close(st.hold)
			if err := <-errs; err != nil {
				t.Errorf("with the removed role's check at %v, Start: %v", verdict, err)
			}
			time.Sleep(ttl)
			mustHold(t, []int{1}, m)
			stopRoles(t, m)
		})
	}
}

// A checkedRole has a check that fails for one role.
type checkedRole struct {
	*checked

	key string
	err error
}

func (c *checkedRole) Check(ctx context.Context, r store.CheckRequest) (store.Report, error) {
	report, err := c.checked.Check(ctx, r)
	if r.Key == c.key {
		err = c.err
	}
	return report, err
}

// A sluggish store takes its time for each check, and from some check on
// answers none.
type sluggish struct {
	*checkedRole

	takes   time.Duration
	answers int
	mended  atomic.Bool
}

func (s *sluggish) Check(ctx context.Context, r store.CheckRequest) (store.Report, error) {
	report, err := s.checkedRole.Check(ctx, r)
	takes := s.takes
	if !s.mended.Load() && s.count() > s.answers {
		takes = time.Hour
	}
	select {
	case <-ctx.Done():
		return store.Report{}, fmt.Errorf("%w: %w", store.ErrTransient, ctx.Err())
	case <-time.After(takes):
		return report, err
	}
}

// A manager has some roles checked at a time. Where the store did not answer,
// the others waited in turn, each as long as one election does, and Start did
// not return for that time.
func TestStartOfManyRolesWaitsOnceForAStoreThatDoesNotAnswer(t *testing.T) {
	const patience = 2 * time.Second
	for name, answers := range map[string]int{"at all": 0, "any more": 100} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const roles = 130
				st := &sluggish{checkedRole: &checkedRole{checked: &checked{Store: memstore.New()}}, takes: time.Second, answers: answers}
				cfg := config("a")
				cfg.Group = ""
				m := newFleet(t, roles).manager(st, leader.RoleManagerConfig{Election: cfg})
				begun := time.Now()
				if err := m.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				allowed := patience
				if answers > 0 {
					allowed += 2 * st.takes // until the last answer
				}
				if took := time.Since(begun); took > allowed {
					t.Errorf("Start took %v, want at most %v", took, allowed)
				}
				st.mended.Store(true)
				time.Sleep(10 * ttl)
				mustHold(t, []int{roles}, m)
				stopRoles(t, m)
			})
		})
	}
}

// A fault of a role that needs a repair is found however long the store takes,
// as long as it answers.
func TestStartOfManyRolesChecksASlowStoreToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 130)
		st := &sluggish{
			checkedRole: &checkedRole{checked: &checked{Store: memstore.New()}, key: f.roles[len(f.roles)-1], err: store.ErrPermanent},
			takes:       time.Second, answers: len(f.roles),
		}
		if err := f.manager(st, spreading("a")).Start(t.Context()); !errors.Is(err, store.ErrPermanent) {
			t.Errorf("Start: %v", err)
		}
	})
}

// When Stop has returned, and Done is closed, the manager no longer uses the
// store: the program closes the connection, and a bucket that is made then
// stays behind.
func TestStopWaitsForTheCheckOfAStartThatIsUnderWay(t *testing.T) {
	type stoppable interface {
		Start(ctx context.Context) error
		Done() <-chan struct{}
		StopWithContext(ctx context.Context, opts leader.StopOptions) error
	}
	for name, build := range map[string]func(*testing.T, store.Store) stoppable{
		"an election": func(t *testing.T, st store.Store) stoppable { return candidate(t, st, config("a")) },
		"a manager":   func(t *testing.T, st store.Store) stoppable { return newFleet(t, 2).manager(st, spreading("a")) },
	} {
		for _, verdict := range []error{nil, store.ErrPermanent} {
			t.Run(fmt.Sprint(name, "/", verdict), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := &checked{Store: memstore.New(), hold: make(chan struct{}), err: verdict}
					e := build(t, st)
					begun, stopped := make(chan error, 1), make(chan error, 1)
					go func() { begun <- e.Start(t.Context()) }()
					synctest.Wait()
					all := leader.StopOptions{WaitForDemote: true}
					impatient := all
					impatient.Timeout = time.Second
					if err := e.StopWithContext(t.Context(), impatient); !errors.Is(err, leader.ErrStopTimeout) {
						t.Errorf("an impatient stop: %v", err)
					}
					go func() { stopped <- e.StopWithContext(t.Context(), all) }()
					synctest.Wait()
					select {
					case err := <-stopped:
						t.Errorf("Stop has returned %v, and the store is checked", err)
						stopped <- err
					case <-e.Done():
						t.Error("it has ended, and the store is checked")
					default:
					}
					close(st.hold)
					if err := <-begun; !errors.Is(err, leader.ErrStopped) {
						t.Errorf("Start: %v", err)
					}
					if err := <-stopped; err != nil {
						t.Errorf("Stop: %v", err)
					}
					<-e.Done()
				})
			})
		}
	}
}

// A manager that is to stop does not wait for a store that does not answer.
func TestStopOfAManagerEndsTheCheckOfItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &sluggish{checkedRole: &checkedRole{checked: &checked{Store: memstore.New()}}}
		m := newFleet(t, 130).manager(st, spreading("a"))
		errs := make(chan error, 1)
		go func() { errs <- m.Start(t.Context()) }()
		synctest.Wait()
		begun := time.Now()
		stopRoles(t, m)
		if err := <-errs; !errors.Is(err, leader.ErrStopped) {
			t.Errorf("Start: %v", err)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// The manager runs then, with the other roles: starting or stopping the
// election of one role is not an error of the manager.
func TestRoleMayBeStartedAndStoppedWithoutTheManager(t *testing.T) {
	for name, before := range map[string]struct {
		act  func(ctx context.Context, e leader.Election) error
		err  error // the store's answer for the role
		held int
	}{
		"stopped": {act: func(_ context.Context, e leader.Election) error { return e.Stop() }, held: 1},
		"stopped, and its store must be mended": {
			act: func(_ context.Context, e leader.Election) error { return e.Stop() }, err: store.ErrPermanent, held: 1,
		},
		"started": {act: func(ctx context.Context, e leader.Election) error { return e.Start(ctx) }, held: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 2)
				st := &checkedRole{checked: &checked{Store: memstore.New()}, key: f.roles[1], err: before.err}
				m := f.manager(st, spreading("a"))
				if err := before.act(t.Context(), m.Election(f.roles[1])); err != nil {
					t.Fatal(err)
				}
				if err := m.Start(t.Context()); err != nil {
					t.Errorf("Start: %v", err)
				}
				if err := m.Start(t.Context()); !errors.Is(err, leader.ErrAlreadyStarted) {
					t.Errorf("Start of a manager that runs: %v", err)
				}
				time.Sleep(ttl)
				mustHold(t, []int{before.held}, m)
				stopRoles(t, m)
				if err := m.Start(t.Context()); !errors.Is(err, leader.ErrStopped) {
					t.Errorf("Start of a manager that was stopped: %v", err)
				}
			})
		})
	}
}

// A call that waits for all roles has been promised that each is released when
// its work has stopped (G4), also those that it has not come to yet. Another
// call that gave up abandoned these, and somebody else led beside their work.
func TestStopOfAManagerOutlivesAnImpatientCall(t *testing.T) {
	released := leader.StopOptions{DeleteKey: true, WaitForDemote: true, Timeout: ttl}
	for name, impatient := range map[string]func(context.Context, *leader.RoleManager) error{
		"Stop":   func(ctx context.Context, m *leader.RoleManager) error { return m.StopWithContext(ctx, released) },
		"Remove": func(ctx context.Context, m *leader.RoleManager) error { return removeWithin(ctx, m, "b") },
		"Stop of one election": func(ctx context.Context, m *leader.RoleManager) error {
			return m.Election("b").StopWithContext(ctx, released)
		},
	} {
		for _, patientFirst := range []bool{true, false} {
			order := "it comes second"
			if !patientFirst {
				order = "it comes first"
			}
			t.Run(name+"/"+order, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { stopBeside(t, patientFirst, impatient) })
			})
		}
	}
}

func removeWithin(ctx context.Context, m *leader.RoleManager, name string) error {
	ctx, cancel := context.WithTimeout(ctx, ttl)
	defer cancel()
	return m.Remove(ctx, name)
}

// stopBeside stops an instance whose work takes longer than an impatient call
// waits.
func stopBeside(t *testing.T, patientFirst bool, impatient func(context.Context, *leader.RoleManager) error) {
	t.Helper()
	const work = 5 * ttl
	st, cfg := memstore.New(), config("x")
	cfg.Group, cfg.DemoteTimeout = "", 20*ttl
	m, err := leader.NewRoleManagerWithStore(st, leader.RoleManagerConfig{Election: cfg})
	if err != nil {
		t.Fatal(err)
	}
	var busy sync.Map
	names := []string{"a", "b", "c"}
	for _, name := range names {
		err := m.Add(t.Context(), leader.Role{
			Name:      name,
			OnPromote: func(context.Context, string) { busy.Store(name, true) },
			OnDemote:  func() { time.Sleep(work); busy.Delete(name) },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = m.Stop() })
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(ttl)
	mustHold(t, []int{len(names)}, m)
	var others []leader.Election
	for _, name := range names {
		cfg := config("y")
		cfg.Group = name
		other := candidate(t, st, cfg)
		other.OnPromote(func(context.Context, string) {
			if _, works := busy.Load(name); works {
				t.Errorf("another leads %s beside the work", name)
			}
		})
		others = append(others, started(t, other))
	}
	patience, impatience := make(chan error, 1), make(chan error, 1)
	calls := []func(){
		func() { patience <- m.Stop() },
		func() { impatience <- impatient(t.Context(), m) },
	}
	if !patientFirst {
		slices.Reverse(calls)
	}
	for _, call := range calls {
		go call()
		synctest.Wait()
	}
	if err := <-impatience; !errors.Is(err, leader.ErrStopTimeout) {
		t.Errorf("the impatient one: %v", err)
	}
	if err := <-patience; err != nil {
		t.Errorf("the patient one: %v", err)
	}
	mustHandOver(t, others...)
}

// mustHandOver demands that each leads, and was left its role by a leader.
func mustHandOver(t *testing.T, es ...leader.Election) {
	t.Helper()
	for _, e := range es {
		mustLead(t, e)
		if s := e.Status(); s.Reason != leader.ReasonVacant && s.Reason != leader.ReasonOffered {
			t.Errorf("not handed over: %s", status(e))
		}
	}
}

// Somebody has to be the last: then nobody waits, and no role goes on being
// renewed beside a program that believes the manager gone.
func TestLastStopOfAManagerToGiveUpLeavesTheRolesToExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, cfg := memstore.New(), config("x")
		cfg.Group, cfg.DemoteTimeout = "", 20*ttl
		m, err := leader.NewRoleManagerWithStore(st, leader.RoleManagerConfig{Election: cfg})
		if err != nil {
			t.Fatal(err)
		}
		names := []string{"a", "b"}
		for _, name := range names {
			if err := m.Add(t.Context(), leader.Role{Name: name, OnDemote: func() { time.Sleep(10 * ttl) }}); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { _ = m.Stop() })
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl)
		mustHold(t, []int{len(names)}, m)
		var others []leader.Election
		for _, name := range names {
			cfg := config("y")
			cfg.Group = name
			others = append(others, start(t, st, cfg))
		}
		errs := make(chan error, 2)
		for _, timeout := range []time.Duration{ttl, 2 * ttl} {
			go func() {
				errs <- m.StopWithContext(t.Context(), leader.StopOptions{DeleteKey: true, WaitForDemote: true, Timeout: timeout})
			}()
		}
		for range 2 {
			mustNotLead(t, others...)
			if err := <-errs; !errors.Is(err, leader.ErrStopTimeout) {
				t.Errorf("a stop that gives up: %v", err)
			}
		}
		time.Sleep(wait + jitter)
		for _, e := range others {
			mustLead(t, e)
		}
		<-m.Done()
	})
}

// An observer of a manager gets the end of its roles, also if no role ever ran.
func TestObserverOfRolesHearsTheEndOfRolesThatNeverRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := leader.NewRoleManagerWithStore(memstore.New(), spreading("a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Add(t.Context(), leader.Role{Name: "r"}); err != nil {
			t.Fatal(err)
		}
		states := make(chan []string, 1)
		go func() {
			var all []string
			for r := range m.Observe(t.Context()) {
				all = append(all, r.State)
			}
			states <- all
		}()
		synctest.Wait()
		stopRoles(t, m)
		if got, want := <-states, []string{leader.StateInit, leader.StateStopped}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestClosedConnectionEndsAManagerAndItsRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		cfg := config("a")
		cfg.Group = ""
		m, err := leader.NewRoleManagerWithStore(f.Client("a"), leader.RoleManagerConfig{Election: cfg})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"x", "y"} {
			if err := m.Add(t.Context(), leader.Role{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(wait)
		mustLead(t, m.Election("x"))
		x, told := m.Election("x"), make(chan struct{})
		go func() {
			defer close(told)
			for range m.Observe(t.Context()) {
			}
		}()
		if m.Err() != nil {
			t.Error(m.Err())
		}
		f.Report(store.Closed, "a")
		<-m.Done()
		<-told
		for name, err := range map[string]error{"Err": m.Err(), "Stop": m.Stop(), "of a role": x.Err()} {
			if !errors.Is(err, leader.ErrConnectionClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := m.Add(t.Context(), leader.Role{Name: "z"}); !errors.Is(err, leader.ErrStopped) {
			t.Errorf("Add: %v", err)
		}
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
