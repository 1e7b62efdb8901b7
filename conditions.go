package leader

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
)

// conditions are what the check of the store says of an election on it.
type conditions struct {
	machine.Machine
	// doubt is for how long from the start on somebody may lead by a record that
	// the store does not hold.
	doubt time.Duration
}

// doubt is what is left of a lease that a leader may hold from a store of the same
// name that was deleted: it was granted before the present store was made, and is
// as long as our own. Only the store's rate enters, which A3 bounds as it bounds
// ours, so the wait needs no second margin.
func (c ElectionConfig) doubt(age time.Duration) time.Duration {
	if age <= 0 || c.AcquireGrace == GraceOff {
		return 0
	}
	return max(machine.Wait(c.TTL, c.ClockDrift)-age, 0)
}

// start is the event that begins the election. It says why nobody leads yet, for
// who makes a bucket and waits for its first leader would look for a fault.
func (c conditions) start(e *election) machine.Event {
	if c.doubt > 0 {
		e.log.LogAttrs(context.Background(), slog.LevelInfo, "cooling down",
			slog.String("reason", "the store was made just now, and a leader from before may not have heard of it"),
			slog.Duration("for", c.doubt))
	}
	return machine.Event{Kind: machine.Start, Doubt: c.doubt}
}
