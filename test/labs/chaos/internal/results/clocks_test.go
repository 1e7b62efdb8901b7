package results

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
)

// ran is a process whose clock showed so much by the end of so many true
// seconds, both in seconds.
func ran(name string, rate int, own, span float64) history.Process {
	return history.Process{Name: name, ClockRate: rate, Events: []history.Event{
		{Kind: history.EventStarted, Clock: history.Reading{Own: 5, True: 7}},
		{Kind: history.EventVitals, Clock: history.Reading{Own: 5 + int64(own*1e9), True: 7 + int64(span*1e9)}},
	}}
}

func TestAClockOfAWrongRateIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		process history.Process
		wrong   bool
	}{
		"slow":                 {ran("c", schedule.SlowClock, 1.802, 2), false},
		"fast":                 {ran("c", schedule.FastClock, 2.198, 2), false},
		"not slow":             {ran("c", schedule.SlowClock, 2, 2), true},
		"not fast":             {ran("c", schedule.FastClock, 2, 2), true},
		"too short to measure": {ran("c", schedule.FastClock, 0.5, 0.5), false},
		"not begun":            {history.Process{Name: "c", ClockRate: schedule.FastClock}, false},
	} {
		counts := NewCounts()
		counts.Add(history.Round{Processes: []history.Process{c.process}})
		if wrong := strings.Join(counts.wrongClocks, "; "); (wrong != "") != c.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func TestServersWithClocksOfAWrongRateAreFound(t *testing.T) {
	at := func(own, asked, answered float64) history.ServerReading {
		return history.ServerReading{Own: int64(own * 1e9), Asked: history.Sample{T0: int64(asked * 1e9), T1: int64(answered * 1e9)}}
	}
	for name, c := range map[string]struct {
		rate  int
		clock [2]history.ServerReading
		wrong bool
	}{
		"as told":                            {1400, [2]history.ServerReading{at(70, 1, 1.01), at(72.8, 3, 3.01)}, false},
		"true":                               {1400, [2]history.ServerReading{at(70, 1, 1.01), at(72, 3, 3.01)}, true},
		"answered late, at the ordered rate": {1400, [2]history.ServerReading{at(70, 1, 2), at(71.4, 2.9, 3)}, false},
		"never asked":                        {1400, [2]history.ServerReading{}, true},
		"nobody wanted to know that":         {0, [2]history.ServerReading{}, false},
	} {
		counts := NewCounts()
		counts.Add(history.Round{ServerRate: c.rate, ServersClock: c.clock})
		if wrong := strings.Join(counts.wrongClocks, "; "); (wrong != "") != c.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

func TestAMarginIsUsedWhereAFastClockWaitsOutASlowOne(t *testing.T) {
	leads := func(at int64, reason string) history.Event {
		return history.Event{At: at, Kind: history.EventTransition, To: "LEADER", Reason: reason}
	}
	slow := history.Process{ClockRate: schedule.SlowClock, Events: []history.Event{leads(1, "absent"), leads(3, "expired"), leads(5, "expired")}}
	fast := history.Process{ClockRate: schedule.FastClock, Events: []history.Event{leads(2, "expired"), leads(4, "vacant"), leads(6, "expired"), leads(7, "expired")}}
	counts := NewCounts()
	counts.Add(history.Round{Processes: []history.Process{slow, fast}})
	if counts.margins != 2 || counts.extremes != 1 || counts.clocks[schedule.SlowClock] != 1 || counts.clocks[schedule.FastClock] != 1 {
		t.Errorf("%d margins, %d rounds with both extremes, clocks %v", counts.margins, counts.extremes, counts.clocks)
	}
}
