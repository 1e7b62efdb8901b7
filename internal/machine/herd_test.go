package machine

import (
	"math"
	"testing"
	"time"
)

// 200 candidates that are started together meet contention once, all of them:
// those who claimed in vain, and those who came a moment too late to claim. A
// candidate that joins a group at rest meets none.
func TestStartAmongOthersIsContention(t *testing.T) {
	rival := func(renewal, rev uint64) Seen {
		return Seen{Kind: Held, Rev: rev, Rec: Record{ID: "b", Token: "b1", TTL: time.Second, Term: 1, Renewal: renewal, Start: renewal == 0}}
	}
	successor := rival(0, 5)
	successor.Rec.Start = false
	vacancy := Seen{Kind: Vacant, Rev: 9, Rec: Record{Token: "b1", Reason: ReasonResigned}}
	for name, c := range map[string]struct {
		states []Seen
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
			for _, seen := range append(c.states, vacancy) {
				now = now.Add(time.Millisecond)
				s, _ = m.Step(s, Event{Kind: Observed, Seen: seen, Token: "a1", Rand: math.MaxUint64}, now)
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

// How far the candidates are spread that go for a register at one time: by a
// hundredth of a lease where it ran out, by round trips after a lost race,
// twice as far after each; never by more than half a lease, nor by so much that
// those who are preferred no longer go first.
func TestTheWindowsThatSpreadCandidates(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		ttl    time.Duration
		s      State
		expiry time.Duration // 0 is not looked at
		race   time.Duration
	}{
		"a short lease":                   {500 * ms, State{}, 5 * ms, 0},
		"a long lease":                    {time.Minute, State{}, 10 * ms, 0},
		"one race lost":                   {time.Minute, State{Losses: 1, RTT: 3 * ms}, 24 * ms, 24 * ms},
		"two":                             {time.Minute, State{Losses: 2, RTT: 3 * ms}, 48 * ms, 48 * ms},
		"nine":                            {time.Minute, State{Losses: 9, RTT: 3 * ms}, 256 * 24 * ms, 256 * 24 * ms},
		"ten":                             {time.Minute, State{Losses: 10, RTT: 3 * ms}, 0, 256 * 24 * ms},
		"one, on a quick net":             {time.Minute, State{Losses: 1, RTT: time.Microsecond}, 0, 2 * ms},
		"others have just won a start":    {time.Minute, State{StartRace: true}, 0, 100 * ms},
		"nine, on a short lease":          {500 * ms, State{Losses: 9, RTT: 3 * ms}, 0, 250 * ms},
		"two, where others are preferred": {time.Minute, State{Losses: 2, RTT: 3 * ms, Ranked: true}, 0, 20 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			s := step{m: &Machine{ID: "a", TTL: c.ttl, Yield: 40 * ms}, s: &c.s, ev: &Event{Rand: math.MaxUint64}}
			near := func(got, want time.Duration) bool { return got <= want && got >= want-time.Microsecond }
			if got := s.contention(); !near(got, c.race) {
				t.Errorf("at a vacancy up to %v, want %v", got, c.race)
			}
			if got := s.expiryJitter(); c.expiry != 0 && !near(got, c.expiry) {
				t.Errorf("after an expiry up to %v, want %v", got, c.expiry)
			}
		})
	}
}
