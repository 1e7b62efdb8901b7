// Package round holds a round of the fire lab: candidates on an arena of their
// own, of which somebody has to lead after each episode of faults. What the
// faults do is up to the caller.
package round
