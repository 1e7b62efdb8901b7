package machine

import "testing"

// A renewal that was under way when the work had stopped may be applied before
// the release, and be seen before the release's refusal. A read from a lagging
// replica could then show the record that it replaced: that is not a lost
// write, and must not make the others wait for the lease to run out.
func TestAReleaseThatMeetsOurOwnLateRenewalFollowsIt(t *testing.T) {
	p := elected(unitMachine("a"))
	for p.s.Write.Stage != Flying {
		p.step(Event{Kind: Tick})
	}
	p.step(Event{Kind: StopRelease})
	p.step(Event{Kind: Drained})
	if p.s.Write.Kind != Release || p.s.Write.Expected != 5 {
		t.Fatalf("a %v expecting %d", p.s.Write.Kind, p.s.Write.Expected)
	}
	p.step(Event{Kind: Observed, Seen: p.own(6, 1)})
	p.answer(Event{Kind: Written, Outcome: Conflict})
	for p.s.Write.Stage == Reading {
		p.answer(Event{Kind: Read, Seen: p.own(5, 0)})
		p.step(Event{Kind: Tick})
	}
	if p.s.Phase != Releasing || p.s.Write.Stage != Flying || p.s.Write.Expected != 6 {
		t.Errorf("%v: a %v %v expecting %d", p.s.Phase, p.s.Write.Kind, p.s.Write.Stage, p.s.Write.Expected)
	}
	if p.noted(NoteRegressed) {
		t.Error("the store counts as one that lost writes")
	}
}
