package boottime

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// deadline bounds what takes milliseconds on any machine that is not stuck.
const deadline = time.Minute

// services returns one service for each kind of alarm that this system has.
func services() map[string]func() alarm {
	return map[string]func() alarm{
		"of the system": openAlarm,
		"ticker":        func() alarm { return newTicker() },
	}
}

// observed is an alarm that reports when the service's goroutine has come to
// its end.
type observed struct {
	alarm
	ended chan struct{}
}

func (o observed) wait() bool {
	ok := o.alarm.wait()
	if !ok {
		close(o.ended)
	}
	return ok
}

func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(deadline):
		t.Fatalf("%s: nothing within %v", what, deadline)
	}
	return v
}

func TestATimerFiresAtItsInstantAndNotBefore(t *testing.T) {
	for name, open := range services() {
		t.Run(name, func(t *testing.T) {
			s := &service{open: open}
			fired := make(chan int64, 3)
			at := Now() + int64(20*time.Millisecond)
			for i := range int64(3) {
				timer := &Timer{s: s, f: func() { fired <- at + i - Now() }}
				timer.Set(at + i)
			}
			for range 3 {
				if early := await(t, "timer", fired); early > 0 {
					t.Errorf("%v early", time.Duration(early))
				}
			}
		})
	}
}

func TestATimerIsMovedBothWays(t *testing.T) {
	for name, open := range services() {
		t.Run(name, func(t *testing.T) {
			moved := make(chan struct{})
			s := &service{open: func() alarm { return held{open(), moved} }}
			fired := make(chan string, 10)
			add := func(name string, d time.Duration) *Timer {
				timer := &Timer{s: s, f: func() { fired <- name }}
				timer.Set(Now() + int64(d))
				return timer
			}
			later, stopped, earlier := add("later", time.Millisecond), add("stopped", time.Millisecond), add("earlier", time.Hour)
			later.Set(Now() + int64(2*time.Hour))
			defer later.Stop()
			stopped.Stop()
			stopped.Stop() // is harmless
			earlier.Set(Now() + int64(2*time.Millisecond))
			close(moved)
			if got := await(t, "the timer that was moved", fired); got != "earlier" {
				t.Errorf("%s fired", got)
			}
			select {
			case got := <-fired:
				t.Errorf("%s fired, too", got)
			default:
			}
		})
	}
}

// held is an alarm that nobody hears until a channel is closed: what is due
// before can still be moved.
type held struct {
	alarm
	until <-chan struct{}
}

func (h held) wait() bool {
	<-h.until
	return h.alarm.wait()
}

// The alarm rings at the instants of before, and finds nothing to do.
func TestAnExtensionCostsNoCallOfTheSystem(t *testing.T) {
	calls := &counted{}
	s := &service{open: func() alarm { return calls }}
	timer := &Timer{s: s, f: func() {}}
	for i := range int64(100) {
		timer.Set(math.MaxInt64/2 + i)
	}
	if n := calls.sets.Load(); n != 1 {
		t.Errorf("the alarm was set %d times", n)
	}
}

// counted is an alarm that never rings.
type counted struct{ sets atomic.Int32 }

func (c *counted) set(int64)  { c.sets.Add(1) }
func (c *counted) wait() bool { return false }
func (c *counted) close()     {}

func TestNothingIsLeftOfTheLastTimer(t *testing.T) {
	for name, open := range services() {
		for _, how := range []string{"stopped", "fired"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				ended := make(chan struct{})
				s := &service{open: func() alarm { return observed{open(), ended} }}
				fired := make(chan struct{}, 1)
				timer := &Timer{s: s, f: func() { fired <- struct{}{} }}
				switch how {
				case "stopped":
					timer.Set(Now() + int64(time.Hour))
					timer.Stop()
				case "fired":
					timer.Set(Now())
					await(t, "timer", fired)
				}
				await(t, "the end of the goroutine", ended)
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.alarm != nil || len(s.pending) != 0 {
					t.Errorf("%v, %d timers", s.alarm, len(s.pending))
				}
			})
		}
	}
}

// A term's end may begin the next term's timer, or move its own.
func TestAFunctionMaySetTimers(t *testing.T) {
	s := &service{open: openAlarm}
	done := make(chan struct{})
	n := 0
	var timer *Timer
	timer = &Timer{s: s, f: func() {
		n++
		if n == 10 {
			close(done)
			return
		}
		timer.Set(Now())
	}}
	timer.Set(Now())
	await(t, "the tenth", done)
}

func TestSettingAllocatesNothing(t *testing.T) {
	s := &service{open: openAlarm}
	other, timer := &Timer{s: s, f: func() {}}, &Timer{s: s, f: func() {}}
	other.Set(Now() + int64(time.Hour))
	timer.Set(Now() + int64(time.Hour))
	defer other.Stop()
	defer timer.Stop()
	if n := testing.AllocsPerRun(100, func() { timer.Set(Now() + int64(time.Hour)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A goroutine that waits for the kernel keeps a bubble's time from going on,
// and one that was started in a bubble must serve nobody outside.
func TestVirtualTimeHasNoTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if timer := New(func() {}); timer != nil {
			t.Error("a timer")
		}
		time.Sleep(24 * time.Hour)
		if timer := New(func() {}); timer != nil {
			t.Error("a timer on the next day")
		}
	})
	if New(func() {}) == nil {
		t.Error("no timer in real time")
	}
}

func BenchmarkSet(b *testing.B) {
	s := &service{open: openAlarm}
	var others [1000]*Timer
	for i := range others {
		others[i] = &Timer{s: s, f: func() {}}
		others[i].Set(Now() + int64(time.Hour) + int64(i))
	}
	defer func() {
		for _, t := range others[:] {
			t.Stop()
		}
	}()
	timer := &Timer{s: s, f: func() {}}
	defer timer.Stop()
	b.ReportAllocs()
	for b.Loop() {
		timer.Set(Now() + int64(time.Hour))
	}
}
