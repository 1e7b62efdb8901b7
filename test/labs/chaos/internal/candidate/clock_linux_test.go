package candidate

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
)

// A second by a slow clock is more than a second by the machine's clock.
func TestInstantsAreOfTheMachinesClock(t *testing.T) {
	for rate, ago := range map[int]time.Duration{
		0: time.Second, 1000: time.Second, 500: 2 * time.Second, 2000: time.Second / 2,
	} {
		before := overlap.Now()
		at := newClock(rate).instant(time.Now().Add(-time.Second))
		after := overlap.Now()
		// The process may be stopped between any two readings, and what it then
		// takes for longer ago is so by the rate of its clock.
		spent := after - before
		if at < before-int64(ago)-2*spent || at > after-int64(ago) {
			t.Errorf("rate %d: %v ago, not %v", rate, time.Duration(after-at), ago)
		}
	}
}

func TestAReadingIsOfBothClocksAtOnce(t *testing.T) {
	c := newClock(0)
	first := c.reading()
	for range 100 {
		r := c.reading()
		// The test's own clocks run at one rate. A stop of the test between two
		// readings is found out by them.
		if apart := (r.Own - first.Own) - (r.True - first.True); apart < -2*int64(together) || apart > 2*int64(together) {
			t.Fatalf("%d ns apart: %+v, %+v", apart, first, r)
		}
	}
}
