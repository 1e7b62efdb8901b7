package machine

import (
	"math"
	"testing"
	"time"
)

// A leader without a grace period keeps its term without a connection for as
// long as its window is open.
func TestWithoutAGraceALostConnectionEndsNothing(t *testing.T) {
	p := elected(unitMachine("a"))
	p.step(Event{Kind: ConnDown})
	p.step(Event{Kind: Tick})
	if !p.s.Leading(p.now) {
		t.Errorf("a leader without a connection is %v by %v", p.s.Phase, p.s.Reason)
	}
}

// Delays vary by the jitter, on both sides, and by no more.
func TestRestsVaryByTheJitter(t *testing.T) {
	r := Retry{Initial: time.Second, Max: 4 * time.Second, Multiplier: 2, Jitter: 0.5}
	for n, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 4 * time.Second} {
		least, middle, most := r.after(n, 0), r.after(n, 1<<63), r.after(n, math.MaxUint64)
		if least != want/2 || middle != want || most < want*3/2-time.Microsecond || most > want*3/2 {
			t.Errorf("after %d failures delays are from %v over %v to %v, want %v, more or less by half", n, least, middle, most, want)
		}
	}
}

// Another's record is not taken for our renewal because it has been renewed as
// often.
func TestAStrangersRenewalIsNotOurs(t *testing.T) {
	p := elected(unitMachine("a"))
	p.step(Event{Kind: Validate})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 6, Rec: Record{ID: "x", Token: "x1", TTL: 20, Term: 6, Renewal: 1}}})
	if p.s.Phase != Draining || p.s.Exit.Reason != ReasonSuperseded || p.s.Exit.By != "x" {
		t.Errorf("whose record was replaced is %v by %v of %q", p.s.Phase, p.s.Exit.Reason, p.s.Exit.By)
	}
}

// A window that closed ends the term that it belonged to, and no later one.
func TestTheEndOfAnotherTermsWindowEndsNothing(t *testing.T) {
	p := elected(unitMachine("a"))
	p.step(Event{Kind: Closed, Term: 4})
	if !p.s.Leading(p.now) {
		t.Errorf("after the end of term 4 the leader of term 5 is %v", p.s.Phase)
	}
	p.step(Event{Kind: Closed, Term: 5})
	if p.s.Phase != Draining {
		t.Errorf("after its term has ended it is %v", p.s.Phase)
	}
}

// A stopped candidate still reports when its work has ended, because somebody
// may wait for that.
func TestStoppedCandidateReportsTheEndOfItsWork(t *testing.T) {
	p := elected(unitMachine("a"))
	p.step(Event{Kind: StopLeave})
	p.now.Mono = p.s.DrainBy
	p.step(Event{Kind: Tick})
	p.step(Event{Kind: Tick})
	if p.s.Phase != Stopped || !p.s.Undrained {
		t.Fatalf("a stopped candidate whose work goes on is %v, undrained %v", p.s.Phase, p.s.Undrained)
	}
	p.step(Event{Kind: Drained})
	if p.s.Undrained {
		t.Error("its work has ended, and it does not report that")
	}
}

// A repeated observation of the state that a claim expects is not an answer to
// the claim.
func TestARepeatedObservationDoesNotEndAClaim(t *testing.T) {
	p := &play{m: unitMachine("a")}
	vacancy := Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b1"}}
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: vacancy, Token: "a1"})
	p.step(Event{Kind: Observed, Seen: vacancy})
	if p.s.Phase != Claiming || p.s.Grant.Token != "a1" || len(p.acts) != 1 {
		t.Errorf("a claimant is %v with token %s, after %v", p.s.Phase, p.s.Grant.Token, p.acts)
	}
}

// Where revisions come again, another's record may have the revision of our
// own.
func TestAStrangersRecordAtOurRevisionEndsTheTerm(t *testing.T) {
	p := elected(unitMachine("a"))
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 5, Rec: Record{ID: "x", Token: "x1", TTL: 20}}})
	if p.s.Phase != Draining || p.s.Exit.Reason != ReasonSuperseded {
		t.Errorf("whose record was replaced is %v by %v", p.s.Phase, p.s.Exit.Reason)
	}
}

// And shows those who watch that the store has lost writes.
func TestAnotherRecordAtTheSameRevisionIsALoss(t *testing.T) {
	p := &play{m: unitMachine("a")}
	p.step(Event{Kind: Start})
	for _, id := range []string{"b", "c"} {
		p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 9, Rec: Record{ID: id, Token: id, TTL: 20}}})
	}
	if !p.noted(NoteRegressed) || p.s.DoubtUntil < p.now.Mono+int64(p.m.TTL) {
		t.Errorf("doubts until %d at %d", p.s.DoubtUntil, p.now.Mono)
	}
}

// A deletion seen while the window was open may be vacated later, even if it is
// observed again then.
func TestADeletionSeenInTimeMayBeVacatedLater(t *testing.T) {
	p := elected(unitMachine("a"))
	p.m.DrainBudget = 100
	deletion := Seen{Kind: Bare, Rev: 6}
	p.step(Event{Kind: Observed, Seen: deletion})
	p.now.Mono = p.s.Grant.Trust.Mono
	p.step(Event{Kind: Observed, Seen: deletion})
	p.step(Event{Kind: Drained})
	if p.s.Phase != Releasing || p.s.Write.Expected != 6 {
		t.Errorf("when its work has stopped it is %v", p.s.Phase)
	}
}

// A record is kept while the work stops, until somebody who asked for the stop
// has waited long enough and asks again.
func TestARecordIsKeptUntilTheStopIsAskedForAgain(t *testing.T) {
	for name, c := range map[string]struct {
		stops []EventKind
		keep  bool
	}{
		"leave":               {[]EventKind{StopLeave}, true},
		"release":             {[]EventKind{StopRelease}, true},
		"release, then again": {[]EventKind{StopRelease, StopRelease}, true},
		"release, then leave": {[]EventKind{StopRelease, StopLeave}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := elected(unitMachine("a"))
			p.m.DrainBudget = 100
			p.step(Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}})
			for _, stop := range c.stops {
				p.step(Event{Kind: stop})
			}
			if p.s.Phase != Draining || p.s.keeps() != c.keep {
				t.Errorf("it is %v and keeps its record: %v", p.s.Phase, p.s.keeps())
			}
		})
	}
}

// A group that is resumed is challenged after the windows of those who go first
// and of the herd.
func TestAResumedGroupIsClaimedInOrder(t *testing.T) {
	m := unitMachine("a")
	m.TTL, m.MaxTTL, m.Yield = time.Second, time.Second, 30*time.Millisecond
	p := &play{m: m}
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Bar, Bars: Paused})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b1"}, Behind: 2}})
	p.now = p.now.Add(time.Minute)
	p.step(Event{Kind: Unbar, Bars: Paused, Rand: math.MaxUint64})
	want := p.now.Mono + int64(2*m.Yield+m.TTL/expiryShare)
	if p.s.DueAt > want || p.s.DueAt < want-1000 {
		t.Errorf("due at %v, want %v", time.Duration(p.s.DueAt), time.Duration(want))
	}
}

// The answer to a renewal does not describe what has replaced it since.
func TestALateAnswerDoesNotBringOurRecordBack(t *testing.T) {
	p := elected(unitMachine("a"))
	p.step(Event{Kind: Validate})
	op := p.s.Write.Op
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 7, Rec: Record{ID: "x", Token: "x1", TTL: 20}}})
	p.step(Event{Kind: Written, Op: op, Rev: 6})
	if p.s.View.Rev != 7 || p.noted(NoteRegressed) {
		t.Errorf("after revision 7 the register is seen at %d", p.s.View.Rev)
	}
}

// losing lets the release be refused and reads show an older register until it
// is believed.
func (p *play) losing() {
	p.answer(Event{Kind: Written, Outcome: Conflict})
	for p.s.Phase == Releasing {
		p.answer(Event{Kind: Read, Seen: Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b1"}}})
		p.now.Mono = max(p.now.Mono, p.s.Write.Due)
		p.step(Event{Kind: Tick})
	}
}

// While its window is open nobody else can have led by what was lost with a
// holder's own record.
func TestLossOfAnOwnRecordCausesNoCoolDown(t *testing.T) {
	p := elected(unitMachine("a"))
	p.m.Retry = Retry{}
	p.step(Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}})
	p.step(Event{Kind: Drained})
	p.losing()
	if !p.noted(NoteRegressed) || p.s.DoubtUntil != 0 {
		t.Errorf("regress noted %v, doubts until %d", p.noted(NoteRegressed), p.s.DoubtUntil)
	}
}

// By what replaced it somebody may have.
func TestALostMarkerOverOnesOwnRecordIsDoubted(t *testing.T) {
	p := elected(unitMachine("a"))
	p.m.Retry = Retry{}
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Bare, Rev: 6}})
	p.step(Event{Kind: Drained})
	p.losing()
	if p.s.DoubtUntil < p.now.Mono {
		t.Errorf("doubts until %d at %d", p.s.DoubtUntil, p.now.Mono)
	}
}

// An acknowledgement that comes while the work stops goes on keeping the
// record.
func TestAnAcknowledgementWhileTheWorkStopsKeepsTheRecord(t *testing.T) {
	p := elected(unitMachine("a"))
	p.step(Event{Kind: Validate})
	p.step(Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}})
	p.answer(Event{Kind: Written, Rev: 6})
	if p.s.View.Rev != 6 || !p.s.keeps() || p.s.Grant.Renewal != 1 {
		t.Errorf("the record is seen at %d with %d renewals, and kept: %v", p.s.View.Rev, p.s.Grant.Renewal, p.s.keeps())
	}
}

// A read that shows another's record at the revision which a write expects ends
// what the write was for: revisions come again.
func TestAnothersRecordAtTheExpectedRevisionEndsTheWrite(t *testing.T) {
	other := Record{ID: "x", Token: "x1", TTL: 20}
	leader := elected(unitMachine("a"))
	leader.step(Event{Kind: Validate})
	leader.answer(Event{Kind: Written, Outcome: Conflict})
	leader.answer(Event{Kind: Read, Seen: Seen{Kind: Held, Rev: 5, Rec: other}})
	if leader.s.Phase != Draining || leader.s.Exit.Reason != ReasonSuperseded || leader.s.Exit.By != "x" {
		t.Errorf("a leader whose revision is another's is %v by %v of %q", leader.s.Phase, leader.s.Exit.Reason, leader.s.Exit.By)
	}
	claimant := &play{m: unitMachine("a")}
	claimant.step(Event{Kind: Start})
	claimant.step(Event{Kind: Observed, Seen: Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b1"}}, Token: "a1"})
	claimant.answer(Event{Kind: Written, Outcome: Conflict})
	claimant.answer(Event{Kind: Read, Seen: Seen{Kind: Held, Rev: 4, Rec: other}})
	if claimant.s.Phase != Watching || claimant.s.View.Rec.ID != "x" || claimant.s.DoubtUntil == 0 || claimant.noted(NoteLost) {
		t.Errorf("a claimant whose revision is another's is %v, sees %v", claimant.s.Phase, claimant.s.View)
	}
}

// However many there are to be let go first, they cost half a lease at the
// most.
func TestPreferredCandidatesDelayOthersByHalfALease(t *testing.T) {
	m := unitMachine("a")
	m.Yield = 2
	p := &play{m: m}
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b1"}, Behind: 200}})
	if due := p.now.Mono + int64(m.TTL/2); p.s.DueAt != due {
		t.Errorf("due at %d, want %d", p.s.DueAt, due)
	}
}

// A single lagging replica does not end a term. After three reads in a row that
// show the same, the candidate no longer waits for its claim.
func TestOldReadsAreBelievedAtTheThird(t *testing.T) {
	old := Seen{Kind: Vacant, Rev: 3, Rec: Record{Token: "b0"}}
	leader := elected(unitMachine("a"))
	leader.step(Event{Kind: Validate})
	leader.answer(Event{Kind: Written, Outcome: Conflict})
	leader.answer(Event{Kind: Read, Seen: old})
	if !leader.s.Leading(leader.now) {
		t.Errorf("after one old read a leader is %v", leader.s.Phase)
	}
	p := &play{m: unitMachine("a")}
	p.m.Retry = Retry{}
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 4, Rec: Record{ID: "b", Token: "b1", TTL: 20}}})
	p.now.Mono = p.s.DueAt
	p.step(Event{Kind: Tick, Token: "a1"})
	p.answer(Event{Kind: Written, Outcome: Conflict})
	reads := 0
	for ; p.s.Write.Expected == 4 && reads < 10; reads++ {
		p.step(Event{Kind: Tick}) // the backoff is over
		p.answer(Event{Kind: Read, Seen: old})
	}
	if reads != staleReads {
		t.Errorf("a claim was given up after %d old reads", reads)
	}
}

// A renewal that is refused while the work stops, and cannot have been applied,
// shows that the record is another's.
func TestARefusedRenewalEndsTheKeepingOfTheRecord(t *testing.T) {
	p := elected(unitMachine("a"))
	p.m.DrainBudget = 100
	p.step(Event{Kind: Validate})
	p.step(Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}})
	p.answer(Event{Kind: Written, Outcome: Conflict})
	if p.s.Phase != Draining || p.s.keeps() {
		t.Errorf("it is %v and keeps the record: %v", p.s.Phase, p.s.keeps())
	}
}

// The random part of a delay is added to the wait that a rule requires, and
// never subtracted from it.
func TestRandomDelaysNeverShortenAWait(t *testing.T) {
	const unit = time.Second
	m := unitMachine("a")
	m.TTL, m.MaxTTL, m.HeadStart = 100*unit, 100*unit, 5*unit
	full := m.wait(m.TTL)
	for name, c := range map[string]struct {
		seen  Seen
		least time.Duration
	}{
		"held":                    {Seen{Kind: Held, Rev: 4, Rec: Record{ID: "b", Token: "b1", TTL: m.TTL}}, full},
		"deleted":                 {Seen{Kind: Bare, Rev: 4}, full},
		"malformed":               {Seen{Kind: Malformed, Rev: 4}, full},
		"vacant for a successor":  {Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b1", Successor: "c"}}, m.HeadStart},
		"vacant for whoever":      {Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b1"}}, 0},
		"nothing was ever stored": {Seen{Kind: Absent}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			spread := map[time.Duration]bool{}
			for i := range uint64(64) {
				// A race that was lost makes delays long.
				p := &play{m: m, s: State{Window: unit, HeldTTL: m.TTL}}
				p.s.Phase = Watching
				p.step(Event{Kind: Observed, Seen: c.seen, Rand: i << 58})
				due := p.now.Mono
				if p.s.Phase == Watching {
					due = p.s.DueAt
				}
				if got := time.Duration(due - p.now.Mono); got < c.least {
					t.Fatalf("with the random number %d/64 it waits %v, want %v at least", i, got, c.least)
				} else {
					spread[got] = true
				}
			}
			if len(spread) < 32 {
				t.Errorf("64 random numbers give %d delays", len(spread))
			}
		})
	}
}

// The number of a term is the revision of its claim, which the claim's own
// record can not know yet.
func TestTheTermOfAnObservation(t *testing.T) {
	for name, c := range map[string]struct {
		seen Seen
		want uint64
	}{
		"the claim":                {Seen{Kind: Held, Rev: 7, Rec: Record{ID: "b", Token: "b1"}}, 7},
		"a renewal":                {Seen{Kind: Held, Rev: 9, Rec: Record{ID: "b", Token: "b1", Term: 7}}, 7},
		"a vacancy":                {Seen{Kind: Vacant, Rev: 9, Rec: Record{Token: "b1", Term: 7}}, 7},
		"a vacancy without one":    {Seen{Kind: Vacant, Rev: 9, Rec: Record{Token: "b1"}}, 0},
		"a record that is deleted": {Seen{Kind: Bare, Rev: 9}, 0},
	} {
		if got := c.seen.Term(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
