//go:build unix

package guard

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/process"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/clock"
)

// patience bounds each wait. A wait that succeeds is much shorter.
const patience = time.Minute

// guarded has a guard go through one run of true, whose window had closed
// before the guard began. It returns what was reported.
func guarded(t *testing.T, orders <-chan Order) (events []report) {
	t.Helper()
	program, err := exec.LookPath("true") // which every system of this kind has
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	g := &guard{
		Reaper: process.NewReaper(), out: json.NewEncoder(w), until: clock.Now() - int64(time.Hour),
		Limits: Limits{Stop: time.Second, Margin: 50 * time.Millisecond},
	}
	t.Cleanup(g.Reaper.Close)
	over := make(chan error, 1)
	go func() {
		over <- errors.Join(g.run(Order{Op: opStart, Path: program, Argv: []string{"true"}}, orders), w.Close())
	}()
	for in := json.NewDecoder(r); ; {
		var e report
		if in.Decode(&e) != nil {
			break
		}
		events = append(events, e)
	}
	select {
	case err := <-over:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("the guard does not end")
	}
	return events
}

// A guard may take longer to begin than a lease lasts, on a busy host. The
// renewals of that time are in its orders.
func TestAGuardThatBeginsLateGoesByTheLatestRenewal(t *testing.T) {
	orders := make(chan Order, 2)
	orders <- Order{Op: opTrust, Until: clock.Now() - int64(time.Minute)} // which is too early still
	orders <- Order{Op: opTrust, Until: clock.Now() + int64(time.Hour)}
	events := guarded(t, orders)
	if len(events) != 2 || events[0].Event != evStarted || events[1].Event != evEnded || events[1].Err != "" || events[1].Code != 0 {
		t.Errorf("reported: %+v", events)
	}
}

func TestAGuardThatBeginsTooLateStartsNothing(t *testing.T) {
	for name, last := range map[string]*Order{
		"the term is over":         {Op: opStop},
		"it is told to end":        {Op: opSignal, Signal: int(syscall.SIGTERM)},
		"the candidate has died":   nil,
		"a trust window of before": {Op: opTrust, Until: clock.Now() - int64(time.Minute)},
	} {
		orders := make(chan Order, 2)
		orders <- Order{Op: opSignal, Signal: int(syscall.SIGUSR1)} // for a program that does not run
		if last != nil {
			orders <- *last
		}
		close(orders)
		if events := guarded(t, orders); len(events) != 1 || events[0].Event != evEnded || events[0].Err != errLate.Error() {
			t.Errorf("%s: reported: %+v", name, events)
		}
	}
}

func TestAGuardEndsWithItsProgramWithoutASignal(t *testing.T) {
	r := process.NewReaper()
	t.Cleanup(r.Close)
	signal.Reset(syscall.SIGCHLD) // the signal does not come
	g := &guard{
		Reaper: r, out: json.NewEncoder(io.Discard), Limits: Limits{Stop: time.Second, Margin: time.Second},
		until: clock.Now() + int64(time.Hour), // no deadline comes to its help
	}
	done := make(chan error, 1)
	go func() {
		done <- g.run(Order{Path: "/bin/sh", Argv: []string{"sh", "-c", "exit 7"}}, make(chan Order))
	}()
	select {
	case err := <-done:
		if err != nil || g.result().Code != 7 {
			t.Errorf("error %v, result %+v", err, g.result())
		}
	case <-time.After(patience):
		t.Fatal("it waits for what has ended")
	}
}

// The system empties a cgroup a moment after its last process has ended, and no
// event reports that.
func TestAGuardDoesNotWaitForItsDeadlineWhenOnlyTheCgroupIsLeft(t *testing.T) {
	r := process.NewReaper()
	t.Cleanup(r.Close)
	now := clock.Now()
	g := &guard{
		Reaper: r, Limits: Limits{Stop: time.Hour, Margin: time.Second}, until: now + 3*int64(time.Hour),
		status: new(syscall.WaitStatus), stopping: whyTold, killBy: now + int64(time.Hour),
		pid: 1 << 30, // of a group that nobody is in
	}
	if wait := time.Duration(g.next() - now); wait > time.Minute {
		t.Errorf("it looks again after %v", wait)
	}
	g.killBy = now // it kills then, and backs off
	g.retry.Due = now + int64(time.Hour)
	if wait := time.Duration(g.next() - now); wait < time.Hour {
		t.Errorf("after its deadline it looks again after %v", wait)
	}
}
