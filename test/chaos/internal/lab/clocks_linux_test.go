package lab

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/test/chaos/internal/history"
)

func TestMostRoundsHaveASlowAndAFastClock(t *testing.T) {
	const rounds = 200
	both := 0
	for seed := range uint64(rounds) {
		p := draw(seed, 1, nil)
		if len(p.rates) != p.candidates {
			t.Fatalf("seed %d: %d candidates, clock rates %v", seed, p.candidates, p.rates)
		}
		if p.extremes() {
			both++
		}
	}
	if both < rounds*3/4 || both == rounds {
		t.Errorf("both extremes in %d of %d rounds", both, rounds)
	}
}

// The lab would lose its hold on the margins if a rate left the drift, and with
// it the protocol's assumption A3.
func TestClocksStayWithinTheDriftOfTheCandidates(t *testing.T) {
	for _, rate := range []int{slowClock, trueClock, fastClock} {
		if r := float64(rate) / trueClock; r <= 1-drift || r >= 1+drift {
			t.Errorf("a rate of %v", r)
		}
	}
}

// ran is a process whose clock showed so much by the end of so many true
// seconds, both in seconds.
func ran(name string, rate int, own, span float64) history.Process {
	return history.Process{Name: name, ClockRate: rate, Events: []history.Event{
		{Kind: history.EventStarted, Clock: history.Reading{Own: 5, True: 7}},
		{Kind: history.EventVitals, Clock: history.Reading{Own: 5 + int64(own*1e9), True: 7 + int64(span*1e9)}},
	}}
}

func TestAClockThatDidNotRunAsItWasToldIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		process history.Process
		wrong   bool
	}{
		"slow":              {ran("c", slowClock, 1.802, 2), false},
		"fast":              {ran("c", fastClock, 2.198, 2), false},
		"not slow":          {ran("c", slowClock, 2, 2), true},
		"not fast":          {ran("c", fastClock, 2, 2), true},
		"too short to tell": {ran("c", fastClock, 0.5, 0.5), false},
		"not begun":         {history.Process{Name: "c", ClockRate: fastClock}, false},
	} {
		counts := newCounts()
		counts.add(history.Round{Processes: []history.Process{c.process}})
		if wrong := strings.Join(counts.wrongClocks, "; "); (wrong != "") != c.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func TestAMarginIsUsedWhereAFastClockWaitsOutASlowOne(t *testing.T) {
	leads := func(at int64, reason string) history.Event {
		return history.Event{At: at, Kind: history.EventTransition, To: "LEADER", Reason: reason}
	}
	slow := history.Process{ClockRate: slowClock, Events: []history.Event{leads(1, "absent"), leads(3, "expired"), leads(5, "expired")}}
	fast := history.Process{ClockRate: fastClock, Events: []history.Event{leads(2, "expired"), leads(4, "vacant"), leads(6, "expired"), leads(7, "expired")}}
	counts := newCounts()
	counts.add(history.Round{Processes: []history.Process{slow, fast}})
	if counts.margins != 2 || counts.extremes != 1 || counts.clocks[slowClock] != 1 || counts.clocks[fastClock] != 1 {
		t.Errorf("%d margins, %d rounds with both extremes, clocks %v", counts.margins, counts.extremes, counts.clocks)
	}
}
