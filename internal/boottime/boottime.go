package boottime

import (
	"container/heap"
	"math"
	"sync"
	"time"
)

// Tick is how long a timer may be late after a suspension where there is no
// timerfd.
const Tick = 250 * time.Millisecond

// Now returns the reading of the clock that timers run on, in nanoseconds from
// an arbitrary origin. Only differences have a meaning.
func Now() int64 { return now() }

// Phase returns how long ago the clock of [Now] showed a multiple of period:
// the same for all who ask at one instant. Where time is virtual, the wall
// clock is looked at instead.
func Phase(period time.Duration) time.Duration {
	at := wallNow()
	if !virtual() {
		at = now()
	}
	return time.Duration(at % max(int64(period), 1))
}

// A Timer calls a function at an instant of the clock of [Now]. Its methods may
// be called concurrently.
type Timer struct {
	s  *service
	f  func()
	at int64
	// place is the timer's index in the heap plus one, 0 while it is not set.
	place int
}

// New returns a timer that is not set, or nil if time is virtual. f runs on the
// goroutine that all timers share: it must be quick, and may call the methods
// of any timer.
func New(f func()) *Timer {
	if virtual() {
		return nil
	}
	return &Timer{s: &shared, f: f}
}

// Set makes the timer fire once at an instant, and no more at the one that it
// was set to before. A call of f that has started is not undone.
func (t *Timer) Set(at int64) { t.s.set(t, at) }

// Stop makes the timer not fire any more. It does not wait for a call of f.
func (t *Timer) Stop() { t.s.stop(t) }

// shared serves all timers of the process.
//
//nolint:gochecknoglobals // The package exists to share one descriptor.
var shared = service{open: openAlarm}

// An alarm wakes the service's goroutine.
type alarm interface {
	// set makes wait return at an instant of Now, or earlier.
	set(at int64)
	// wait waits, and reports whether the alarm is still open.
	wait() bool
	// close ends wait.
	close()
}

// A service is the timers that are set, and the goroutine that serves them.
type service struct {
	open func() alarm

	mu      sync.Mutex
	pending timers
	alarm   alarm // nil while no timer is set
	armed   int64 // what the alarm is set to
}

func (s *service) set(t *Timer, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.at = at
	if t.place > 0 {
		heap.Fix(&s.pending, t.place-1)
	} else {
		heap.Push(&s.pending, t)
	}
	if s.alarm == nil {
		s.alarm, s.armed = s.open(), math.MaxInt64
		go s.serve(s.alarm)
	}
	s.arm()
}

func (s *service) stop(t *Timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.place > 0 {
		heap.Remove(&s.pending, t.place-1)
		s.rest()
	}
}

// arm sets the alarm to the earliest timer, if that is earlier than what it is
// set to. Leases are extended long before they end, so that an alarm that rings
// too early, once in a lease, is cheaper than a system call with each renewal.
func (s *service) arm() {
	if at := s.pending[0].at; at < s.armed {
		s.armed = at
		s.alarm.set(at)
	}
}

// rest closes the alarm if no timer is set.
func (s *service) rest() {
	if len(s.pending) == 0 && s.alarm != nil {
		s.alarm.close()
		s.alarm = nil
	}
}

func (s *service) serve(a alarm) {
	for a.wait() {
		for _, t := range s.due(a) {
			t.f()
		}
	}
}

// due takes out the timers whose time has come, and sets the alarm again.
func (s *service) due(a alarm) (due []*Timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alarm != a {
		return nil
	}
	for now := now(); len(s.pending) > 0 && s.pending[0].at <= now; {
		due = append(due, s.pending[0])
		heap.Pop(&s.pending)
	}
	s.rest()
	if s.alarm != nil {
		s.armed = math.MaxInt64
		s.arm()
	}
	return due
}

// timers is a heap, the earliest first.
type timers []*Timer

func (h *timers) Len() int           { return len(*h) }
func (h *timers) Less(i, j int) bool { return (*h)[i].at < (*h)[j].at }

func (h *timers) Swap(i, j int) {
	t := *h
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i+1, j+1
}

func (h *timers) Push(x any) {
	t, _ := x.(*Timer)
	*h = append(*h, t)
	t.place = len(*h)
}

func (h *timers) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	t.place, *h = 0, old[:len(old)-1]
	return t
}
