// Package round runs a round of the fire lab: candidates on their own arena,
// one of which has to lead after each episode of faults. The caller decides
// what the faults do.
package round
