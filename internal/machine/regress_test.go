package machine

import "testing"

// A play steps one candidate through events, a tick apart.
type play struct {
	m    Machine
	s    State
	now  Instant
	acts []Action
}

func (p *play) step(ev Event) {
	p.now = p.now.Add(1)
	if ev.Token == "" {
		ev.Token = "a2"
	}
	var acts []Action
	p.s, acts = p.m.Step(p.s, ev, p.now)
	p.acts = append(p.acts, acts...)
}

// answer answers what is under way.
func (p *play) answer(ev Event) {
	ev.Op = p.s.Write.Op
	p.step(ev)
}

// elected is a candidate that leads by the write at revision 5.
func elected(m Machine) *play {
	p := &play{m: m}
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b1"}}, Token: "a1"})
	p.answer(Event{Kind: Written, Rev: 5})
	return p
}

// own is the record of the term after so many renewals.
func (p *play) own(rev, renewal uint64) Seen {
	return Seen{Kind: Held, Rev: rev, Rec: Record{ID: "a", Token: "a1", TTL: p.m.TTL, Term: 5, Renewal: renewal}}
}

func (p *play) noted(k NoteKind) bool {
	for _, a := range p.acts {
		if a.Kind == Note && a.Note == k {
			return true
		}
	}
	return false
}

// Between the end of our window and the end of our release another may have
// led, in the time that the store has lost: so our own record does not prove
// that nobody trusts a lost record.
func TestALostRegisterIsDoubtedByAHolderWhoseWindowHasPassed(t *testing.T) {
	p := elected(unitMachine("a"))
	p.now = p.s.Grant.Trust
	p.step(Event{Kind: Tick})
	p.step(Event{Kind: Drained})
	p.now = p.now.Add(p.m.wait(p.m.TTL) / 2) // a successor may lead by now
	p.answer(Event{Kind: Written, Outcome: Conflict})
	back := Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b1"}}
	for p.s.Phase == Releasing {
		p.answer(Event{Kind: Read, Seen: back})
		p.now.Mono = max(p.now.Mono, p.s.Write.Due)
		p.step(Event{Kind: Tick})
	}
	seen := p.now.Mono
	for p.s.Phase != Claiming && p.now.Mono < seen+1000 {
		p.step(Event{Kind: Tick})
	}
	p.answer(Event{Kind: Written, Rev: 5})
	if p.s.Phase != Holding || p.s.Grant.Promoted || p.s.Grant.PromoteAt < seen+int64(p.m.TTL) {
		t.Errorf("after a regress a claim leads to %v, promoted %v, from %d, seen at %d", p.s.Phase, p.s.Grant.Promoted, p.s.Grant.PromoteAt, seen)
	}
}

// The watch reports a renewal that is applied late, and the read that explains
// the refused release reports it again.
func TestRepeatedObservationIsNotALostWrite(t *testing.T) {
	p := elected(unitMachine("a"))
	p.step(Event{Kind: Validate})
	p.step(Event{Kind: Asked, Term: 5, Exit: Exit{Reason: ReasonResigned}})
	p.step(Event{Kind: Drained})
	late := p.own(6, 1)
	p.step(Event{Kind: Observed, Seen: late})
	p.step(Event{Kind: Observed, Seen: late})
	p.answer(Event{Kind: Written, Outcome: Conflict})
	p.answer(Event{Kind: Read, Seen: late})
	if p.noted(NoteRegressed) {
		t.Error("an observation that was repeated is reported as a loss of the store")
	}
	if p.s.Phase != Releasing || p.s.Write.Expected != 6 {
		t.Errorf("%v, the release expects %d", p.s.Phase, p.s.Write.Expected)
	}
}
