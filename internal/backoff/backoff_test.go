package backoff_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
)

func TestDelaysGrowUpToTheMaximum(t *testing.T) {
	for name, c := range map[string]struct {
		policy backoff.Policy
		want   []time.Duration // from failure 1 on
	}{
		"doubled if nothing is said": {
			backoff.Policy{Initial: 10, Max: 100}, []time.Duration{10, 20, 40, 80, 100, 100},
		},
		"by another multiplier": {
			backoff.Policy{Initial: 100, Max: 1000, Multiplier: 1.5}, []time.Duration{100, 150, 225, 337},
		},
		"not at all":                           {backoff.Policy{Initial: 10, Max: 100, Multiplier: 1}, []time.Duration{10, 10, 10}},
		"never shrinking":                      {backoff.Policy{Initial: 10, Max: 100, Multiplier: 0.5}, []time.Duration{10, 10, 10}},
		"the first above the maximum":          {backoff.Policy{Initial: 200, Max: 100}, []time.Duration{100, 100}},
		"without a bound":                      {backoff.Policy{Initial: 1}, []time.Duration{1, 2, 4, 8, 16}},
		"nothing, which stays nothing forever": {backoff.Policy{Max: 100}, []time.Duration{0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, want := range c.want {
				if got := c.policy.After(i + 1); got != want {
					t.Errorf("after failure %d: %d, want %d", i+1, got, want)
				}
			}
		})
	}
}

func TestADelayNeverOverflows(t *testing.T) {
	for name, p := range map[string]backoff.Policy{
		"without a bound":        {Initial: time.Hour, Multiplier: 1e9},
		"with the longest bound": {Initial: time.Hour, Max: math.MaxInt64, Multiplier: 1e9},
		"varied above the bound": {Initial: math.MaxInt64, Max: math.MaxInt64, Jitter: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if d := p.Steady(math.MaxInt); d != math.MaxInt64 {
				t.Errorf("after so many failures: %d", d)
			}
			if d := p.Vary(p.Steady(math.MaxInt), 0.999); d != math.MaxInt64 {
				t.Errorf("after so many failures, varied: %d", d)
			}
		})
	}
}

func TestTheFirstFailureIsOne(t *testing.T) {
	p := backoff.Policy{Initial: 10, Max: 100}
	for _, n := range []int{math.MinInt, -1, 0, 1} {
		if d := p.Steady(n); d != 10 {
			t.Errorf("after failure %d: %d", n, d)
		}
	}
}

func TestAnEndlessRowOfFailuresCostsNoTime(*testing.T) {
	// Each would be two to the 63rd rounds if the delay were built up by
	// multiplying once for each failure.
	for _, p := range []backoff.Policy{{Max: time.Hour}, {Initial: 1, Max: time.Hour, Multiplier: 1}, {Initial: 1, Max: time.Hour}} {
		p.Steady(math.MaxInt)
	}
}

func TestJitterVariesEitherWay(t *testing.T) {
	p := backoff.Policy{Initial: 1000, Max: 1000, Jitter: 0.25}
	for unit, want := range map[float64]time.Duration{0: 750, 0.25: 875, 0.5: 1000, 0.75: 1125} {
		if got := p.Vary(1000, unit); got != want {
			t.Errorf("varied by %v: %d, want %d", unit, got, want)
		}
	}
	var seen []time.Duration
	for range 1000 {
		seen = append(seen, p.After(1))
	}
	if least, most := slices.Min(seen), slices.Max(seen); least < 750 || most > 1250 || least == most {
		t.Errorf("delays from %d to %d, want 750 to 1250", least, most)
	}
}

func TestSleepWaitsInFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if !backoff.Sleep(t.Context(), time.Minute) || time.Since(begin) != time.Minute {
			t.Errorf("slept %v", time.Since(begin))
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if backoff.Sleep(ctx, time.Minute) || time.Since(begin) != time.Second {
			t.Errorf("slept %v in a context of a second", time.Since(begin))
		}
		for _, d := range []time.Duration{0, -1, time.Minute} {
			if backoff.Sleep(ctx, d) {
				t.Errorf("slept for %v after the context was done", d)
			}
		}
		if time.Since(begin) != time.Second {
			t.Errorf("a context that was done delayed the caller by %v", time.Since(begin)-time.Second)
		}
	})
}

func TestRepeatBacksOffUntilDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		done := backoff.Policy{Initial: time.Second, Max: 3 * time.Second}.Repeat(t.Context(), func() bool {
			at = append(at, time.Since(begin))
			return len(at) == 5
		})
		want := []time.Duration{0, 1 * time.Second, 3 * time.Second, 6 * time.Second, 9 * time.Second}
		if !done || !slices.Equal(at, want) {
			t.Errorf("attempts at %v, want %v; done: %v", at, want, done)
		}
	})
}

func TestRepeatEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		attempts := 0
		never := func() bool { attempts++; return false }
		p := backoff.Policy{Initial: time.Minute, Multiplier: 1}
		if p.Repeat(ctx, never) || attempts != 2 {
			t.Errorf("%d attempts in a context of a minute and a half, want 2", attempts)
		}
		if p.Repeat(ctx, never) || attempts != 3 {
			t.Errorf("%d attempts in a context that is done, want 1", attempts-2)
		}
		if !p.Repeat(ctx, func() bool { return true }) {
			t.Error("what succeeds at once did not, for its context was done")
		}
	})
}
