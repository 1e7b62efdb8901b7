package candidate

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/skew"
)

// Now reads the monotonic clock of the machine. It asks the kernel, which knows
// nothing of the rate at which the process's own clocks run: see package skew.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // there is one on every Linux
	}
	return ts.Nano()
}

// A clock is the process's own, which runs at a rate of the machine's.
type clock struct {
	begun time.Time
	rate  int64 // in thousandths
}

func newClock(rate int) clock {
	if rate == 0 {
		rate = skew.True
	}
	return clock{time.Now(), int64(rate)}
}

// instant turns a time of this process into an instant of the machine's clock,
// or a little later: the process may be stopped between the two readings.
func (c clock) instant(t time.Time) int64 {
	ago := time.Since(t)
	return Now() - int64(ago)*skew.True/c.rate
}

// together is how far apart in time readings of both clocks may be that count
// as one.
const together = 100 * time.Microsecond

// reading reads both clocks at once: again, if the process was stopped between.
func (c clock) reading() (r history.Reading) {
	for range 1000 {
		own := time.Since(c.begun)
		r.True = Now()
		r.Own = int64(time.Since(c.begun))
		if r.Own-int64(own) < int64(together) {
			break
		}
	}
	return r
}
