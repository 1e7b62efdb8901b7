//go:build unix && !linux

package demo

// awaitStopped takes the stop for done: only Linux can wait for a stop alone,
// and leave the news of an end to others.
func awaitStopped(int) bool { return true }
