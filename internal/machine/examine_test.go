package machine

import (
	"testing"
	"time"
)

// found is a candidate whose claim of nothing was applied at revision 5, in a
// store that reports its age.
func found() *play {
	p := &play{m: unitMachine("a")}
	p.m.Ages = true
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a1"})
	p.answer(Event{Kind: Written, Rev: 5})
	return p
}

// examined answers the examination that is under way.
func (p *play) examined(out Outcome, doubt time.Duration) {
	p.step(Event{Kind: Examined, Op: p.s.Grant.Examine, Outcome: out, Doubt: doubt})
}

// led lets the candidate renew, and returns when it is promoted.
func (p *play) led(t *testing.T) (at int64) {
	t.Helper()
	for rev := uint64(6); !p.s.Grant.Promoted; rev++ {
		for p.s.Phase == Holding && !p.s.Grant.Promoted && p.s.Write.Stage != Flying {
			p.step(Event{Kind: Tick})
		}
		if p.s.Phase != Holding {
			t.Fatalf("it is %v", p.s.Phase)
		}
		if !p.s.Grant.Promoted {
			p.answer(Event{Kind: Written, Rev: rev})
		}
	}
	return p.now.Mono
}

func TestClaimOfAnEmptyKeyAwaitsTheAgeOfTheStore(t *testing.T) {
	for name, c := range map[string]struct {
		out   Outcome
		doubt time.Duration
		wait  time.Duration // from the answer
	}{
		"older than a lease":     {OK, 0, 0},
		"younger than a lease":   {OK, 9, 9},
		"no answer":              {Unknown, 0, 24}, // which comes one after the claim
		"may not be asked":       {Permanent, 0, 24},
		"the answer to another":  {255, 0, 24},
		"an answer that is late": {254, 0, 24},
	} {
		t.Run(name, func(t *testing.T) {
			p := found()
			if p.s.Phase != Holding || p.s.Grant.Promoted || p.s.Grant.Examine == 0 {
				t.Fatalf("%v, promoted %v, examination %d", p.s.Phase, p.s.Grant.Promoted, p.s.Grant.Examine)
			}
			begun := p.now.Mono + 1
			switch c.out {
			case 255:
				p.step(Event{Kind: Examined, Op: p.s.Grant.Examine + 100})
			case 254:
				p.led(t)
				p.examined(OK, 9)
				if !p.s.Grant.Promoted || p.s.YoungUntil > p.now.Mono {
					t.Errorf("promoted %v, young until %d", p.s.Grant.Promoted, p.s.YoungUntil)
				}
				return
			default:
				p.examined(c.out, c.doubt)
			}
			if c.wait == 0 {
				if !p.s.Grant.Promoted {
					t.Error("it is not promoted")
				}
				return
			}
			if at := p.led(t); at < begun+int64(c.wait) || at > begun+int64(c.wait)+2 {
				t.Errorf("promoted %d after the answer, want %d", at-begun, c.wait)
			}
		})
	}
}

// A candidate that claims after somebody else's record knows that the store was
// not empty.
func TestAClaimOfARecordAwaitsNoAge(t *testing.T) {
	m := unitMachine("a")
	m.Ages = true
	if p := elected(m); !p.s.Grant.Promoted {
		t.Errorf("%v and not promoted", p.s.Phase)
	}
}

// The store's age does not show what the store has lost since.
func TestAnExaminationEndsNoOtherDoubt(t *testing.T) {
	p := &play{m: unitMachine("a")}
	p.m.Ages, p.m.MaxTTL = true, 100
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 9, Rec: Record{ID: "b", Token: "b1", TTL: 80}}})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a1"})
	doubt := p.s.DoubtUntil
	p.answer(Event{Kind: Written, Rev: 10})
	p.examined(OK, 0)
	if p.s.Grant.Promoted {
		t.Fatal("promoted at once")
	}
	if at := p.led(t); at < doubt {
		t.Errorf("promoted at %d, and in doubt until %d", at, doubt)
	}
}

// A vacancy lets others lead at once, and over nothing it may be applied in a
// store that was made again.
func TestUnexaminedClaimOfAnEmptyKeyLeavesNoVacancy(t *testing.T) {
	for name, p := range map[string]*play{"claiming": {m: unitMachine("a")}, "holding": found()} {
		t.Run(name, func(t *testing.T) {
			if name == "claiming" {
				p.m.Ages = true
				p.step(Event{Kind: Start})
				p.step(Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a1"})
			}
			p.step(Event{Kind: StopRelease})
			if p.s.Phase != Stopped {
				t.Errorf("it is %v", p.s.Phase)
			}
		})
	}
	p := found()
	p.examined(OK, 0)
	p.step(Event{Kind: StopRelease})
	p.step(Event{Kind: Drained})
	if p.s.Phase != Releasing {
		t.Errorf("a leader that stops is %v", p.s.Phase)
	}
}

// again is what the claim of found wrote, applied once more.
func again() Seen {
	return Seen{Kind: Held, Rev: 7, Rec: Record{ID: "a", Token: "a1", TTL: 20}}
}

// A claim of nothing that is repeated may be applied in the store and, after
// another candidate has led there, in the store that replaced it. The record is
// ours, and does not show that the other led.
func TestClaimThatWasAppliedTwiceDoesNotPromote(t *testing.T) {
	for name, lead := range map[string]func(p *play){
		"leading":  func(*play) {},
		"draining": func(p *play) { p.step(Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}}) },
		"releasing": func(p *play) {
			p.step(Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}})
			p.step(Event{Kind: Drained})
		},
		"releasing, and refused": func(p *play) {
			p.step(Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}})
			p.step(Event{Kind: Drained})
			p.answer(Event{Kind: Written, Outcome: Unknown})
		},
		"watching": func(p *play) {
			p.step(Event{Kind: Closed, Term: 5})
			p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 6, Rec: Record{ID: "b", Token: "b1", TTL: 20}}})
			p.step(Event{Kind: Drained})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := found()
			p.examined(OK, 0)
			lead(p)
			sent := len(p.acts)
			p.step(Event{Kind: Observed, Seen: again(), Token: "a3"})
			if p.s.Phase == Draining {
				p.step(Event{Kind: Drained, Token: "a3"})
			}
			for range 3 {
				switch p.s.Write.Stage {
				case Flying:
					p.answer(Event{Kind: Written, Outcome: Conflict})
				case Reading:
					p.answer(Event{Kind: Read, Seen: again()})
				default:
				}
				if p.s.Phase == Claiming || p.s.Phase == Watching {
					break
				}
			}
			for _, a := range p.acts[sent:] {
				if (a.Kind == Send && a.Write == Release && a.Expected == again().Rev) || a.Kind == Promote {
					t.Errorf("%v(%v) expecting %d", a.Kind, a.Write, a.Expected)
				}
			}
			if p.s.YoungUntil <= p.now.Mono {
				t.Error("it does not doubt")
			}
		})
	}
}
