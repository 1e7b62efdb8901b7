package machine

import "testing"

// doubting is a candidate that saw the register go back and then claimed it.
func doubting() *play {
	p := &play{m: unitMachine("a")}
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 9, Rec: Record{ID: "b", Token: "b1", TTL: 20}}})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a1"})
	return p
}

// A vacancy lets others lead at once, including candidates that joined after
// the loss and do not know the leader whose record is gone. A candidate that
// knows of the loss does not write one.
func TestNoVacancyIsWrittenInDoubt(t *testing.T) {
	p := doubting()
	p.answer(Event{Kind: Written, Rev: 1})
	if p.s.Phase != Holding || p.s.Grant.Promoted {
		t.Fatalf("%v, promoted %v", p.s.Phase, p.s.Grant.Promoted)
	}
	p.step(Event{Kind: StopRelease})
	if p.s.Phase != Stopped {
		t.Errorf("a holder in doubt that stops is %v", p.s.Phase)
	}
	p = doubting()
	p.step(Event{Kind: StopRelease})
	if p.s.Phase != Stopped {
		t.Errorf("a claimant in doubt that stops is %v", p.s.Phase)
	}
	for _, a := range p.acts {
		if a.Kind == Send && a.Write == Release {
			t.Error("a vacancy is written")
		}
	}
}

// The doubt passes.
func TestAVacancyIsWrittenAfterTheDoubt(t *testing.T) {
	p := doubting()
	p.answer(Event{Kind: Written, Rev: 1})
	for rev := uint64(2); !p.s.Grant.Promoted; rev++ {
		for p.s.Write.Stage != Flying {
			p.step(Event{Kind: Tick})
		}
		p.answer(Event{Kind: Written, Rev: rev})
	}
	p.step(Event{Kind: StopRelease})
	p.step(Event{Kind: Drained})
	if p.s.Phase != Releasing {
		t.Errorf("a leader that stops is %v", p.s.Phase)
	}
}
