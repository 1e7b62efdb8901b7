//go:build unix && !linux

package demo

// awaitStopped does nothing: a wait for a stop alone, that leaves the news of
// an end to others, is Linux's.
func awaitStopped(int) {}
