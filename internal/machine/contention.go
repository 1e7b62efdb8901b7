package machine

import (
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
)

// This file chooses the random delays that keep many candidates from claiming
// at once. Safety never depends on them: each is added to the wait that the
// rules require.
//
// A candidate claims a vacancy at once until it loses a race for one. From then
// on it picks its delay from a window, which each further lost race widens. If
// the winner's record arrives while the candidate still waits, late in the
// window, the rivals are fewer than the window is for, and it narrows. So
// hundreds of candidates find a window by themselves, and two or three have
// none.

const (
	// expiryWindow bounds the window of a candidate that has lost no race, at a
	// lease that ran out: all saw the last renewal at about the same time.
	expiryWindow = 50 * time.Millisecond
	// contentionTrips is the least window after a lost race, in round trips as
	// that race showed them: the news of a winner takes one or two.
	contentionTrips = 8
	// leastWindow is the narrowest window. Below it there is none.
	leastWindow = 500 * time.Microsecond
	// expiryShare bounds that window, too, as a part of the TTL.
	expiryShare = 60
	// windowShare bounds every window, as a part of the TTL: so much longer may
	// nobody lead for the sake of fewer claims.
	windowShare = 20
)

// expirySpread is the delay at an expired lease, beyond the lease.
func (c *step) expirySpread() time.Duration {
	return backoff.Skewed(unit(c.ev.Rand), c.within(max(min(expiryWindow, c.m.TTL/expiryShare), c.s.Window)))
}

// vacancyDelay is the delay at a vacancy.
func (c *step) vacancyDelay() time.Duration {
	return backoff.Skewed(unit(c.ev.Rand), c.within(c.s.Window))
}

// lost counts a lost race for the register, which took the given time and was
// not the race of a start. At a start, hundreds may compete, which does not
// predict the next vacancy.
func (c *step) lost(took time.Duration) {
	c.s.Window = min(max(2*c.s.Window, contentionTrips*took), c.m.TTL/windowShare)
}

// outrun takes in that another has won before this candidate claimed. If it had
// waited for most of its window by then, few others compete.
func (c *step) outrun() {
	if c.now.Mono-c.s.FreeAt < int64(c.s.Window/2) {
		return
	}
	if c.s.Window /= 2; c.s.Window < leastWindow {
		c.s.Window = 0
	}
}

// within bounds a window where candidates differ, so that chance does not turn
// around the order in which they go.
func (c *step) within(window time.Duration) time.Duration {
	if c.s.Ranked {
		return min(window, c.m.Yield/2)
	}
	return window
}

func (c *step) uniform(window time.Duration) time.Duration {
	return time.Duration(unit(c.ev.Rand) * float64(window))
}
