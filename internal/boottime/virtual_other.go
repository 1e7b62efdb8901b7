//go:build !unix && !windows

package boottime

// virtual reports that there are no timers: nothing here tells virtual time
// from that of the system.
func virtual() bool { return true }
