package machine

import (
	"math"
	"testing"
	"time"
)

// A leader without a grace period keeps its term without a connection for as long as its window is open.
func TestWithoutAGraceALostConnectionEndsNothing(t *testing.T) {
	p := reigning(unitMachine("a"))
	p.step(Event{Kind: ConnDown})
	p.step(Event{Kind: Tick})
	if !p.s.Leading(p.now) {
		t.Errorf("a leader without a connection is %v by %v", p.s.Phase, p.s.Reason)
	}
}

// Rests vary by the jitter, on both sides, and by no more.
func TestRestsVaryByTheJitter(t *testing.T) {
	r := Retry{Initial: time.Second, Max: 4 * time.Second, Multiplier: 2, Jitter: 0.5}
	for n, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 4 * time.Second} {
		least, middle, most := r.after(n, 0), r.after(n, 1<<63), r.after(n, math.MaxUint64)
		if least != want/2 || middle != want || most < want*3/2-time.Microsecond || most > want*3/2 {
			t.Errorf("after %d failures rests are from %v over %v to %v, want %v, more or less by half", n, least, middle, most, want)
		}
	}
}

// Another's record is not taken for our renewal because it has been renewed as often.
func TestAStrangersRenewalIsNotOurs(t *testing.T) {
	p := reigning(unitMachine("a"))
	p.step(Event{Kind: Validate})
	p.step(Event{Kind: Sight, Seen: Seen{Kind: Held, Rev: 6, Rec: Record{ID: "x", Token: "x1", TTL: 20, Term: 6, Renewal: 1}}})
	if p.s.Phase != Draining || p.s.Exit.Reason != ReasonSuperseded || p.s.Exit.By != "x" {
		t.Errorf("whose record was replaced is %v by %v of %q", p.s.Phase, p.s.Exit.Reason, p.s.Exit.By)
	}
}

// A window that closed ends the term that it belonged to, and no later one.
func TestTheEndOfAnotherTermsWindowEndsNothing(t *testing.T) {
	p := reigning(unitMachine("a"))
	p.step(Event{Kind: Closed, Term: 4})
	if !p.s.Leading(p.now) {
		t.Errorf("after the end of term 4 the leader of term 5 is %v", p.s.Phase)
	}
	p.step(Event{Kind: Closed, Term: 5})
	if p.s.Phase != Draining {
		t.Errorf("after the end of its own it is %v", p.s.Phase)
	}
}

// Who has stopped still tells when its work has ended, for that may be waited for.
func TestTheStoppedTellWhenTheirWorkHasEnded(t *testing.T) {
	p := reigning(unitMachine("a"))
	p.step(Event{Kind: StopLeave})
	p.now.Mono = p.s.DrainBy
	p.step(Event{Kind: Tick})
	p.step(Event{Kind: Tick})
	if p.s.Phase != Stopped || !p.s.Undrained {
		t.Fatalf("a stopped candidate whose work goes on is %v, undrained %v", p.s.Phase, p.s.Undrained)
	}
	p.step(Event{Kind: Drained})
	if p.s.Undrained {
		t.Error("its work has ended, and it does not say so")
	}
}
