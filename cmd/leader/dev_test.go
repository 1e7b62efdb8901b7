package main

import (
	"strings"
	"testing"
)

// The README has its reader export NATS_URL and try --dev afterwards.
func TestDevBringsItsOwnServerWhateverTheEnvironmentNames(t *testing.T) {
	t.Parallel()
	env := []string{"NATS_URL=nats://127.0.0.1:1"}
	for _, line := range []string{"ls --dev", "get reports --dev", "pause jobs.eu --dev -y --timeout 60s"} {
		code, out, stderr := runProgram(t, env, strings.Fields(line)...)
		if code != 0 || out == "" || !strings.HasPrefix(stderr, "leader: --dev: ") || !strings.Contains(stderr, "NATS_URL is not used\n") {
			t.Errorf("leader %s: exit status %d, stdout %q, stderr %q", line, code, out, stderr)
		}
	}
	if code, _, stderr := runProgram(t, env, "ls", "--dev", "-s", "nats://127.0.0.1:2"); code != 2 || !strings.Contains(stderr, "--server") {
		t.Errorf("with --server: exit status %d, stderr %q", code, stderr)
	}
}
