package leader

import (
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/machine"
)

// SetMachine gives a candidate the clocks of a simulated machine. It must be
// called before Start.
func SetMachine(e Election, m *Machine) {
	if e, ok := e.(election); ok {
		e.c.SetMachine(m.origin, m)
	}
}

// SetDispose has f called when a manager has ended. It must be called before
// Start.
func SetDispose(m *RoleManager, f func()) { m.m.SetDispose(f) }

// A Machine is a simulated computer: its clocks run at their own rate, and none
// but the wall clock leaps. While it is suspended its monotonic clock stops,
// the loops of its elections do nothing, and its timers do not fire. True time
// is the bubble's time.
type Machine struct {
	origin time.Time

	mu               sync.Mutex
	mono, boot, wall line
	ppm              int64 // the rate, in parts of a million of true time
	wakes            chan struct{}
	woken            time.Time
	timers           map[*machineTimer]struct{}
}

// NewMachine returns a machine whose clocks run at ppm parts of a million of
// true time.
func NewMachine(ppm int64) *Machine {
	m := &Machine{origin: time.Now(), ppm: ppm, timers: map[*machineTimer]struct{}{}}
	start := m.origin.UnixNano()
	m.mono, m.boot, m.wall = line{0, start, ppm}, line{start, start, ppm}, line{start, start, ppm}
	return m
}

// A line is a clock that has run evenly since an instant of true time.
type line struct{ base, since, ppm int64 }

func (l *line) at(now int64) int64 {
	d := now - l.since
	return l.base + d/1e6*l.ppm + d%1e6*l.ppm/1e6
}

func (l *line) set(now, ppm int64) { l.base, l.since, l.ppm = l.at(now), now, ppm }

// Mono reads the monotonic clock.
func (m *Machine) Mono() time.Duration { return time.Duration(m.Now().Mono) }

// Leap sets the wall clock forward, or back.
func (m *Machine) Leap(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall.base += int64(d)
}

// Suspend suspends the machine until Wake.
func (m *Machine) Suspend() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wakes != nil {
		return
	}
	m.wakes = make(chan struct{})
	m.mono.set(trueNow(), 0)
	for t := range m.timers {
		t.t.Stop()
	}
}

// Wake ends a suspension.
func (m *Machine) Wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wakes == nil {
		return
	}
	close(m.wakes)
	m.wakes, m.woken = nil, time.Now()
	m.mono.set(trueNow(), m.ppm)
	for t := range m.timers {
		t.arm()
	}
}

// Present is the time that TrustUntil is to be compared with.
func (m *Machine) Present() time.Time { return m.origin.Add(m.Mono()) }

// Runs reports whether the machine runs, and has come to itself: at the very
// instant of its awakening what is due by then may still be on its way.
func (m *Machine) Runs() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wakes == nil && !m.woken.Equal(time.Now())
}

func trueNow() int64 { return time.Now().UnixNano() }

// Now implements engine.Machine. It does not wait for the end of a suspension,
// for it may be called with locks held.
func (m *Machine) Now() machine.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return machine.Instant{Mono: m.mono.at(trueNow()), Wall: m.wall.at(trueNow())}
}

// BootNow implements engine.Machine.
func (m *Machine) BootNow() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boot.at(trueNow())
}

// Awake implements engine.Machine.
func (m *Machine) Awake() {
	for {
		m.mu.Lock()
		wakes := m.wakes
		m.mu.Unlock()
		if wakes == nil {
			return
		}
		<-wakes
	}
}

// Timer implements engine.Machine.
func (m *Machine) Timer(f func()) engine.Timer {
	t := &machineTimer{m: m, l: &m.mono, f: f}
	t.t = time.AfterFunc(time.Hour, t.ring)
	t.t.Stop()
	return t
}

// Alarm implements engine.Machine.
func (m *Machine) Alarm(f func()) engine.Alarm {
	t := &machineTimer{m: m, l: &m.boot, f: f}
	t.t = time.AfterFunc(time.Hour, t.ring)
	t.t.Stop()
	return bootAlarm{t}
}

// A machineTimer calls f when a clock of its machine reaches a reading.
type machineTimer struct {
	m *Machine
	l *line
	f func()
	t *time.Timer

	// Guarded by m.mu. A timer that is not set is not in m.timers.
	at int64
}

// Reset implements engine.Timer.
func (t *machineTimer) Reset(d time.Duration) bool {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	return t.set(t.l.at(trueNow()) + int64(d))
}

// set sets the timer to a reading, and reports whether it was set before. m.mu
// is held.
func (t *machineTimer) set(at int64) bool {
	_, was := t.m.timers[t]
	t.m.timers[t] = struct{}{}
	t.at = at
	t.arm()
	return was
}

// arm sets the timer in true time, unless the machine is suspended. m.mu is
// held.
func (t *machineTimer) arm() {
	if t.m.wakes != nil {
		return
	}
	left := max(t.at-t.l.at(trueNow()), 0)
	d := left/t.l.ppm*1e6 + (left%t.l.ppm*1e6+t.l.ppm-1)/t.l.ppm
	t.t.Reset(time.Duration(d))
}

// Stop implements engine.Timer and engine.Alarm.
func (t *machineTimer) Stop() bool {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	_, was := t.m.timers[t]
	delete(t.m.timers, t)
	t.t.Stop()
	return was
}

// ring runs when the time has come in true time.
func (t *machineTimer) ring() {
	if t.due() {
		t.f()
	}
}

func (t *machineTimer) due() bool {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if _, set := t.m.timers[t]; !set || t.m.wakes != nil {
		return false // Wake arms it again
	}
	if t.l.at(trueNow()) < t.at {
		t.arm()
		return false
	}
	delete(t.m.timers, t)
	return true
}

// A bootAlarm is a timer on the clock that runs on during a suspension.
type bootAlarm struct{ t *machineTimer }

func (a bootAlarm) Set(at int64) {
	a.t.m.mu.Lock()
	defer a.t.m.mu.Unlock()
	a.t.set(at)
}

func (a bootAlarm) Stop() { a.t.Stop() }

// SetProcess has a candidate run in another process, as far as drains are
// concerned. It must be called before Start.
func SetProcess(e Election, id string) {
	if e, ok := e.(election); ok {
		e.c.SetProcess(id)
	}
}
