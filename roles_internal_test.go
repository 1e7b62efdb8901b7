package leader

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The vacancy of a successor ends a stand-back at once, and with it ended the wait of an instance that has its fair share:
// a role that it had led once before it took all the same, past the count of its room.
func TestAnInstanceWithItsShareLeavesAlsoARoleThatItHasLedBefore(t *testing.T) {
	m, err := NewRoleManagerWithStore(memstore.New(), RoleManagerConfig{
		Election: ElectionConfig{InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second},
		Spread:   SpreadConfig{Enabled: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Stop() }()
	for _, name := range []string{"one", "two"} {
		if err := m.Add(t.Context(), Role{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	m.leading, m.others["b"] = 1, 1 // of two roles each has one
	e := m.seats["two"].e
	l := &e.loop
	l.e, l.rules = e, e.cfg.machine(false)
	l.state = machine.State{
		Phase: machine.Watching,
		Grant: machine.Grant{Token: "of a former term of ours"},
		View:  machine.Seen{Kind: machine.Held, Rev: 5, Rec: machine.Record{ID: "b", Token: "b's", TTL: 3 * time.Second}},
	}
	s, _ := l.next(machine.Event{Kind: machine.Sight, Token: "fresh", Seen: machine.Seen{
		Kind: machine.Vacant, Rev: 6, Rec: machine.Record{Token: "b's", Reason: machine.ReasonResigned},
	}})
	if s.Phase != machine.Watching || s.StandBackUntil <= e.clock.now().Mono {
		t.Errorf("it is %v, and stands back until %v", s.Phase, s.StandBackUntil)
	}
}

// What an instance leads includes its claims. Of many roles that fall vacant at once it claims its share, and leaves the rest to
// others; when it then loses a claim it has room, and waited all the same, for as long as those that had their share in truth.
func TestALostClaimEndsTheWaitForOtherRoles(t *testing.T) {
	m, err := NewRoleManagerWithStore(memstore.New(), RoleManagerConfig{
		Election: ElectionConfig{InstanceID: "a", TTL: 4 * time.Second, HeartbeatInterval: time.Second},
		Spread:   SpreadConfig{Enabled: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Stop() }()
	for _, name := range []string{"one", "two"} {
		if err := m.Add(t.Context(), Role{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	one, two, now := m.seats["one"], m.seats["two"], time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.others["b"] = 1
	m.settle(one, held) // claimed
	wait := m.yield(two, now)
	m.settle(one, vacant) // lost
	if wait <= 0 || wait > 100*time.Millisecond || m.yield(two, now.Add(wait)) != 0 {
		t.Errorf("it waits for %v, and then for %v", wait, m.yield(two, now.Add(wait)))
	}
	m.settle(one, held)
	for now = now.Add(wait); wait > 0; now = now.Add(wait) {
		wait = m.yield(two, now)
	}
	if all := now.Sub(two.yielding); all != 500*time.Millisecond {
		t.Errorf("with its share it waits for %v", all)
	}
}

// A share so small that the time between requests cannot be counted is no invitation to ask without a rest.
func TestTheSmallestPaceIsTheSlowest(t *testing.T) {
	cfg := RoleManagerConfig{Election: ElectionConfig{InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second}}
	cfg.Spread = SpreadConfig{Enabled: true, Pace: math.SmallestNonzeroFloat64}
	m, err := NewRoleManagerWithStore(memstore.New(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Stop() }()
	if d := m.interval(); d < forever/2 {
		t.Errorf("asks every %v", d)
	}
}

// A panic of ours in the manager's own goroutine ends neither the program nor
// the manager.
func TestAPanicOfTheManagersGoroutineHasASuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := NewRoleManagerWithStore(memstore.New(), RoleManagerConfig{
			Election: ElectionConfig{InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
		end := m.endHealth
		struck := false
		m.endHealth = func() {
			if !struck {
				struck = true
				panic("boom")
			}
			end()
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.Stop(); err != nil || !struck {
			t.Errorf("Stop: %v, struck: %v", err, struck)
		}
	})
}
