//go:build unix && !linux

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads the clock that all processes of the host share. Whether it runs on
// during a suspension depends on the system: on macOS it does.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // every system that we build for has this clock
	}
	return ts.Nano()
}

// An Alarm rings at an instant of the shared clock, or a little late after a
// suspension: it uses Go's timer, which may stop during a suspension.
type Alarm struct {
	C     chan struct{}
	timer *time.Timer
}

// NewAlarm returns an alarm that is not set, and is to be closed.
func NewAlarm() (*Alarm, error) {
	a := &Alarm{C: make(chan struct{}, 1)}
	a.timer = time.AfterFunc(time.Hour, func() {
		select {
		case a.C <- struct{}{}:
		default:
		}
	})
	return a, nil
}

// Set makes the alarm ring at an instant, instead of when it was set to before.
func (a *Alarm) Set(at int64) error {
	a.timer.Reset(max(time.Duration(at-Now()), 0))
	return nil
}

// Close ends the alarm.
func (a *Alarm) Close() { a.timer.Stop() }
