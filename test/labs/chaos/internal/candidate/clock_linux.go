package candidate

import (
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/overlap"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/skew"
)

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
	return overlap.Now() - int64(ago)*skew.True/c.rate
}

// together is how far apart in time readings of both clocks may be that count
// as one.
const together = 100 * time.Microsecond

// reading reads both clocks at once: again, if the process was stopped between.
func (c clock) reading() (r history.Reading) {
	for range 1000 {
		own := time.Since(c.begun)
		r.True = overlap.Now()
		r.Own = int64(time.Since(c.begun))
		if r.Own-int64(own) < int64(together) {
			break
		}
	}
	return r
}
