//go:build unix && !linux

package demo

// awaitStopped takes the stop for done: a wait for a stop alone, that leaves the
// news of an end to others, is Linux's.
func awaitStopped(int) bool { return true }
