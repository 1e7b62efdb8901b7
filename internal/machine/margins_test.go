package machine

import (
	"testing"
	"time"
)

// TestExploreMargins explores the fine scale with the few faults that bring two
// leaders as close together as they can come. It is small enough to run with
// every change, and finds a margin that is one unit short on either side.
func TestExploreMargins(t *testing.T) {
	for _, cfg := range []config{
		{
			name: "leases", clocks: fine(2), machines: fineMachines(2, nil), horizon: 14, faults: 1,
			kinds: setOf(kPause, kCutOff, kDelayUpdate, kCrash, kDelayReply), sample: 50, patience: finePatience,
		},
		{
			name: "a store that is made again", clocks: fine(2), machines: fineMachines(2, nil), horizon: 14, faults: 2,
			kinds: setOf(kRemade, kCutOff, kPause), late: true, sample: 50, patience: finePatience,
		},
		{
			name: "a store that is made again under a claim", clocks: fine(2), machines: fineMachines(2, ageing), horizon: 12, faults: 2,
			kinds: setOf(kRemade, kCutOff), sample: 50, patience: finePatience,
		},
		{
			name: "leases of different lengths over a store that forgets", clocks: steady(1, 1), machines: unevenFine(),
			kinds: setOf(kWipe, kCutOff), quiet: 12, horizon: 20, faults: 2, storeMay: true,
		},
	} {
		t.Run(cfg.name, func(t *testing.T) {
			t.Parallel()
			f := newExplorer(cfg).run()
			t.Logf("%d worlds", f.worlds)
			if f.bad != "" {
				t.Fatalf("%s after %d steps:\n%s", f.bad, f.steps, f.story)
			}
		})
	}
}

func unevenFine() []Machine {
	ms := fineMachines(2, nil)
	coolUneven(ms)
	return ms
}

// A cool-down waits for the longest lease that the candidate knows: its own, or
// the lease of a record seen before.
func TestACoolDownLastsAsLongAsTheLongestLeaseSeen(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"a longer one": 40, "a shorter one": 8} {
		t.Run(name, func(t *testing.T) {
			m := unitMachine("a")
			m.CoolDown, m.MaxTTL = true, 100
			p := &play{m: m}
			p.step(Event{Kind: Start})
			p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 3, Rec: Record{ID: "b", Token: "b1", TTL: ttl}}})
			p.step(Event{Kind: Observed, Seen: Seen{Kind: Vacant, Rev: 4, Rec: Record{Token: "b1"}}, Token: "a1"})
			p.answer(Event{Kind: Written, Rev: 5})
			if want := p.now.Mono + int64(m.wait(max(m.TTL, ttl))); p.s.Grant.PromoteAt != want {
				t.Errorf("it cools down until %d, want %d", p.s.Grant.PromoteAt, want)
			}
		})
	}
}

// A lagging replica does not show whether a release was applied: after a single
// such read the release is tried again, so that the group does not wait for a
// lease.
func TestStaleReadDoesNotEndARelease(t *testing.T) {
	p := elected(unitMachine("a"))
	p.step(Event{Kind: StopRelease})
	p.step(Event{Kind: Drained})
	p.answer(Event{Kind: Written, Outcome: Conflict})
	p.answer(Event{Kind: Read, Seen: Seen{Kind: Vacant, Rev: 3, Rec: Record{Token: "b0"}}})
	if p.s.Phase != Releasing {
		t.Errorf("after one old read it is %v", p.s.Phase)
	}
}

// A write that replaced the record after the window may have replaced a
// successor's record: a vacancy over it would let a third candidate lead beside
// the successor.
func TestRecordSeenAfterTheWindowIsNotVacated(t *testing.T) {
	for _, k := range []Kind{Bare, Malformed} {
		t.Run(k.String(), func(t *testing.T) {
			p := elected(unitMachine("a"))
			p.m.DrainBudget = 100
			p.now = p.s.Grant.Trust
			p.step(Event{Kind: Observed, Seen: Seen{Kind: k, Rev: 6}})
			p.step(Event{Kind: Drained})
			for _, a := range p.acts {
				if a.Kind == Send && a.Write == Release {
					t.Errorf("it writes a vacancy over revision %d", a.Expected)
				}
			}
		})
	}
}

// A claim is a new beginning: it states nothing of the one before.
func TestClaimDoesNotRepeatTheClaimBefore(t *testing.T) {
	p := elected(unitMachine("a"))
	p.step(Event{Kind: Closed, Term: 5})
	p.step(Event{Kind: Drained})
	p.answer(Event{Kind: Written, Rev: 6})
	for _, a := range p.acts[1:] {
		if a.Kind == Send && a.Write == Acquire {
			if a.Rec.Term != 0 || a.Rec.Renewal != 0 || p.s.Grant.Term != 0 || p.s.Grant.Rev != 0 {
				t.Errorf("it claims with %+v, and its grant is %+v", a.Rec, p.s.Grant)
			}
			return
		}
	}
	t.Errorf("it does not claim: %v", p.acts)
}

// A doubt is about somebody else's lease, which may be longer than the lease of
// the register's last record: the cool-down does not end it.
func TestADoubtOutlastsAShorterCoolDown(t *testing.T) {
	m := unitMachine("a")
	m.CoolDown, m.MaxTTL = true, 100
	p := &play{m: m}
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 9, Rec: Record{ID: "b", Token: "b1", TTL: 80}}})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a1"}) // all is lost
	doubt := p.s.DoubtUntil
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 1, Rec: Record{ID: "c", Token: "c1", TTL: 20}}})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Vacant, Rev: 2, Rec: Record{Token: "c1"}}, Token: "a2"})
	p.answer(Event{Kind: Written, Rev: 3})
	if p.s.Phase != Holding || p.s.Grant.PromoteAt != doubt {
		t.Errorf("it is %v, to be promoted at %d, and in doubt until %d", p.s.Phase, p.s.Grant.PromoteAt, doubt)
	}
}

// A second loss does not change the lease that was lost first.
func TestALaterDoubtShortensNoEarlierOne(t *testing.T) {
	m := unitMachine("a")
	m.MaxTTL = 100
	p := &play{m: m}
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 9, Rec: Record{ID: "b", Token: "b1", TTL: 80}}})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 3, Rec: Record{ID: "c", Token: "c1", TTL: 20}}})
	doubt := p.s.DoubtUntil
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 2, Rec: Record{ID: "c", Token: "c1", TTL: 20}}})
	if p.s.DoubtUntil != doubt || doubt == 0 {
		t.Errorf("in doubt until %d, and until %d before", p.s.DoubtUntil, doubt)
	}
}

// A claim that the candidate gave up may be applied after all, when the record
// in its way has vanished. Our record does not show the lease that it replaced.
func TestOurOwnRecordHidesNoLongerLease(t *testing.T) {
	m := unitMachine("a")
	m.CoolDown, m.Expires, m.MaxTTL = true, true, 100
	p := &play{m: m}
	p.step(Event{Kind: Start})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Absent}, Token: "a1"})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 5, Rec: Record{ID: "b", Token: "b1", TTL: 80}}})
	p.step(Event{Kind: Observed, Seen: Seen{Kind: Held, Rev: 6, Rec: Record{ID: "a", Token: "a1", TTL: m.TTL}}})
	p.answer(Event{Kind: Written, Rev: 7})
	if want := p.now.Mono + int64(m.wait(80)); p.s.Phase != Holding || p.s.Grant.PromoteAt != want {
		t.Errorf("it is %v and cools down until %d, want %d", p.s.Phase, p.s.Grant.PromoteAt, want)
	}
}
