package board

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// The number of those that are not followed is for alerts, which would go on
// for good.
func TestAGroupThatFoundAPlaceIsNoLongerIgnored(t *testing.T) {
	b := &Board{}
	told := func(group string, term uint64, reason leader.Reason) {
		info := leader.LeaderInfo{Group: group, Term: term, Reason: reason}
		if reason == "" {
			info.ID = "a"
		}
		b.update(func() { b.leader(info, time.Now()) })
	}
	for i := range MaxGroups {
		told(fmt.Sprint("g", i), 1, "")
	}
	told("late", 1, "")
	if d := b.Since(0); d.State.Ignored != 1 || d.Count != MaxGroups {
		t.Fatalf("%d groups, %d ignored", d.Count, d.State.Ignored)
	}
	told("g7", 0, leader.ReasonAbsent)
	told("late", 2, "")
	if g, ok := b.Group("late"); !ok || g.Term != 2 {
		t.Fatalf("there is a place: %v, %+v", ok, g)
	}
	if d := b.Since(0); d.State.Ignored != 0 || d.Count != MaxGroups {
		t.Errorf("%d groups, %d ignored", d.Count, d.State.Ignored)
	}
}
