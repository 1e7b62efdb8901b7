package leader_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A call that waits for all roles has been promised that each is released when
// its work has stopped (G4), also those that it has not come to yet. Another
// call that gave up abandoned these, and somebody else led beside their work.
func TestAnImpatientCallLeavesTheStopOfAManagerAlone(t *testing.T) {
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
func TestTheLastStopOfAManagerToGiveUpLeavesTheRolesToExpire(t *testing.T) {
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

// Who observes a manager hears the end of its roles, also where none ever ran.
func TestObserveTellsOfTheEndOfRolesThatNeverRan(t *testing.T) {
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
