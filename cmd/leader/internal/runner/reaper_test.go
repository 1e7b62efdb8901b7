//go:build unix

package runner

import (
	"encoding/json"
	"io"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// patience bounds each wait. None that succeeds takes so long.
const patience = time.Minute

// newDeafReaper returns a reaper that no SIGCHLD reaches.
func newDeafReaper(t *testing.T) *reaper {
	t.Helper()
	r := newReaper()
	t.Cleanup(r.close)
	signal.Stop(r.signals)
	return r
}

func TestAProcessIsCollectedWithoutItsSignal(t *testing.T) {
	r := newDeafReaper(t)
	pid, ended, err := r.start("/bin/sh", []string{"sh", "-c", "exit 7"}, &syscall.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case status := <-ended:
		if status.ExitStatus() != 7 || r.runs(pid) {
			t.Errorf("status %d, still running: %v", status.ExitStatus(), r.runs(pid))
		}
	case <-time.After(patience):
		t.Fatal("it is never collected")
	}
}

func TestAGuardEndsWithItsProgramWithoutASignal(t *testing.T) {
	g := &guard{
		reaper: newDeafReaper(t), out: json.NewEncoder(io.Discard), limits: limits{Stop: time.Second, Margin: time.Second},
		until: sharedNow() + int64(time.Hour), // no deadline comes to its help
	}
	done := make(chan error, 1)
	go func() {
		done <- g.run(order{Path: "/bin/sh", Argv: []string{"sh", "-c", "exit 7"}}, make(chan order))
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

func TestALookThatFindsNothingIsNoNews(t *testing.T) {
	r := newDeafReaper(t)
	pid, ended, err := r.start("/bin/sleep", []string{"sleep", "600"}, &syscall.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.collect()
	}
	select {
	case <-r.changed:
		t.Error("the guard is woken, looks again, and is woken by that")
	default:
	}
	r.signal(pid, syscall.SIGKILL, false)
	select {
	case <-r.changed:
	case <-time.After(patience):
		t.Fatal("nobody is told of an end")
	}
	if status := <-ended; !status.Signaled() {
		t.Errorf("status %v", status)
	}
}
