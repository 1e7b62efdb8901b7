package engine

import "github.com/seed-ff2cb582/leader/internal/machine"

// changes counts how often a group got another leader. A claim replaces a
// record that its writer has read, so each says one more than that; nothing but
// what people are shown depends on it.
type changes struct {
	kept uint64 // what the latest record said before a deletion or garbage

	// Of the latest claim: its count holds for all that is written in its term,
	// and for each attempt.
	token    string
	word     string // of the token
	expected uint64
	claimed  uint64
}

// tells reports whether what is seen is a record or a vacancy, which say how
// many leaders there were.
func tells(k machine.Kind) bool { return k == machine.Held || k == machine.Vacant }

// claim takes in a claim that replaces what is seen, which said so many.
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

// with returns the count that goes with a write over a record that says the
// other one.
func (c *changes) with(a *machine.Action, record uint64) uint64 {
	if c != nil && a.Rec.Token == c.token {
		return c.claimed
	}
	return record
}
