//go:build unix && !linux

package runner

import (
	"time"

	"golang.org/x/sys/unix"
)

// sharedNow reads the clock that all processes of the host share. Whether it runs on during a suspension depends on the system:
// on macOS it does.
func sharedNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // every system that we build for has this clock
	}
	return ts.Nano()
}

// An alarm rings at an instant of the shared clock, or a little late after a suspension.
type alarm struct {
	C     chan struct{}
	timer *time.Timer
}

func newAlarm() (*alarm, error) {
	a := &alarm{C: make(chan struct{}, 1)}
	a.timer = time.AfterFunc(time.Hour, func() {
		select {
		case a.C <- struct{}{}:
		default:
		}
	})
	return a, nil
}

// set makes the alarm ring at an instant, instead of when it was set to before.
func (a *alarm) set(at int64) error {
	a.timer.Reset(max(time.Duration(at-sharedNow()), 0))
	return nil
}

func (a *alarm) close() { a.timer.Stop() }
