//go:build unix

package runner

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// guarded has a guard go through one run of true, whose window had closed before the guard began. It returns what was reported.
func guarded(t *testing.T, orders <-chan order) (events []report) {
	t.Helper()
	program, err := exec.LookPath("true") // which every system of this kind has
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	g := &guard{
		reaper: newReaper(), out: json.NewEncoder(w), until: sharedNow() - int64(time.Hour),
		limits: limits{Stop: time.Second, Margin: 50 * time.Millisecond},
	}
	t.Cleanup(g.reaper.close)
	over := make(chan error, 1)
	go func() {
		over <- errors.Join(g.run(order{Op: opStart, Path: program, Argv: []string{"true"}}, orders), w.Close())
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

// A guard may take longer to begin than a lease lasts, on a busy host. The renewals of that time are in its orders.
func TestAGuardThatBeginsLateGoesByTheLatestRenewal(t *testing.T) {
	orders := make(chan order, 2)
	orders <- order{Op: opTrust, Until: sharedNow() - int64(time.Minute)} // which is too early still
	orders <- order{Op: opTrust, Until: sharedNow() + int64(time.Hour)}
	events := guarded(t, orders)
	if len(events) != 2 || events[0].Event != evStarted || events[1].Event != evEnded || events[1].Err != "" || events[1].Code != 0 {
		t.Errorf("reported: %+v", events)
	}
}

func TestAGuardThatBeginsTooLateStartsNothing(t *testing.T) {
	for name, last := range map[string]*order{
		"the term is over":         {Op: opStop},
		"it is told to end":        {Op: opSignal, Signal: int(syscall.SIGTERM)},
		"the candidate has died":   nil,
		"a trust window of before": {Op: opTrust, Until: sharedNow() - int64(time.Minute)},
	} {
		orders := make(chan order, 2)
		orders <- order{Op: opSignal, Signal: int(syscall.SIGUSR1)} // for a program that does not run
		if last != nil {
			orders <- *last
		}
		close(orders)
		if events := guarded(t, orders); len(events) != 1 || events[0].Event != evEnded || events[0].Err != errLate.Error() {
			t.Errorf("%s: reported: %+v", name, events)
		}
	}
}
