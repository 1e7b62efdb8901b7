package machine

import "testing"

// Found by the explorer: the claim was under way when the program became unfit, and
// its answer promoted it.
func TestUnfitWhileClaimingIsNotPromoted(t *testing.T) {
	m := unitMachine("a")
	s, _ := m.Step(State{}, Event{Kind: Start}, Instant{})
	s, actions := m.Step(s, Event{Kind: Sight, Seen: Seen{Kind: Absent}, Token: "a1"}, Instant{})
	if len(actions) != 1 || actions[0].Kind != Send {
		t.Fatalf("actions at an absent record: %v", actions)
	}
	s, _ = m.Step(s, Event{Kind: Bar, Bars: Unhealthy, Exit: Exit{Reason: ReasonUnhealthy}}, Instant{})
	s, actions = m.Step(s, Event{Kind: Written, Op: s.Write.Op, Outcome: OK, Rev: 1}, Instant{})
	if s.Phase != Releasing || len(actions) != 1 || actions[0].Write != Release {
		t.Fatalf("an unfit winner is %v and does %v, want the release alone", s.Phase, actions)
	}
}
