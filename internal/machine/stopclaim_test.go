package machine

import "testing"

// A candidate that is stopped while its claim is under way leaves because of the stop, not because of what it claimed for.
func TestStopWhileClaimingSaysThatItWasStopped(t *testing.T) {
	var s State
	m := Machine{ID: "a", TTL: 1000, Heartbeat: 250, MaxTTL: 10000, Drift: 0.1}
	s, _ = m.Step(s, Event{Kind: Start, Token: "t"}, Instant{})
	s, _ = m.Step(s, Event{Kind: Sight, Seen: Seen{Kind: Absent}, Token: "t"}, Instant{Mono: 1, Wall: 1})
	if s.Phase != Claiming {
		t.Fatal(s.Phase)
	}
	s, _ = m.Step(s, Event{Kind: StopRelease, Token: "t"}, Instant{Mono: 2, Wall: 2})
	if s.Public() != Demoted || s.Reason != ReasonStopped {
		t.Errorf("phase %v, reason %q", s.Phase, s.Reason)
	}
}
