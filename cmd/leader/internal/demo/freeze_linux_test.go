package demo

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Otherwise the demo would call a worker frozen that still renews.
func TestFrozenWorkerStopsImmediately(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "spin")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	detach(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // it runs
		t.Fatal(err)
	}
	for i := range 100 {
		if err := freeze(cmd.Process); err != nil {
			t.Fatal(err)
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(stat), ") T ") {
			t.Fatalf("frozen for the %d. time it still runs: %s", i+1, stat)
		}
		if err := thaw(cmd.Process); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAWorkerThatIsGoneIsNotAwaited(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "fail")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it fails
	if !awaitStopped(cmd.Process.Pid) {
		t.Error("who is gone was waited for")
	}
}

// For example, somebody else continued it.
func TestAWorkerThatRunsOnIsNotCalledFrozen(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "spin")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	if awaitStopped(cmd.Process.Pid) {
		t.Error("it runs, and was taken for frozen")
	}
}
