package leader

import (
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
)

// conditions are what the check of the store says of an election on it.
type conditions struct {
	machine.Machine
	// doubt is for how long from the start on somebody may lead by a record that
	// the store does not hold.
	doubt time.Duration
}

// conditions returns those of an election on a store with such a report.
func (c ElectionConfig) conditions(report store.Report) conditions {
	auto := c.AcquireGrace == GraceAuto
	m := c.machine(c.AcquireGrace == GraceOn || auto && (report.Forgetful || report.Expires))
	m.Expires = auto && !report.Forgetful
	m.ForeignTTL = c.foreignTTL(report.MaxAge)
	return conditions{m, c.doubt(report.Age)}
}

// foreignTTL is how long a lease may be of which the record says nothing, 0 if
// nobody knows: then it counts as TTL, and that is warned of. Who leads by a
// record of another program has to write it again before the store drops it.
func (c ElectionConfig) foreignTTL(maxAge time.Duration) time.Duration {
	switch {
	case maxAge <= 0:
		return c.ForeignTTL
	case c.ForeignTTL == 0:
		return min(maxAge, MaxTTL)
	default:
		return min(maxAge, c.ForeignTTL)
	}
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

// warnings are the report's, and why nobody leads yet: who makes a bucket and waits
// for its first leader would look for a fault.
func (c conditions) warnings(report store.Report) []string {
	if c.doubt == 0 {
		return report.Warnings
	}
	return append(slices.Clip(report.Warnings), "The store was made less than a lease ago. If there was another of its name before,"+
		" its leader may not have heard yet that it is gone: nobody leads before that lease has run out.")
}
