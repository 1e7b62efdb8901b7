package engine

import (
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
)

// changes counts how often a group got another leader, and remembers the time
// of the latest claim. A claim replaces a record that its writer has read, so
// each claim adds one; nothing but what people see depends on it.
type changes struct {
	kept uint64 // the latest record's count before a deletion or garbage

	// Of the latest claim: its count and its time hold for all that is written
	// in its term, and for each attempt.
	token    string
	expected uint64
	claimed  uint64
	acquired record.Moment
}

// tells reports whether the register holds a record or a vacancy, which contain
// the number of leaders so far.
func tells(k machine.Kind) bool { return k == machine.Held || k == machine.Vacant }

// claim counts a claim that replaces seen, whose count is said.
func (c *changes) claim(a *machine.Action, seen machine.Kind, said uint64) {
	if a.Rec.Token == c.token && a.Expected == c.expected {
		return
	}
	c.token, c.expected, c.claimed = a.Rec.Token, a.Expected, 0
	switch {
	case tells(seen):
		c.claimed = said + 1
	case c.kept > 0:
		c.claimed = c.kept + 1
	}
}

// with returns the count and the time of acquisition that go with a write over
// the record r. granted is the number of the present term, 0 for a claim.
func (c *changes) with(a *machine.Action, granted uint64, r *record.Record) (transitions uint64, acquired record.Moment) {
	switch {
	case c == nil || a.Rec.Token != c.token:
		return uint64(r.Transitions), r.Acquired
	case a.Write == machine.Release && (granted == 0 || a.Rec.Term != granted):
		// In the place of a claim that was given up: it ends the term before.
		return max(c.claimed, 1) - 1, r.Acquired
	default:
		return c.claimed, c.acquired
	}
}
