package leader_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// What a leader gives up for an instance that has no room by then is led by
// nobody for longer than a lease: all others stand back for that instance.
func TestAnInstanceAsksToTakeOverWhatItHasRoomFor(t *testing.T) {
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

// gaps watches an instance's roles for some time, and tells for how long nobody
// led each.
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
