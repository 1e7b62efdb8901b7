//go:build unix

package demo

import "golang.org/x/sys/unix"

// monoNow reads the clock by which samples of different processes are compared:
// one and the same for all processes of the machine, never set, and running on
// while a process is frozen. Go's own monotonic readings are relative to each
// process's start and cannot leave it.
func monoNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // every system that we build for has this clock
	}
	return ts.Nano()
}
