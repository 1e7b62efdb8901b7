package machine

import (
	"math"
	"time"
)

// This file chooses the random delays that keep many candidates from claiming
// at once. Safety never depends on them: each is added to the wait that the
// rules ask for.

const (
	// expiryWindow bounds the random delay before an expired lease is
	// challenged, which spreads the challenges of candidates that all saw the
	// last renewal at once.
	expiryWindow = 10 * time.Millisecond
	// contentionFloor is the least window that a lost race leads to.
	contentionFloor = 2 * time.Millisecond
	// startWindow is the window at a vacancy after a start that others have
	// just won. Among 200 candidates it lets about ten go before the news of
	// the first has reached them all.
	startWindow = 100 * time.Millisecond
	// contentionTrips is the window after one lost race, in round trips as that
	// race showed them: among n rivals that many windows let about
	// n/contentionTrips go before the first winner is known to the others.
	contentionTrips = 8
	// headStart bounds for how long a nominee is left alone with an expired
	// lease, until a thousand candidates have heard of its claim, on a busy
	// machine. It is waited for in vain only if the nominee died after the
	// holder.
	headStart = 200 * time.Millisecond
	// crowd is the number of candidates up to which skewed keeps the first of
	// them apart from the next.
	crowd = 1000
)

// expiryJitter is the delay at an expired lease, beyond the lease. A nominee
// goes first, and at once. The others leave it alone, and are spread when it
// does not come: nominees are needed where candidates are many.
func (c *step) expiryJitter() time.Duration {
	switch c.s.View.Turn {
	case OurTurn:
		return 0
	case TheirTurn:
		alone := min(c.m.TTL/10, headStart)
		return alone + skewed(c.ev.Rand, c.within(alone))
	default:
		return c.uniform(max(min(c.m.TTL/100, expiryWindow), c.contentionWindow()))
	}
}

// nominated takes in who goes first when the lease that is being waited out has
// run out. The wait is counted from the same instant as before.
func (c *step) nominated(t Turn) {
	c.s.View.Turn = t
	c.s.DueAt = c.s.ViewAt + int64(c.delay(&c.s.View))
}

// NominateAt returns when a candidate in state s is to nominate itself for the
// succession of the holder that it sees, on the monotonic clock, and Never if
// it is not to. To observe the holder again, or a nominee, calls that off.
//
// That is late enough for a holder that lives to be heard of twice before, and
// early enough for the nomination to be known before the lease runs out. In
// between there is time to spread the candidates, however many: time that costs
// nothing, since nobody may claim yet.
func (m *Machine) NominateAt(s *State, rand uint64) int64 {
	follows := s.Phase == Watching && s.View.Kind == Held && !s.ours(&s.View)
	yields := s.Behind > 0 || m.Backoff > 0 && s.Passed > 0 || s.View.Turn != AnyTurn
	if !follows || yields || s.Down || !m.mayClaim(s) || s.StandBackUntil > s.ViewAt+int64(s.HeldTTL) {
		return Never
	}
	return s.ViewAt + int64(s.HeldTTL/10*7) + int64(skewed(rand, s.HeldTTL/4))
}

// skewed picks a delay in window such that few of many who pick are early: of
// up to crowd candidates, about as many follow the first within a given time as
// of ten. With equal chances for all delays, each of a thousand would have a
// hundred others on its heels.
//
// It is the continuous form of Sift's geometric choice of slots (Tay, Jamieson,
// Balakrishnan: Collision-minimizing CSMA and its applications to wireless
// sensor networks, IEEE JSAC 22, 2004), which needs not know how many there
// are.
func skewed(rand uint64, window time.Duration) time.Duration {
	return time.Duration(math.Log1p(unit(rand)*(crowd-1)) / math.Log(crowd) * float64(window))
}

// contention is the delay at a vacancy. Until a race was lost there is none, so
// that two or three candidates hand over at once. It grows with every loss, so
// that hundreds do not claim together.
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

// within bounds a window, so that it neither wastes the lease nor turns around
// the order in which candidates go.
func (c *step) within(window time.Duration) time.Duration {
	if c.s.Ranked {
		window = min(window, c.m.Yield/2)
	}
	return min(window, c.m.TTL/2)
}

func (c *step) uniform(window time.Duration) time.Duration {
	return time.Duration(unit(c.ev.Rand) * float64(window))
}
