package engine

import (
	"time"

	"github.com/seed-ff2cb582/leader/internal/boottime"
	"github.com/seed-ff2cb582/leader/internal/machine"
)

// A clock reads both clocks of this machine at once, relative to an origin, and
// has the timers that the protocol rests on.
type clock struct {
	origin time.Time
	// machine, set by simulations alone, has its own clocks.
	machine Machine
}

// newClock returns a clock whose zero is a multiple of the heartbeat on the
// machine's boot clock. So all candidates of a machine with that heartbeat
// renew on one grid.
func newClock(heartbeat time.Duration) clock {
	return clock{origin: time.Now().Add(-boottime.Phase(heartbeat))}
}

// maxGrid is the longest grid of renewals: nothing is gained by a longer one.
const maxGrid = 64 * time.Millisecond

// grid returns the grid of renewals that are so far apart. It divides the
// heartbeat by 32 at least, so that renewals of long leases do not meet in too
// few instants.
//
// Otherwise a process that leads a thousand groups would wake for each of them,
// and to wake costs as much as all the rest of a renewal (decision 12).
func grid(heartbeat time.Duration) time.Duration {
	g := heartbeat / 32
	for g > maxGrid {
		g /= 2
	}
	return g
}

// A Machine is a machine of a simulation. Its clocks run at their own rate,
// leap, and stop while it is suspended, as do its timers.
type Machine interface {
	// Now reads the monotonic and the wall clock.
	Now() machine.Instant
	// BootNow reads the clock that runs on during a suspension.
	BootNow() int64
	// Awake waits for the end of a suspension.
	Awake()
	// Timer and Alarm return timers on the monotonic clock and on the clock of
	// boot time. They are not set.
	Timer(f func()) Timer
	Alarm(f func()) Alarm
}

// A Timer calls a function after a while on the monotonic clock. time.Timer is
// one.
type Timer interface {
	Reset(d time.Duration) bool
	Stop() bool
}

// An Alarm calls a function at an instant of a clock that runs on during a
// suspension of the machine. boottime.Timer is one.
type Alarm interface {
	Set(at int64)
	Stop()
}

func (c clock) now() machine.Instant {
	if c.machine != nil {
		return c.machine.Now()
	}
	t := time.Now()
	return machine.Instant{Mono: int64(t.Sub(c.origin)), Wall: t.UnixNano()}
}

func (c clock) time(mono int64) time.Time { return c.origin.Add(time.Duration(mono)) }

// present returns the time that the monotonic clock shows, to be compared with
// others that time returns.
func (c clock) present() time.Time {
	if c.machine != nil {
		return c.time(c.machine.Now().Mono)
	}
	return time.Now()
}

func (c clock) boot() int64 {
	if c.machine != nil {
		return c.machine.BootNow()
	}
	return boottime.Now()
}

// awake waits until this machine runs, where a suspension can be noticed.
func (c clock) awake() {
	if c.machine != nil {
		c.machine.Awake()
	}
}

func (c clock) timer(f func()) Timer {
	if c.machine != nil {
		return c.machine.Timer(f)
	}
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}

// A ticker is a timer that wakes a goroutine.
type ticker struct {
	C <-chan time.Time
	Timer
}

func (c clock) ticker() ticker {
	if c.machine == nil {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return ticker{t.C, t}
	}
	fired := make(chan time.Time, 1)
	return ticker{fired, c.machine.Timer(func() {
		select {
		case fired <- time.Time{}:
		default:
		}
	})}
}

// alarm returns an alarm that is not set, or nil where time is virtual and
// nothing is ever suspended.
func (c clock) alarm(f func()) Alarm {
	if c.machine != nil {
		return c.machine.Alarm(f)
	}
	if t := boottime.New(f); t != nil {
		return t
	}
	return nil
}
