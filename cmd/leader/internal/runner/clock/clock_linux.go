package clock

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Now reads the clock that all processes of the host share and that runs on
// during a suspension.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0 // since Linux 2.6.39 there is one
	}
	return ts.Nano()
}

// An Alarm rings at an instant of the shared clock, at once if that came during
// a suspension. Go's timers go by a clock that stops then: one would ring late
// by as long as the host slept, and the program would run on for that.
type Alarm struct {
	C  chan struct{}
	fd int
	f  *os.File
}

// NewAlarm returns an alarm that is not set, and is to be closed.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &Alarm{C: make(chan struct{}, 1), fd: fd, f: os.NewFile(uintptr(fd), "alarm")}
	go a.listen()
	return a, nil
}

// listen turns the timer's events into tokens, until Close. A single token
// represents any number of events: its receiver looks at the clock.
func (a *Alarm) listen() {
	var count [8]byte
	for {
		if _, err := a.f.Read(count[:]); err != nil {
			return // closed
		}
		select {
		case a.C <- struct{}{}:
		default:
		}
	}
}

// Set makes the alarm ring at an instant, instead of when it was set to before.
func (a *Alarm) Set(at int64) error {
	// An instant of 0 would switch the timer off.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(at, int64(time.Nanosecond)))}
	return unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil)
}

// Close ends the alarm.
func (a *Alarm) Close() { _ = a.f.Close() }
