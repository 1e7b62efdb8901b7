package machine

import (
	"math"
	"time"
)

// An Instant is one reading of both clocks of one machine, in nanoseconds.
// Instants of two machines are never compared.
type Instant struct {
	// Mono is the monotonic clock. It never leaps, but on Linux it stops while
	// the machine is suspended (Go reads CLOCK_MONOTONIC).
	Mono int64
	// Wall is the wall clock. It runs through a suspension, but it may leap.
	Wall int64
}

// Add returns the instant d later on both clocks.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{i.Mono + int64(d), i.Wall + int64(d)}
}

// Reached reports whether now is at or past i on either clock. Each clock has a
// way to lag, so for windows that must not be overstayed the earlier verdict
// wins.
func (i Instant) Reached(now Instant) bool {
	return now.Mono >= i.Mono || now.Wall >= i.Wall
}

// Trust is how long a holder may act on a lease of length ttl, counted from the
// instant at which the write left: the lease less the drift, rounded down.
func Trust(ttl time.Duration, drift float64) time.Duration {
	return ttl - margin(ttl, drift)
}

// Wait is how long everybody else leaves a lease of length ttl alone, counted
// from the instant at which its latest record arrived: the lease plus the
// drift, rounded up.
func Wait(ttl time.Duration, drift float64) time.Duration {
	return ttl + margin(ttl, drift)
}

func margin(ttl time.Duration, drift float64) time.Duration {
	return time.Duration(math.Ceil(float64(ttl) * drift))
}
