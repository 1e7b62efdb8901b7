package machine

import "testing"

// A renewal whose acknowledgement was lost is refused because its first attempt
// was applied. The record must nevertheless be kept beside work that has not
// stopped yet.
func TestARecordIsKeptWhileTheWorkStopsThoughAnAcknowledgementWasLost(t *testing.T) {
	m := unitMachine("a")
	m.TTL, m.MaxTTL, m.DrainBudget = 200, 200, 1000
	p := elected(m)
	p.step(Event{Kind: Asked, Term: 5, Exit: Exit{Reason: ReasonResigned}})
	for p.s.Write.Stage != Flying {
		p.step(Event{Kind: Tick})
	}
	p.answer(Event{Kind: Written, Outcome: Unknown})
	for p.s.Write.Stage != Flying {
		p.step(Event{Kind: Tick})
	}
	p.answer(Event{Kind: Written, Outcome: Conflict})
	p.answer(Event{Kind: Read, Outcome: Transient}) // and the read is not answered either, at first
	for p.s.Write.Stage == BackingOff {
		p.step(Event{Kind: Tick})
	}
	p.answer(Event{Kind: Read, Seen: p.own(6, 1)})
	if p.s.Phase != Draining || !p.s.keeps() || p.s.Grant.Rev != 6 {
		t.Fatalf("%v, keeps %v, at revision %d", p.s.Phase, p.s.keeps(), p.s.Grant.Rev)
	}
	for p.s.Write.Stage != Flying {
		p.step(Event{Kind: Tick})
	}
	if p.s.Write.Kind != Renew || p.s.Write.Expected != 6 {
		t.Errorf("next a %v expecting %d", p.s.Write.Kind, p.s.Write.Expected)
	}
}

// Another's record there ends it.
func TestARecordIsNotKeptAgainstASuccessor(t *testing.T) {
	m := unitMachine("a")
	m.TTL, m.MaxTTL, m.DrainBudget = 200, 200, 1000
	p := elected(m)
	p.step(Event{Kind: Asked, Term: 5, Exit: Exit{Reason: ReasonResigned}})
	for range 2 {
		for p.s.Write.Stage != Flying {
			p.step(Event{Kind: Tick})
		}
		p.answer(Event{Kind: Written, Outcome: Unknown})
	}
	for p.s.Write.Stage != Flying {
		p.step(Event{Kind: Tick})
	}
	p.answer(Event{Kind: Written, Outcome: Conflict})
	p.answer(Event{Kind: Read, Seen: Seen{Kind: Held, Rev: 7, Rec: Record{ID: "b", Token: "b2", TTL: 20}}})
	if p.s.keeps() || p.s.Write.Kind != NoWrite {
		t.Errorf("keeps %v, %v under way", p.s.keeps(), p.s.Write.Kind)
	}
}
