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

// Of several bars the one that still stands says why a claim that was under way is given back, and who asked for it.
func TestALateGrantIsLeftForTheBarThatStillStands(t *testing.T) {
	unfit := Event{Kind: Bar, Bars: Unhealthy, Exit: Exit{Reason: ReasonUnhealthy}}
	pause := Event{Kind: Bar, Bars: Paused, Exit: Exit{Reason: ReasonPaused, By: "operator"}}
	full := Event{Kind: Bar, Bars: Full}
	for name, c := range map[string]struct {
		events []Event
		want   Exit
	}{
		"unfit, paused, resumed":  {[]Event{unfit, pause, {Kind: Unbar, Bars: Paused}}, unfit.Exit},
		"paused, unfit, fit":      {[]Event{pause, unfit, {Kind: Unbar, Bars: Unhealthy}}, pause.Exit},
		"paused and unfit":        {[]Event{pause, unfit}, pause.Exit},
		"full, paused, room":      {[]Event{full, pause, {Kind: Unbar, Bars: Full}}, pause.Exit},
		"paused, full, resumed":   {[]Event{pause, full, {Kind: Unbar, Bars: Paused}}, Exit{}},
		"paused, resumed":         {[]Event{pause, {Kind: Unbar, Bars: Paused}}, Exit{}},
		"paused, resumed, paused": {[]Event{pause, {Kind: Unbar, Bars: Paused}, pause}, pause.Exit},
	} {
		t.Run(name, func(t *testing.T) {
			m := unitMachine("a")
			s, _ := m.Step(State{}, Event{Kind: Start}, Instant{})
			s, _ = m.Step(s, Event{Kind: Sight, Seen: Seen{Kind: Absent}, Token: "a1"}, Instant{})
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
