package machine

import (
	"slices"
	"testing"
)

// disconnecting is a candidate that keeps a term for 4 units without a
// connection and follows b's record.
func disconnecting() *play {
	m := unitMachine("a")
	m.DisconnectGrace = 4
	p := &play{m: m}
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 4, Rec: Record{ID: "b", Token: "b1", TTL: 20}}})
	return p
}

// kinds are the kinds of the actions so far.
func (p *play) kinds() (ks []ActionKind) {
	for _, a := range p.acts {
		ks = append(ks, a.Kind)
	}
	return ks
}

func (p *play) did(k ActionKind) bool { return slices.Contains(p.kinds(), k) }

// A claim may be acknowledged when the connection has been reported lost for
// longer than the grace, because the report and the answer travel separately.
// The candidate must not be promoted only to be demoted within the same step.
func TestAGrantDuringALongDisconnectionIsNotPromoted(t *testing.T) {
	p := disconnecting()
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Vacant, Rev: 5, Rec: Record{Token: "b1"}}, Token: "a1"})
	p.step(Event{Kind: ConnDown})
	p.now = p.now.Add(5)
	p.answer(Event{Kind: Written, Rev: 6})
	if p.did(Promote) || p.did(Demote) {
		t.Errorf("it does %v", p.kinds())
	}
	if p.s.Phase != Releasing || p.s.Exit.Reason != ReasonDisconnected {
		t.Errorf("it is %v for %q, want releasing for %q", p.s.Phase, p.s.Exit.Reason, ReasonDisconnected)
	}
}

// The grace is over before the cool-down is: the grant ends without a
// promotion.
func TestTheGraceEndsBeforeACoolDownPromotes(t *testing.T) {
	p := disconnecting()
	p.m.CoolDown = true
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Vacant, Rev: 5, Rec: Record{Token: "b1"}}, Token: "a1"})
	p.answer(Event{Kind: Written, Rev: 6})
	p.step(Event{Kind: ConnDown})
	p.now = p.now.Add(5)
	p.s.Grant.PromoteAt, p.s.Grant.Sent = p.now.Mono, p.now
	p.step(Event{Kind: Tick})
	if p.did(Promote) || p.s.Phase == Holding {
		t.Errorf("it does %v and is %v", p.kinds(), p.s.Phase)
	}
}

// A candidate that could not keep what it won does not campaign. Otherwise it
// claims, leaves, writes a vacancy, and claims again as fast as the store
// answers.
func TestNoClaimWithoutAConnectionIfAGraceIsSet(t *testing.T) {
	for _, c := range []struct {
		name string
		ev   Event
	}{
		{"a vacancy", Event{Kind: Observed, Seen: Seen{Kind: Vacant, Rev: 5, Rec: Record{Token: "b1"}}}},
		{"an expired lease", Event{Kind: Tick}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := disconnecting()
			p.step(Event{Kind: ConnDown})
			if c.ev.Kind == Tick {
				p.now = p.now.Add(40)
			}
			p.step(c.ev)
			if p.s.Phase != Watching || p.did(Send) {
				t.Errorf("it is %v and does %v", p.s.Phase, p.kinds())
			}
			if at := p.m.Wake(&p.s); at <= p.now.Mono {
				t.Errorf("it wants to be woken at %d, and it is %d", at, p.now.Mono)
			}
			p.step(Event{Kind: ConnUp})
			if p.s.Phase != Claiming {
				t.Errorf("with the connection back it is %v", p.s.Phase)
			}
		})
	}
}

// Without a grace the trust window alone decides, and so does the
// compare-and-swap: a store may answer although it reports that it is
// disconnected.
func TestWithoutAGraceALostConnectionKeepsNobodyFromClaiming(t *testing.T) {
	p := disconnecting()
	p.m.DisconnectGrace = 0
	p.step(Event{Kind: ConnDown})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Vacant, Rev: 5, Rec: Record{Token: "b1"}}})
	if p.s.Phase != Claiming {
		t.Errorf("it is %v", p.s.Phase)
	}
}

// A connection that flaps may be reported lost again and again. The grace
// counts from the first report, or a leader without a connection keeps its
// term.
func TestARepeatedDisconnectionDoesNotRestartTheGrace(t *testing.T) {
	p := disconnecting()
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Vacant, Rev: 5, Rec: Record{Token: "b1"}}, Token: "a1"})
	p.answer(Event{Kind: Written, Rev: 6})
	p.step(Event{Kind: ConnDown})
	p.now = p.now.Add(2)
	p.step(Event{Kind: ConnDown})
	p.step(Event{Kind: Tick})
	if p.s.Phase == Holding {
		t.Errorf("it holds %d after the connection was lost", p.now.Mono-p.s.DownSince)
	}
}

// A write whose last attempt was answered is under way no more.
func TestAWriteThatIsGivenUpIsNotUnderWay(t *testing.T) {
	m := unitMachine("a")
	m.Retry.MaxAttempts = 1
	p := elected(m)
	p.step(Event{Kind: Validate})
	p.answer(Event{Kind: Written, Outcome: Transient})
	if p.s.Phase != Draining || p.s.Write != (Write{}) {
		t.Errorf("it is %v, and its write %+v", p.s.Phase, p.s.Write)
	}
}

// A start may carry a doubt, when the store was made so recently that a leader
// may still trust a record in its predecessor.
func TestUncertainStartPromotesNobodyBeforeItsEnd(t *testing.T) {
	p := &play{m: unitMachine("a")}
	p.step(Event{Kind: Start, Doubt: 10})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a1"})
	p.answer(Event{Kind: Written, Rev: 1})
	if p.s.Phase != Holding || p.s.Grant.Promoted || p.s.Grant.PromoteAt != 11 {
		t.Fatalf("it is %v, promoted %v, to be promoted at %d", p.s.Phase, p.s.Grant.Promoted, p.s.Grant.PromoteAt)
	}
	p.step(Event{Kind: StopRelease})
	for _, a := range p.acts {
		if a.Write == Release {
			t.Errorf("in doubt it sends %v", a.Write)
		}
	}
}
