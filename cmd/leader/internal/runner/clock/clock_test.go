package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// A suspension is a shared clock that runs ahead of Go's.
func newSuspended(asleep *time.Duration) *Clock {
	boot := time.Now()
	return New(func() int64 { return int64(time.Since(boot) + *asleep) })
}

func TestARequestOfBeforeASuspensionGrantsNoTimeForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asleep time.Duration
		c := newSuspended(&asleep)
		time.Sleep(time.Second)
		sent := time.Now()
		asleep = time.Hour // right after it left
		if got, want := c.At(sent), int64(time.Second); got != want {
			t.Errorf("sent at %d, want %d", got, want)
		}
		time.Sleep(time.Second)
		if got, want := c.At(time.Now()), int64(2*time.Second+time.Hour); got != want {
			t.Errorf("after the suspension %d, want %d", got, want)
		}
		if got, want := c.At(sent), int64(time.Second); got != want {
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
			c.Sample()
			asleep += time.Minute
			if got := c.At(sent); got > shown {
				t.Errorf("sent at %d, and not before %d", shown, got)
			}
		}
	})
}

func TestAWindowOnlyGrowsAndEndsWithItsTerm(t *testing.T) {
	w := NewWindow()
	w.Extend("a", 10)
	w.Extend("a", 5)
	if got := w.End("a"); got != 10 {
		t.Errorf("window of a ends at %d, want 10", got)
	}
	w.Extend("b", 7)
	if a, b := w.End("a"), w.End("b"); a != 0 || b != 7 {
		t.Errorf("windows of a and b end at %d and %d, want 0 and 7", a, b)
	}
}
