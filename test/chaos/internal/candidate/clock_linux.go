package candidate

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads the monotonic clock of the machine.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // there is one on every Linux
	}
	return ts.Nano()
}

// instant turns a time of this process into an instant of the machine's clock, or a little later: the process may be
// stopped between the two readings.
func instant(t time.Time) int64 {
	ago := time.Since(t)
	return Now() - int64(ago)
}
