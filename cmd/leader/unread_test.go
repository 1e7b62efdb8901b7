package main

import (
	"os"
	"strings"
	"testing"
)

// leader ls | head -1
func TestWhoStopsReadingHearsNoComplaint(t *testing.T) {
	if !runsOnUnix() {
		t.Skip("what a write to a closed pipe answers is the system's own there")
	}
	t.Parallel()
	for line, want := range map[string]int{
		"--help": 0, "ls --help": 0, "version": 0, "man": 0, "completion bash": 0,
		"ls --dev": 0, "ls --dev -o json": 0, "ls --dev -o name": 0, "ls --dev -w": 0, "get reports --dev": 0, "watch --dev": 0,
		"history reports --dev": 0, "doctor --dev --timeout 60s": 0, "bucket create new --dev": 0,
		// The status is what was found out, and not that nobody reads it.
		"token verify reports --dev --term 1": 1, "bucket check --dev --strict --timeout 60s": 0, "ls --dev nosuch": 4,
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		var stderr text
		got := run(t.Context(), strings.Fields(line), environment(nil), strings.NewReader(""), w, &stderr)
		_ = w.Close()
		if got != want || strings.Contains(stderr.String(), "pipe") {
			t.Errorf("leader %s: exit status %d, want %d; stderr %q", line, got, want, stderr.String())
		}
	}
}
