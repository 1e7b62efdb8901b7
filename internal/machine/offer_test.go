package machine

import (
	"testing"
	"time"
)

// following is a candidate that knows b to hold the record at revision 4.
func following(m Machine) *play {
	p := &play{m: m}
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 4, Rec: Record{ID: "b", Token: "b1", TTL: m.TTL, Term: 3}}})
	return p
}

func over(token string) Event {
	return Event{Kind: Offered, Seen: Seen{Kind: Vacant, Rec: Record{Token: token, Reason: ReasonStopped}}, Token: "a1"}
}

func TestAnOfferedRecordIsClaimedAsItStands(t *testing.T) {
	p := following(unitMachine("a"))
	p.step(over("b1"))
	if p.s.Phase != Claiming || p.s.Reason != ReasonOffered || p.s.Write.Expected != 4 {
		t.Fatalf("%v (%s), expecting %d", p.s.Phase, p.s.Reason, p.s.Write.Expected)
	}
	p.answer(Event{Kind: Written, Rev: 5})
	if !p.s.Leading(p.now) || p.s.Grant.Term != 5 {
		t.Fatalf("%v, term %d", p.s.Phase, p.s.Grant.Term)
	}
	// Every record of the term says why the one before ended: an observer may
	// miss the first.
	want := Prior{3, ReasonStopped}
	if got := p.s.View.Rec.Prior; got != want {
		t.Errorf("the claim says of the term before: %v, want %v", got, want)
	}
	for p.s.Write.Kind != Renew {
		p.now = p.now.Add(1)
		p.step(Event{Kind: Tick})
	}
	last := p.acts[len(p.acts)-1]
	if last.Rec.Prior != want {
		t.Errorf("the renewal says of the term before: %v, want %v", last.Rec.Prior, want)
	}
}

// Standing back ends as it does for a vacancy: when its time is reached.
func TestAnOfferIsTakenWhenStandingBackIsOver(t *testing.T) {
	p := following(unitMachine("a"))
	p.s.StandBackUntil = p.now.Mono + 1 // when the step happens
	p.step(over("b1"))
	if p.s.Phase != Claiming {
		t.Errorf("%v", p.s.Phase)
	}
}

// Whoever may not claim a vacancy at once may not take an offer either: the
// vacancy follows.
func TestAnOfferIsLeftBy(t *testing.T) {
	for name, c := range map[string]struct {
		machine func(*Machine)
		before  func(*play)
		token   string
	}{
		"one who knows another holder": {token: "c1"},
		"one who knows the holder by a record without a token": {token: "", before: func(p *play) {
			p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 5, Rec: Record{ID: "b", TTL: p.m.TTL, Term: 3}}})
		}},
		"one who knows of the vacancy": {token: "b1", before: func(p *play) {
			p.m.HeadStart = time.Hour
			p.step(Event{Kind: Observed, Seen: Seen{Kind: Vacant, Rev: 5, Rec: Record{Token: "b1", Successor: "c"}}})
		}},
		"the unfit":     {token: "b1", before: func(p *play) { p.step(Event{Kind: Bar, Bars: Unhealthy}) }},
		"a paused one":  {token: "b1", before: func(p *play) { p.step(Event{Kind: Bar, Bars: Paused}) }},
		"the undrained": {token: "b1", before: func(p *play) { p.s.Undrained = true }},
		"one that stands back": {token: "b1", before: func(p *play) {
			p.s.StandBackUntil = p.now.Mono + 10
		}},
		"one of candidates that are not alike": {token: "b1", before: func(p *play) { p.s.Ranked = true }},
		"one that backs off":                   {token: "b1", machine: func(m *Machine) { m.Backoff, m.MaxBackoff = 1, 1 }},
		"one that did not start":               {token: "b1", before: func(p *play) { p.s = State{View: p.s.View} }},
	} {
		t.Run(name, func(t *testing.T) {
			m := unitMachine("a")
			if c.machine != nil {
				c.machine(&m)
			}
			p := following(m)
			if c.before != nil {
				c.before(p)
			}
			known := p.s
			p.step(over(c.token))
			if p.s != known {
				t.Errorf("%v by the offer, from %v", p.s.Phase, known.Phase)
			}
		})
	}
}

// leaving is a candidate that leads by the write at revision 5 and has been
// told to leave, and whose work has stopped.
func leaving(m Machine, ev Event) *play {
	p := elected(m)
	p.step(ev)
	p.step(Event{Kind: Drained})
	return p
}

func offerer() Machine {
	m := unitMachine("a")
	m.Offers = true
	return m
}

func TestAnOfferIsFollowedByTheVacancy(t *testing.T) {
	for _, out := range []Outcome{OK, Conflict, Transient, Permanent, Unknown} {
		p := leaving(offerer(), Event{Kind: StopRelease})
		w := p.s.Write
		if p.s.Phase != Releasing || w.Kind != Offer || w.Expected != 5 {
			t.Fatalf("%v: a %v expecting %d", p.s.Phase, w.Kind, w.Expected)
		}
		p.answer(Event{Kind: Written, Outcome: out})
		if w = p.s.Write; p.s.Phase != Releasing || w.Kind != Release || w.Expected != 5 || w.Stage != Flying {
			t.Errorf("after %v: %v, a %v %v expecting %d", out, p.s.Phase, w.Kind, w.Stage, w.Expected)
		}
	}
}

func TestWhoLeavesOfItselfOffersItsRecord(t *testing.T) {
	for name, ev := range map[string]Event{
		"stopped":   {Kind: StopRelease},
		"resigned":  {Kind: Asked, Term: 5, Exit: Exit{Reason: ReasonResigned}},
		"panicked":  {Kind: Asked, Term: 5, Exit: Exit{Reason: ReasonPanicked}},
		"unhealthy": {Kind: Bar, Bars: Unhealthy, Exit: Exit{Reason: ReasonUnhealthy}},
	} {
		p := leaving(offerer(), ev)
		if p.s.Write.Kind != Offer {
			t.Errorf("%s: a %v", name, p.s.Write.Kind)
		}
		last := p.acts[len(p.acts)-1]
		if r := last.Rec; last.Write != Offer || r.ID != "" || r.Token != "a1" || r.Term != 5 || string(r.Reason) != name {
			t.Errorf("%s: %v of %+v", name, last.Write, r)
		}
	}
}

// What was deleted while the work stopped is nobody's record, and cannot be
// claimed as one: the vacancy is written over it.
func TestADeletedRecordIsNotOffered(t *testing.T) {
	p := elected(offerer())
	p.step(Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Bare, Rev: 6}})
	p.step(Event{Kind: Drained})
	if w := p.s.Write; w.Kind != Release || w.Expected != 6 {
		t.Errorf("a %v expecting %d", w.Kind, w.Expected)
	}
}

// Who stops while it takes over writes the vacancy that the one before did not
// write, and says why that one left.
func TestAVacancyInPlaceOfATakenOfferTellsOfTheTermBefore(t *testing.T) {
	p := following(unitMachine("a"))
	p.step(over("b1"))
	p.step(Event{Kind: StopRelease})
	last := p.acts[len(p.acts)-1]
	want := Record{Token: "a1", Term: 3, Reason: ReasonStopped, By: "b"}
	if last.Write != Release || last.Expected != 4 || last.Rec != want {
		t.Errorf("%v expecting %d of %+v, want %+v", last.Write, last.Expected, last.Rec, want)
	}
	// If the claim was applied after all, it is that claim that ends.
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 5, Rec: Record{ID: "a", Token: "a1", TTL: p.m.TTL, Prior: Prior{3, ReasonStopped}}}})
	p.answer(Event{Kind: Written, Outcome: Conflict})
	last = p.acts[len(p.acts)-1]
	want = Record{Token: "a1", Term: 5, Reason: ReasonStopped, By: "a"}
	if last.Write != Release || last.Expected != 5 || last.Rec != want {
		t.Errorf("%v expecting %d of %+v, want %+v", last.Write, last.Expected, last.Rec, want)
	}
}

func TestATakenOfferEndsTheRelease(t *testing.T) {
	p := leaving(offerer(), Event{Kind: StopRelease})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 6, Rec: Record{ID: "c", Token: "c1", TTL: p.m.TTL, Prior: Prior{5, ReasonStopped}}}})
	if p.s.Phase != Stopped {
		t.Fatalf("%v after the successor was seen", p.s.Phase)
	}
	p = leaving(offerer(), Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 6, Rec: Record{ID: "c", Token: "c1", TTL: p.m.TTL, Prior: Prior{5, ReasonResigned}}}})
	if p.s.Phase != Watching || p.s.StandBackUntil != 0 {
		t.Errorf("%v, standing back until %d, with a successor", p.s.Phase, p.s.StandBackUntil)
	}
}

// A renewal that was under way when the work had stopped may be applied after
// the offer has left: the claim of whoever took the offer is refused then, and
// the vacancy has to stand on that renewal.
func TestTheVacancyAfterAnOfferFollowsOurOwnLateRenewal(t *testing.T) {
	p := elected(offerer())
	for p.s.Write.Stage != Flying {
		p.step(Event{Kind: Tick})
	}
	p.step(Event{Kind: StopRelease})
	p.step(Event{Kind: Drained})
	p.step(Event{Kind: Observed, Seen: p.own(6, 1)})
	if p.s.Write.Kind != Offer {
		t.Fatalf("a %v", p.s.Write.Kind)
	}
	p.answer(Event{Kind: Written, Outcome: Unknown})
	if w := p.s.Write; w.Kind != Release || w.Expected != 6 {
		t.Errorf("a %v expecting %d", w.Kind, w.Expected)
	}
}

// What an operator asked for is answered by a vacancy, in which everybody can
// read by whom and why.
func TestNothingIsOffered(t *testing.T) {
	for name, c := range map[string]struct {
		m  func(*Machine)
		ev Event
	}{
		"without a store that carries it": {m: func(m *Machine) { m.Offers = false }, ev: Event{Kind: StopRelease}},
		"for an operator":                 {ev: Event{Kind: Asked, Term: 5, Exit: Exit{Reason: ReasonSteppedDown, By: "o"}}},
		"for a pause":                     {ev: Event{Kind: Bar, Bars: Paused, Exit: Exit{Reason: ReasonPaused}}},
		"with a successor by name":        {ev: Event{Kind: Leave, Exit: Exit{Reason: ReasonTransferred, Successor: "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := offerer()
			if c.m != nil {
				c.m(&m)
			}
			p := elected(m)
			p.step(c.ev)
			p.step(Event{Kind: Drained})
			if p.s.Phase != Releasing || p.s.Write.Kind != Release {
				t.Errorf("%v: a %v", p.s.Phase, p.s.Write.Kind)
			}
		})
	}
}
