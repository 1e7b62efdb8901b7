// Package backoff paces repetitions: it computes how long to wait after a
// failure, and waits.
//
// Delays grow, so that what is down for long is asked seldom. They are varied
// at random, since what failed for one caller has often failed for hundreds at
// the same moment.
package backoff

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// A Policy defines how delays grow from one failure in a row to the next. It is
// a value without state: the caller counts the failures.
type Policy struct {
	// Initial is the delay after the first failure.
	Initial time.Duration
	// Max bounds the delay before it is varied. 0: no bound.
	Max time.Duration
	// Multiplier is the growth from one delay to the next. 0: 2. Less than 1
	// counts as 1, which means no growth.
	Multiplier float64
	// Jitter is the share of a delay by which it is varied, either way. 0: not
	// at all.
	Jitter float64
}

// After returns the delay after the nth failure in a row, varied at random. The
// first failure is 1, and what is less counts as 1.
func (p Policy) After(n int) time.Duration { return p.Vary(p.Steady(n), rand.Float64()) }

// Steady returns the delay after the nth failure in a row, not varied.
func (p Policy) Steady(n int) time.Duration {
	growth, limit := p.Multiplier, float64(p.Max)
	if growth == 0 {
		growth = 2
	}
	if p.Max == 0 {
		limit = math.MaxInt64
	}
	d := float64(p.Initial)
	for i := 1; i < n && d > 0 && d < limit && growth > 1; i++ {
		d *= growth
	}
	return duration(min(d, limit))
}

// Vary returns d varied by Jitter. unit, from [0, 1), is the random part: a
// caller whose randomness comes from outside passes its own.
func (p Policy) Vary(d time.Duration, unit float64) time.Duration {
	f := float64(d)
	return duration(f + f*p.Jitter*(2*unit-1))
}

// crowd is the number of those who pick up to which Skewed keeps the first of
// them apart from the next.
const crowd = 1000

// Skewed picks a delay in window such that few of many who pick are early: of
// up to 1000, about as many follow the first within a given time as of ten. With
// equal chances for all delays, each of a thousand would have a hundred others
// on its heels. unit, from [0, 1), is the random part.
//
// It is the continuous form of Sift's geometric choice of slots (Tay, Jamieson,
// Balakrishnan: Collision-minimizing CSMA and its applications to wireless
// sensor networks, IEEE JSAC 22, 2004), which needs not know how many there
// are.
func Skewed(unit float64, window time.Duration) time.Duration {
	return time.Duration(math.Log1p(unit*(crowd-1)) / math.Log(crowd) * float64(window))
}

// duration converts a number of nanoseconds, of which there may be too many.
func duration(f float64) time.Duration {
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(f)
}

// Repeat calls try until it is done, with a delay after each failure. It
// reports whether try was done before ctx was; try is called once at least.
func (p Policy) Repeat(ctx context.Context, try func() (done bool)) bool {
	for n := 1; !try(); n++ {
		if !Sleep(ctx, p.After(n)) {
			return false
		}
	}
	return true
}

// Sleep waits for d, and reports whether ctx was not done before. It does not
// wait at all if ctx is done already, and reports so also of a d of 0.
func Sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil // both may have come
	case <-ctx.Done():
		return false
	}
}
