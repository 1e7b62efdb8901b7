package machine

import "time"

// This file chooses the random delays that keep many candidates from claiming
// at once. Safety never depends on them: each is added to the wait that the
// rules ask for.

const (
	// expiryWindow bounds the random delay before an expired lease is challenged,
	// which spreads the challenges of candidates that all saw the last renewal at once.
	expiryWindow = 10 * time.Millisecond
	// contentionFloor is the least window that a lost race leads to.
	contentionFloor = 2 * time.Millisecond
	// startWindow is the window at a vacancy after a start that others have just won. Among 200
	// candidates it lets about ten go before the news of the first has reached them all.
	startWindow = 100 * time.Millisecond
	// contentionTrips is the window after one lost race, in round trips as that race
	// showed them: among n rivals that many windows let about n/contentionTrips go
	// before the first winner is known to the rest.
	contentionTrips = 8
)

func (c *step) expiryJitter() time.Duration {
	return c.uniform(max(min(c.m.TTL/100, expiryWindow), c.contentionWindow()))
}

// contention is the delay at a vacancy: none until a race was lost, so that two or three
// candidates hand over at once, and growing with every loss, so that hundreds do not storm.
func (c *step) contention() time.Duration {
	w := c.contentionWindow()
	if c.s.StartRace {
		w = max(w, c.within(startWindow))
	}
	return c.uniform(w)
}

func (c *step) contentionWindow() time.Duration {
	if c.s.Losses == 0 {
		return 0
	}
	w := max(contentionFloor, contentionTrips*c.s.RTT)
	return c.within(w << min(c.s.Losses-1, 8))
}

// within bounds a window: the lease is not to be wasted, nor the order in which candidates go to be turned around by it.
func (c *step) within(window time.Duration) time.Duration {
	if c.s.Ranked {
		window = min(window, c.m.Yield/2)
	}
	return min(window, c.m.TTL/2)
}

func (c *step) uniform(window time.Duration) time.Duration {
	return time.Duration(unit(c.ev.Rand) * float64(window))
}
