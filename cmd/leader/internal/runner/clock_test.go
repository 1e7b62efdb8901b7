package runner

import (
	"testing"
	"testing/synctest"
	"time"
)

// A suspension is a shared clock that runs ahead of Go's.
func newSuspended(asleep *time.Duration) *suspendClock {
	boot := time.Now()
	return newSuspendClock(func() int64 { return int64(time.Since(boot) + *asleep) })
}

func TestARequestOfBeforeASuspensionGrantsNoTimeForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asleep time.Duration
		c := newSuspended(&asleep)
		time.Sleep(time.Second)
		sent := time.Now()
		asleep = time.Hour // right after it left
		if got, want := c.at(sent), int64(time.Second); got != want {
			t.Errorf("sent at %d, want %d", got, want)
		}
		time.Sleep(time.Second)
		if got, want := c.at(time.Now()), int64(2*time.Second+time.Hour); got != want {
			t.Errorf("after the suspension %d, want %d", got, want)
		}
		if got, want := c.at(sent), int64(time.Second); got != want {
			t.Errorf("and before it %d, want %d", got, want)
		}
	})
}

func TestOfManySuspensionsNoneIsCountedTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asleep time.Duration
		c := newSuspended(&asleep)
		for range 5 {
			time.Sleep(time.Second)
			sent, shown := time.Now(), c.now()
			asleep += time.Minute
			c.sample()
			asleep += time.Minute
			if got := c.at(sent); got > shown {
				t.Errorf("sent at %d, and not before %d", shown, got)
			}
		}
	})
}

func TestAWindowOnlyGrowsAndEndsWithItsTerm(t *testing.T) {
	w := newWindow()
	w.extend("a", 10)
	w.extend("a", 5)
	if got := w.end("a"); got != 10 {
		t.Errorf("window of a ends at %d, want 10", got)
	}
	w.extend("b", 7)
	if a, b := w.end("a"), w.end("b"); a != 0 || b != 7 {
		t.Errorf("windows of a and b end at %d and %d, want 0 and 7", a, b)
	}
}
