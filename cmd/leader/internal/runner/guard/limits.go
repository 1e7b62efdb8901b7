package guard

import (
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
)

// Limits determine when a program is ended, counted back from the end of the
// trust window.
type Limits struct {
	Stop   time.Duration `json:"stop"`   // from SIGTERM to SIGKILL
	Margin time.Duration `json:"margin"` // from SIGKILL to the end of the trust window
}

// The margin is a twentieth of the lease, within these bounds: it is for a
// scheduler that is late, not for the program.
const (
	minMargin = 20 * time.Millisecond
	maxMargin = time.Second
)

// defaultStop is the stop-timeout where it takes no more than half of the room
// that the lease leaves: the other half is for renewals that are slow.
const defaultStop = 5 * time.Second

// LimitsOf returns the limits for a lease. stop 0 means the default.
func LimitsOf(cfg leader.ElectionConfig, stop time.Duration) (Limits, error) {
	margin := min(max(cfg.TTL/20, minMargin), maxMargin)
	// A single renewal may fail: the second one after it was sent comes before
	// the program is asked to stop.
	room := Trust(cfg) - margin - 2*cfg.HeartbeatInterval
	if stop == 0 {
		stop = min(defaultStop, room/2)
	}
	if stop <= 0 || stop > room {
		return Limits{}, fmt.Errorf("--stop-timeout %v: must be positive and at most %v, which a lease of %v with a heartbeat of %v leaves: "+
			"0.9 × TTL − 2 × heartbeat − %v for SIGKILL (a longer --ttl or a shorter --heartbeat leaves more)",
			stop, max(room, 0), cfg.TTL, cfg.HeartbeatInterval, margin)
	}
	return Limits{Stop: stop, Margin: margin}, nil
}

// Trust is how long a renewal is trusted from when it was sent. Others wait for
// longer than the TTL, by as much: the two together bear clocks that run apart
// by the drift.
func Trust(cfg leader.ElectionConfig) time.Duration {
	return time.Duration(float64(cfg.TTL) * (1 - leader.DefaultClockDrift))
}

// killAt is when all must be dead, if the trust window ends at until.
func (l Limits) killAt(until int64) int64 { return until - int64(l.Margin) }

// stopAt is when the program is asked to stop, if no renewal came.
func (l Limits) stopAt(until int64) int64 { return l.killAt(until) - int64(l.Stop) }
