package machine

import (
	"math"
	"testing"
	"time"
)

// 200 candidates that are started together meet contention once, all of them: those who claimed in
// vain, and those who came a moment too late to claim. A candidate that joins a group at rest meets none.
func TestStartAmongOthersIsContention(t *testing.T) {
	rival := func(renewal, rev uint64) Seen {
		return Seen{Kind: Held, Rev: rev, Rec: Record{ID: "b", Token: "b1", TTL: time.Second, Term: 1, Renewal: renewal, Start: renewal == 0}}
	}
	successor := rival(0, 5)
	successor.Rec.Start = false
	vacancy := Seen{Kind: Vacant, Rev: 9, Rec: Record{Token: "b1", Reason: ReasonResigned}}
	for name, c := range map[string]struct {
		sights []Seen
		delay  time.Duration
	}{
		"found a holder that just won": {[]Seen{rival(0, 1)}, startWindow},
		"claimed in vain":              {[]Seen{{Kind: Absent}, rival(0, 1)}, startWindow},
		"found a group at rest":        {[]Seen{rival(7, 8)}, 0},
		"came after a handover":        {[]Seen{successor}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := unitMachine("a")
			m.TTL = time.Second
			now := Instant{}
			s, _ := m.Step(State{}, Event{Kind: Start}, now)
			for _, seen := range append(c.sights, vacancy) {
				now = now.Add(time.Millisecond)
				s, _ = m.Step(s, Event{Kind: Sight, Seen: seen, Token: "a1", Rand: math.MaxUint64}, now)
			}
			waits := time.Duration(s.DueAt - now.Mono)
			if s.Phase == Claiming {
				waits = 0
			}
			if waits < c.delay*9/10 || waits > c.delay {
				t.Errorf("waits %v at the vacancy, want about %v", waits, c.delay)
			}
		})
	}
}
