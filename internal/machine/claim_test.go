package machine

import (
	"testing"
	"time"
)

// Found by the explorer: the claim was under way when the program became unfit,
// and its answer promoted it.
func TestUnfitWhileClaimingIsNotPromoted(t *testing.T) {
	m := unitMachine("a")
	s, _ := m.Step(State{}, Event{Kind: Start}, Instant{})
	s, actions := m.Step(s, Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a1"}, Instant{})
	if len(actions) != 1 || actions[0].Kind != Send {
		t.Fatalf("actions at an absent record: %v", actions)
	}
	s, _ = m.Step(s, Event{Kind: Bar, Bars: Unhealthy, Exit: Exit{Reason: ReasonUnhealthy}}, Instant{})
	s, actions = m.Step(s, Event{Kind: Written, Op: s.Write.Op, Outcome: OK, Rev: 1}, Instant{})
	if s.Phase != Releasing || len(actions) != 1 || actions[0].Write != Release {
		t.Fatalf("an unfit winner is %v and does %v, want the release alone", s.Phase, actions)
	}
}

// If several bars were set, a bar that is still set determines the reason for
// giving a claim back that was under way, and who asked for it.
func TestLateGrantIsReleasedForTheRemainingBar(t *testing.T) {
	unfit := Event{Kind: Bar, Bars: Unhealthy, Exit: Exit{Reason: ReasonUnhealthy}}
	pause := Event{Kind: Bar, Bars: Paused, Exit: Exit{Reason: ReasonPaused, By: "operator"}}
	drain := Event{Kind: Bar, Bars: Withdrawn, Exit: Exit{Reason: ReasonDrained, By: "another operator"}}
	full := Event{Kind: Bar, Bars: Full}
	for name, c := range map[string]struct {
		events []Event
		want   Exit
	}{
		"unfit, paused, resumed":   {[]Event{unfit, pause, {Kind: Unbar, Bars: Paused}}, unfit.Exit},
		"paused, unfit, fit":       {[]Event{pause, unfit, {Kind: Unbar, Bars: Unhealthy}}, pause.Exit},
		"paused and unfit":         {[]Event{pause, unfit}, pause.Exit},
		"full, paused, room":       {[]Event{full, pause, {Kind: Unbar, Bars: Full}}, pause.Exit},
		"paused, full, resumed":    {[]Event{pause, full, {Kind: Unbar, Bars: Paused}}, Exit{}},
		"paused, drained":          {[]Event{pause, drain}, pause.Exit},
		"drained, unfit":           {[]Event{drain, unfit}, drain.Exit},
		"drained, paused, resumed": {[]Event{drain, pause, {Kind: Unbar, Bars: Paused}}, drain.Exit},
		"drained, undrained":       {[]Event{drain, {Kind: Unbar, Bars: Withdrawn}}, Exit{}},
		"paused, resumed":          {[]Event{pause, {Kind: Unbar, Bars: Paused}}, Exit{}},
		"paused, resumed, paused":  {[]Event{pause, {Kind: Unbar, Bars: Paused}, pause}, pause.Exit},
	} {
		t.Run(name, func(t *testing.T) {
			m := unitMachine("a")
			s, _ := m.Step(State{}, Event{Kind: Start}, Instant{})
			s, _ = m.Step(s, Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a1"}, Instant{})
			for _, ev := range c.events {
				s, _ = m.Step(s, ev, Instant{})
			}
			s, _ = m.Step(s, Event{Kind: Written, Op: s.Write.Op, Outcome: OK, Rev: 1}, Instant{})
			if s.Exit.Reason != c.want.Reason || s.Exit.By != c.want.By || (s.Phase == Holding) != (c.want.Reason == "") {
				t.Errorf("it is %v and leaves with %+v, want %+v", s.Phase, s.Exit, c.want)
			}
		})
	}
}

// Found by the simulation: a claim was refused by a server that lagged behind,
// a second copy of it was stored, and the lease was counted from the claim's
// repetition, after its challengers had seen it.
func TestRefusalThatTheRegisterContradictsDecidesNothing(t *testing.T) {
	m := unitMachine("a")
	old := Seen{Kind: Bare, Rev: 1}
	at := func(ms int64) Instant { return Instant{Mono: ms * 1e6, Wall: ms * 1e6} }
	s, _ := m.Step(State{}, Event{Kind: Start}, at(0))
	s, _ = m.Step(s, Event{Kind: Observed, Seen: old}, at(0))
	s, _ = m.Step(s, Event{Kind: Tick, Token: "a1"}, Instant{Mono: s.DueAt, Wall: s.DueAt})
	if s.Phase != Claiming {
		t.Fatalf("it is %v when its claim is due", s.Phase)
	}
	first := s.Write.Sent
	s, _ = m.Step(s, Event{Kind: Written, Op: s.Write.Op, Outcome: Conflict}, first)
	s, _ = m.Step(s, Event{Kind: Read, Op: s.Write.Op, Outcome: OK, Seen: old}, first)
	again := first.Add(time.Duration(s.Write.Due - first.Mono))
	s, actions := m.Step(s, Event{Kind: Tick}, again)
	if len(actions) != 1 || actions[0].Kind != Send {
		t.Fatalf("a claim that was refused for nothing: %v", actions)
	}
	s, _ = m.Step(s, Event{Kind: Written, Op: s.Write.Op, Outcome: Conflict}, again)
	stored := Seen{Kind: Held, Rev: 2, Rec: Record{ID: "a", Token: "a1", TTL: m.TTL}}
	s, _ = m.Step(s, Event{Kind: Read, Op: s.Write.Op, Outcome: OK, Seen: stored}, again)
	if s.Phase != Holding || s.Grant.Sent != first {
		t.Errorf("it is %v by a write that left at %v, want the first attempt's %v", s.Phase, s.Grant.Sent, first)
	}
}
