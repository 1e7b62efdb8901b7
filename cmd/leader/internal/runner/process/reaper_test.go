//go:build unix

package process

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// patience bounds each wait. A wait that succeeds is much shorter.
const patience = time.Minute

// newDeafReaper returns a reaper that no SIGCHLD reaches.
func newDeafReaper(t *testing.T) *Reaper {
	t.Helper()
	r := NewReaper()
	t.Cleanup(r.Close)
	signal.Stop(r.signals)
	return r
}

func TestAProcessIsCollectedWithoutItsSignal(t *testing.T) {
	r := newDeafReaper(t)
	pid, ended, err := r.Start("/bin/sh", []string{"sh", "-c", "exit 7"}, &syscall.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case status := <-ended:
		if status.ExitStatus() != 7 || r.Runs(pid) {
			t.Errorf("status %d, still running: %v", status.ExitStatus(), r.Runs(pid))
		}
	case <-time.After(patience):
		t.Fatal("it is never collected")
	}
}

func TestLookWithoutAResultIsNotReported(t *testing.T) {
	r := newDeafReaper(t)
	pid, ended, err := r.Start("/bin/sleep", []string{"sleep", "600"}, &syscall.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.collect()
	}
	select {
	case <-r.Changed:
		t.Error("the guard is woken, looks again, and is woken by that")
	default:
	}
	r.Signal(pid, syscall.SIGKILL, false)
	select {
	case <-r.Changed:
	case <-time.After(patience):
		t.Fatal("an end is not reported")
	}
	if status := <-ended; !status.Signaled() {
		t.Errorf("status %v", status)
	}
}

// A cron job may end while its last hook is about to begin.
func TestAReaperThatIsClosedStartsNothing(t *testing.T) {
	r := NewReaper()
	r.Close()
	if pid, _, err := r.Start("/bin/sh", []string{"sh", "-c", "exit 7"}, &syscall.ProcAttr{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("process %d, error %v", pid, err)
	}
}
