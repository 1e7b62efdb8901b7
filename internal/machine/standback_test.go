package machine

import (
	"testing"
	"time"
)

// The successor's record may arrive before the answer to the release that made way for it. Who stood
// back for a successor has seen one then, and is a rival again.
func TestSuccessorSeenBeforeTheReleasesAnswerEndsTheStandBack(t *testing.T) {
	m := Machine{
		ID: "a", TTL: time.Minute, Heartbeat: time.Second, MaxTTL: time.Hour, Drift: 0.1,
		DrainBudget: time.Minute, HeadStart: time.Second,
		Retry: Retry{Initial: time.Second, Max: time.Second, Multiplier: 1},
	}
	now := Instant{}
	var s State
	step := func(ev Event) (actions []Action) {
		now = now.Add(time.Millisecond)
		s, actions = m.Step(s, ev, now)
		return actions
	}
	rival := func(rev, term uint64) Seen {
		return Seen{Kind: Held, Rev: rev, Rec: Record{ID: "b", Token: "b", TTL: time.Minute, Term: term}}
	}
	step(Event{Kind: Start})
	step(Event{Kind: Sight, Seen: Seen{Kind: Absent}, Token: "a"})
	step(Event{Kind: Written, Op: s.Write.Op, Rev: 1})
	step(Event{Kind: Asked, Term: 1, Exit: Exit{Reason: ReasonResigned}})
	step(Event{Kind: Drained})
	if s.Phase != Releasing {
		t.Fatalf("phase %v", s.Phase)
	}
	release := s.Write.Op
	step(Event{Kind: Sight, Seen: rival(3, 0)})
	step(Event{Kind: Written, Op: release, Rev: 2})

	step(Event{Kind: Sight, Seen: Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b", Term: 3, Reason: ReasonResigned}}, Token: "a2"})
	if s.Phase != Claiming {
		t.Errorf("phase %v at a vacancy, stands back until %v, now %v", s.Phase, time.Duration(s.StandBackUntil), time.Duration(now.Mono))
	}
}
