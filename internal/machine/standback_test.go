package machine

import (
	"math"
	"testing"
	"time"
)

// The successor's record may arrive before the answer to the release that made
// way for it. The candidate that stood back for a successor has then seen one,
// and is a rival again.
func TestSuccessorSeenBeforeTheReleasesAnswerEndsTheStandBack(t *testing.T) {
	m := Machine{
		ID: "a", TTL: time.Minute, Heartbeat: time.Second, MaxTTL: time.Hour, Drift: 0.1,
		DrainBudget: time.Minute, HeadStart: time.Second,
		Settings: Settings{Retry: Retry{Initial: time.Second, Max: time.Second, Multiplier: 1}},
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
	step(Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a"})
	step(Event{Kind: Written, Op: s.Write.Op, Rev: 1})
	step(Event{Kind: Asked, Term: 1, Exit: Exit{Reason: ReasonResigned}})
	step(Event{Kind: Drained})
	if s.Phase != Releasing {
		t.Fatalf("phase %v", s.Phase)
	}
	release := s.Write.Op
	step(Event{Kind: Observed, Seen: rival(3, 0)})
	step(Event{Kind: Written, Op: release, Rev: 2})

	step(Event{Kind: Observed, Seen: Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b", Term: 3, Reason: ReasonResigned}}, Token: "a2"})
	if s.Phase != Claiming {
		t.Errorf("phase %v at a vacancy, stays back until %v, now %v", s.Phase, time.Duration(s.StandBackUntil), time.Duration(now.Mono))
	}
}

// The successor may have left again before anything was heard of it but its
// vacancy.
func TestSuccessorThatHasLeftAgainEndsTheStandBack(t *testing.T) {
	for name, vacancyFirst := range map[string]bool{"before the release's answer": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			m := Machine{
				ID: "a", TTL: time.Minute, Heartbeat: time.Second, MaxTTL: time.Hour, Drift: 0.1,
				DrainBudget: time.Minute, Settings: Settings{Retry: Retry{Initial: time.Second, Max: time.Second, Multiplier: 1}},
			}
			now := Instant{}
			var s State
			step := func(ev Event) {
				now = now.Add(time.Millisecond)
				s, _ = m.Step(s, ev, now)
			}
			step(Event{Kind: Start})
			step(Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a"})
			step(Event{Kind: Written, Op: s.Write.Op, Rev: 1})
			step(Event{Kind: Asked, Term: 1, Exit: Exit{Reason: ReasonSteppedDown}})
			step(Event{Kind: Drained})
			release := s.Write.Op
			vacancy := Event{Kind: Observed, Token: "a2", Seen: Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b", Term: 3, Reason: ReasonSteppedDown}}}
			answer := Event{Kind: Written, Op: release, Rev: 2, Token: "a2"}
			if vacancyFirst {
				step(vacancy)
				step(answer)
			} else {
				step(answer)
				step(vacancy)
			}
			if s.Phase != Claiming {
				t.Errorf("phase %v, stays back until %v, now %v", s.Phase, time.Duration(s.StandBackUntil), time.Duration(now.Mono))
			}
		})
	}
}

// A delay at the start is none of the vacancy's that is found there.
func TestAVacancyFoundAtTheStartDoesNotEndTheSplay(t *testing.T) {
	m := Machine{ID: "a", TTL: time.Minute, MaxTTL: time.Hour, Drift: 0.1, Settings: Settings{Splay: time.Second}}
	s, _ := m.Step(State{}, Event{Kind: Start, Rand: math.MaxUint64}, Instant{})
	s, _ = m.Step(s, Event{Kind: Observed, Token: "a", Seen: Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b", Term: 3, Reason: ReasonStopped}}}, Instant{})
	if s.Phase != Watching || s.StandBackUntil == 0 {
		t.Errorf("phase %v, stays back until %v", s.Phase, time.Duration(s.StandBackUntil))
	}
}
