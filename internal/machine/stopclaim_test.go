package machine

import "testing"

// A candidate that is stopped while its claim is under way leaves because of
// the stop, not because of what it claimed for.
func TestStopWhileClaimingReportsStopped(t *testing.T) {
	var s State
	m := Machine{ID: "a", TTL: 1000, Heartbeat: 250, MaxTTL: 10000, Drift: 0.1}
	s, _ = m.Step(s, Event{Kind: Start, Token: "t"}, Instant{})
	s, _ = m.Step(s, Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "t"}, Instant{Mono: 1, Wall: 1})
	if s.Phase != Claiming {
		t.Fatal(s.Phase)
	}
	s, _ = m.Step(s, Event{Kind: StopRelease, Token: "t"}, Instant{Mono: 2, Wall: 2})
	if s.Public() != Demoted || s.Reason != ReasonStopped {
		t.Errorf("phase %v, reason %q", s.Phase, s.Reason)
	}
}

// A candidate that is stopped while its claim is under way writes a vacancy,
// perhaps over its own claim, perhaps over the vacancy that it claimed. Either
// names the last term: an observer has no other way to learn it.
func TestAVacancyInPlaceOfAClaimNamesTheLastTerm(t *testing.T) {
	m := Machine{ID: "b", TTL: 1000, Heartbeat: 250, MaxTTL: 10000, Drift: 0.1}
	vacancy := Seen{Kind: Vacant, Rev: 7, Rec: Record{Token: "a1", Term: 3, Reason: ReasonResigned, By: "a", Why: "new disk"}}
	at := func(n int64) Instant { return Instant{Mono: n, Wall: n} }
	claim := func() State {
		s, _ := m.Step(State{}, Event{Kind: Start, Token: "b1"}, Instant{})
		s, _ = m.Step(s, Event{Kind: Observed, Seen: vacancy, Token: "b1"}, at(1))
		if s.Phase != Claiming {
			t.Fatal(s.Phase)
		}
		return s
	}
	sent := func(out []Action) Record {
		for _, a := range out {
			if a.Kind == Send && a.Write == Release {
				return a.Rec
			}
		}
		t.Fatalf("no vacancy is written: %+v", out)
		return Record{}
	}
	s, out := m.Step(claim(), Event{Kind: StopRelease, Token: "b1"}, at(2))
	if r := sent(out); r.Term != 3 || r.Reason != ReasonResigned || r.By != "a" || r.Why != "new disk" || r.Token == "a1" {
		t.Errorf("over the vacancy that was claimed: %+v", r)
	}
	// The claim was applied all the same, as the watch shows.
	s, out = m.Step(s, Event{Kind: Written, Op: s.Write.Op, Outcome: Conflict, Token: "b1"}, at(3))
	mine := Seen{Kind: Held, Rev: 8, Rec: Record{ID: "b", Token: s.Grant.Token, TTL: 1000, Nonce: s.Grant.Nonce}}
	if s.Write.Stage != Reading {
		t.Fatalf("not read: %+v", out)
	}
	_, out = m.Step(s, Event{Kind: Read, Op: s.Write.Op, Outcome: OK, Seen: mine, Token: "b1"}, at(4))
	if r := sent(out); r.Term != 8 || r.Reason != ReasonStopped || r.By != "b" {
		t.Errorf("over the claim: %+v", r)
	}
}
