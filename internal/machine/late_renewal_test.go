package machine

import (
	"testing"
	"time"
)

// A wall clock that leaps leaves the window of the previous renewal open, while
// the window of the renewal that is answered has closed. The term ends then,
// and nothing is sent: the random schedules found a renewal that left after its
// window.
func TestARenewalWhoseOwnWindowHasClosedEndsTheTerm(t *testing.T) {
	m := Machine{ID: "a", TTL: 3 * time.Second, Heartbeat: time.Second, MaxTTL: time.Hour, Drift: .1, DrainBudget: time.Second}
	at := func(s int64) Instant { return Instant{Mono: s * int64(time.Second), Wall: s * int64(time.Second)} }
	s := State{
		Phase: Holding,
		View:  Seen{Kind: Held, Rev: 7, Rec: Record{ID: "a", Token: "t", Term: 7, TTL: m.TTL}},
		Grant: Grant{Token: "t", Term: 7, Rev: 7, Promoted: true, Sent: at(1), Trust: at(100)},
		Write: Write{Kind: Renew, Stage: Flying, Op: 5, Expected: 7, First: at(2), Sent: at(2)},
	}
	next, actions := m.Step(s, Event{Kind: Written, Op: 5, Outcome: OK, Rev: 8}, at(9))
	if next.Phase != Draining || next.Exit.Reason != ReasonTrust {
		t.Errorf("it is %v for %q", next.Phase, next.Exit.Reason)
	}
	for _, a := range actions {
		if a.Kind == Send {
			t.Errorf("it sends %v", a.Write)
		}
	}
}
