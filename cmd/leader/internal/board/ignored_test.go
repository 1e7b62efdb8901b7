package board

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/inspect"
)

// full is a board without a free place, and told, which reports to it who
// leads: "a", or nobody for a reason.
func full() (b *Board, told func(group string, term uint64, reason leader.Reason)) {
	b = &Board{}
	told = func(group string, term uint64, reason leader.Reason) {
		info := leader.LeaderInfo{Group: group, Term: term, Reason: reason}
		if reason == "" {
			info.ID = "a"
		}
		b.update(func() { b.leader(info, time.Now()) })
	}
	for i := range MaxGroups {
		told(fmt.Sprint("g", i), 1, "")
	}
	return b, told
}

// A group may keep its leader, or its vacancy, for months.
func TestAPlaceThatBecomesFreeIsTakenAtOnce(t *testing.T) {
	for name, reason := range map[string]leader.Reason{"led": "", "vacant": leader.ReasonResigned} {
		t.Run(name, func(t *testing.T) {
			b, told := full()
			told("late", 1, reason)
			seen := b.Since(0).Seq
			told("g7", 0, leader.ReasonAbsent)
			if g, ok := b.Group("late"); !ok || g.Term != 1 || g.Reason != reason {
				t.Errorf("there is a place: %v, %+v", ok, g)
			}
			if d := b.Since(seen); d.State.Ignored != 0 || d.Count != MaxGroups || len(d.Changed) != 1 {
				t.Errorf("%d groups, %d ignored, %d new", d.Count, d.State.Ignored, len(d.Changed))
			}
		})
	}
}

func TestKnowledgeOfIgnoredGroupsIsBounded(t *testing.T) {
	b, told := full()
	for i := range 2 * MaxIgnored {
		told(fmt.Sprint("more", i), 1, "")
	}
	if n := b.Since(0).State.Ignored; n != MaxIgnored {
		t.Errorf("%d are counted", n)
	}
	// Of which nothing is known is heard when there is room again.
	late := leader.LeaderInfo{Group: fmt.Sprint("more", 2*MaxIgnored-1), ID: "a", Term: 1}
	renewed := func() { b.update(func() { b.renewal(late, time.Now()) }) }
	renewed()
	if n := b.Since(0).State.Ignored; n != MaxIgnored {
		t.Errorf("%d are counted", n)
	}
	for i := range MaxIgnored + 1 {
		told(fmt.Sprint("g", i), 0, leader.ReasonAbsent)
	}
	renewed()
	if g, ok := b.Group(late.Group); !ok || g.ID != "a" || g.Heard.IsZero() || len(g.Terms) != 1 || !g.Terms[0].Older {
		t.Errorf("%v, %+v", ok, g)
	}
}

// A record may be found whose lease was over before it was looked at.
func TestRecordFoundExpiredWasHeardWhenItWasFound(t *testing.T) {
	b := &Board{}
	now := time.Now()
	b.update(func() { b.leader(leader.LeaderInfo{Group: "g", Term: 7, Reason: leader.ReasonExpired}, now) })
	if g, ok := b.Group("g"); !ok || !g.Heard.Equal(now) {
		t.Errorf("%v: heard at %v, found at %v", ok, g.Heard, now)
	}
}

// The number of groups that are not followed is for alerts, which would
// otherwise fire permanently.
func TestGroupIsShownOnceThereIsRoom(t *testing.T) {
	b, told := full()
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

// A pause of which the store has no record takes a place as any group does.
func TestAGroupThatIsPausedBeforeItsFirstLeaderIsBoundedAsOthers(t *testing.T) {
	b, told := full()
	b.update(b.present)
	paused := &inspect.Pause{By: "ann"}
	demand := func(what string, ignored, count int, shown bool) {
		t.Helper()
		g, ok := b.Group("early")
		if d := b.Since(0); d.State.Ignored != ignored || d.Count != count || ok != shown || ok && !g.Paused {
			t.Errorf("%s: %d groups, %d ignored, %v: %+v", what, d.Count, d.State.Ignored, ok, g)
		}
	}
	b.control("early", paused)
	demand("there is no place", 1, MaxGroups, false)
	b.control("early", nil)
	demand("the pause has ended", 0, MaxGroups, false)
	b.control("early", paused)
	told("g7", 0, leader.ReasonAbsent)
	demand("there is a place", 0, MaxGroups, true)
	told("late", 1, "")
	b.control("early", nil)
	demand("another takes its place", 0, MaxGroups, false)
	b.control("not a group", paused)
	demand("no candidate can stand for it", 0, MaxGroups, false)

	// For a group without room at its claim, a renewal may be the first report.
	told("g8", 0, leader.ReasonAbsent)
	b.control("early", paused)
	b.update(func() { b.renewal(leader.LeaderInfo{Group: "early", ID: "a", Term: 3}, time.Now()) })
	if g, ok := b.Group("early"); !ok || g.ID != "a" || len(g.Terms) != 1 || !g.Terms[0].Older || len(g.Changes) != 0 || !g.Confirmed {
		t.Errorf("after a renewal: %v, %+v", ok, g)
	}
}
