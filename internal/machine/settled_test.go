package machine

import "testing"

// settled plays a candidate that cools down over a store that brings nothing
// older back, and has claimed what it saw.
func settled(seen Seen) *play {
	m := unitMachine("a")
	m.CoolDown, m.Expires = true, true
	p := &play{m: m}
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: seen, Token: "a1"})
	return p
}

func settledVacancy() Seen {
	return Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b1", Settled: true}}
}

// lastSent returns the latest record of the play that was sent as k.
func (p *play) lastSent(k WriteKind) (rec Record, ok bool) {
	for _, a := range p.acts {
		if a.Kind == Send && a.Write == k {
			rec, ok = a.Rec, true
		}
	}
	return rec, ok
}

// Where nothing older comes back, a settled vacancy is proof that nobody leads;
// any other is not, nor is a settled one where the store may go back.
func TestOnlyASettledVacancySparesTheCoolDown(t *testing.T) {
	for name, c := range map[string]struct {
		settled, expires, promoted bool
	}{
		"settled, records vanish":   {true, true, true},
		"unsettled, records vanish": {false, true, false},
		"settled, store goes back":  {true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &play{m: unitMachine("a")}
			p.m.CoolDown, p.m.Expires = true, c.expires
			p.step(Event{Kind: Start})
			seen := settledVacancy()
			seen.Rec.Settled = c.settled
			p.step(Event{Kind: Observed, Seen: seen, Token: "a1"})
			p.answer(Event{Kind: Written, Rev: 5})
			if p.s.Phase != Holding || p.s.Grant.Promoted != c.promoted {
				t.Errorf("it is %v, promoted %v", p.s.Phase, p.s.Grant.Promoted)
			}
		})
	}
}

// A candidate that never cooled down knows nothing about earlier leaders. A
// candidate that follows a settled vacancy may write a settled vacancy without
// its own cool-down.
func TestOnlyWhoIsSettledLeavesASettledVacancy(t *testing.T) {
	for name, c := range map[string]struct {
		seen Seen
		want bool
	}{
		"after nothing":           {Seen{Kind: Absent}, false},
		"after a settled vacancy": {settledVacancy(), true},
	} {
		t.Run(name, func(t *testing.T) {
			p := settled(c.seen)
			p.answer(Event{Kind: Written, Rev: 5})
			p.step(Event{Kind: StopRelease})
			p.step(Event{Kind: Drained})
			if rec, ok := p.lastSent(Release); !ok || rec.Settled != c.want {
				t.Errorf("it leaves %+v, want settled %v", rec, c.want)
			}
		})
	}
}

// A claim that expects nothing may be applied again when its record has
// vanished, after somebody else led: a vacancy over that is not settled.
func TestVacancyOverOwnLaterRecordIsNotSettled(t *testing.T) {
	p := settled(settledVacancy())
	p.answer(Event{Kind: Written, Rev: 5})
	p.step(Event{Kind: StopRelease})
	p.step(Event{Kind: Drained})
	p.answer(Event{Kind: Written, Outcome: Conflict})
	p.answer(Event{Kind: Read, Seen: Seen{Kind: Held, Rev: 9, Rec: Record{ID: "a", Token: "a1", TTL: p.m.TTL}}})
	if rec, ok := p.lastSent(Release); !ok || rec.Settled || p.s.Write.Expected != 9 {
		t.Errorf("over revision %d it leaves %+v", p.s.Write.Expected, rec)
	}
}
