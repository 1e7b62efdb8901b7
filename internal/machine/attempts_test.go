package machine

import (
	"testing"
	"time"
)

// The number of a call alone distinguishes its answer from others, so no two
// calls have the same number.
func TestNoTwoCallsHaveOneNumber(t *testing.T) {
	m := unitMachine("a")
	m.TTL, m.MaxTTL = 2000, 2000
	p := elected(m)
	p.step(Event{Kind: Validate})
	for range 4 {
		p.answer(Event{Kind: Written, Outcome: Conflict})
		p.answer(Event{Kind: Read, Seen: p.own(5, 0)}) // by which the refusal proves nothing
		for p.s.Write.Stage == BackingOff {
			p.step(Event{Kind: Tick})
		}
	}
	seen := map[uint64]bool{}
	for _, a := range p.acts {
		if a.Kind != Send && a.Kind != Look {
			continue
		}
		if seen[a.Op] {
			t.Errorf("%v has the number %d of an earlier call", a.Kind, a.Op)
		}
		seen[a.Op] = true
	}
	if len(seen) < 10 {
		t.Errorf("%d calls", len(seen))
	}
}

// A renewal is given up after so many attempts, and with it the term; a claim
// goes on after a long backoff.
func TestAttemptsAreCountedToTheirBound(t *testing.T) {
	m := unitMachine("a")
	m.Retry = Retry{MaxAttempts: 2, Initial: 1, Max: 5, Multiplier: 1}
	leader := elected(m)
	leader.step(Event{Kind: Validate})
	leader.answer(Event{Kind: Written, Outcome: Transient})
	if leader.s.Phase != Holding || leader.s.Write.Stage != BackingOff {
		t.Fatalf("after one failure a leader is %v by %v", leader.s.Phase, leader.s.Reason)
	}
	leader.step(Event{Kind: Tick})
	leader.answer(Event{Kind: Written, Outcome: Transient})
	if leader.s.Phase != Draining || leader.s.Exit.Reason != ReasonRetries {
		t.Errorf("after two it is %v by %v", leader.s.Phase, leader.s.Reason)
	}

	claimant := &play{m: m}
	claimant.step(Event{Kind: Start})
	claimant.step(Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a1"})
	for n, delay := range []time.Duration{1, 5, 1, 5} {
		claimant.answer(Event{Kind: Written, Outcome: Transient})
		if got := claimant.s.Write.Due - claimant.now.Mono; claimant.s.Phase != Claiming || got != int64(delay) {
			t.Fatalf("after failure %d a claimant is %v and waits for %d, want %d", n+1, claimant.s.Phase, got, delay)
		}
		for claimant.s.Write.Stage == BackingOff {
			claimant.step(Event{Kind: Tick})
		}
	}
}

// A read that does not answer counts as an attempt, since it, too, shows that
// the store does not serve.
func TestReadsThatFailAreAttempts(t *testing.T) {
	p := elected(unitMachine("a"))
	p.m.Retry = Retry{MaxAttempts: 2, Initial: 1, Max: 5, Multiplier: 1}
	p.step(Event{Kind: Validate})
	p.answer(Event{Kind: Written, Outcome: Conflict})
	p.answer(Event{Kind: Read, Outcome: Transient})
	if p.s.Phase != Draining || p.s.Exit.Reason != ReasonRetries {
		t.Errorf("after a refused renewal and a failed read a leader is %v by %v", p.s.Phase, p.s.Reason)
	}
}

// A stopping candidate does not wait for a release that cannot be written.
// Otherwise the release is tried again.
func TestStopGivesUpAReleaseThatIsDenied(t *testing.T) {
	for name, c := range map[string]struct {
		leave   Event
		outcome Outcome
		want    Phase
	}{
		"stops, for good":      {Event{Kind: StopRelease}, Permanent, Stopped},
		"stops, for a while":   {Event{Kind: StopRelease}, Transient, Releasing},
		"resigns, for good":    {Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}}, Permanent, Releasing},
		"resigns, for a while": {Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}}, Transient, Releasing},
	} {
		t.Run(name, func(t *testing.T) {
			p := elected(unitMachine("a"))
			p.step(c.leave)
			p.step(Event{Kind: Drained})
			p.answer(Event{Kind: Written, Outcome: c.outcome})
			if p.s.Phase != c.want || p.noted(NoteGaveUp) != (c.want == Stopped) || p.noted(NoteFailed) == (c.want == Stopped) {
				t.Errorf("it is %v, want %v; after %v", p.s.Phase, c.want, p.acts)
			}
		})
	}
}

// While the work stops, a read that shows the register as it was proves nothing
// about a renewal that may still be under way: the record is kept, and the
// question asked again.
func TestReadOfAKnownRevisionDoesNotEndKeeping(t *testing.T) {
	m := unitMachine("a")
	m.TTL, m.MaxTTL, m.DrainBudget = 200, 200, 1000
	p := elected(m)
	p.step(Event{Kind: Validate})
	p.step(Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}})
	p.answer(Event{Kind: Written, Outcome: Unknown})
	for p.s.Write.Stage == BackingOff {
		p.step(Event{Kind: Tick})
	}
	p.answer(Event{Kind: Written, Outcome: Conflict})
	p.answer(Event{Kind: Read, Seen: p.own(5, 0)})
	if p.s.Phase != Draining || !p.s.keeps() || p.s.Write.Kind != Renew || p.s.Write.Stage != BackingOff {
		t.Errorf("it is %v, keeps the record: %v, a %v at stage %v", p.s.Phase, p.s.keeps(), p.s.Write.Kind, p.s.Write.Stage)
	}
}
