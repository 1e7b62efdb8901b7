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
	// Nor is a context looked for.
	env = append(env, "NATS_CONTEXT=nowhere")
	if code, out, stderr := runProgram(t, env, "ls", "--dev"); code != 0 || out == "" || !strings.Contains(stderr, "NATS_URL and NATS_CONTEXT are not used\n") {
		t.Errorf("leader ls --dev with a context: exit status %d, stdout %q, stderr %q", code, out, stderr)
	}
	if code, _, stderr := runProgram(t, env, "ls", "--dev", "-s", "nats://127.0.0.1:2"); code != 2 || !strings.Contains(stderr, "--server") {
		t.Errorf("with --server: exit status %d, stderr %q", code, stderr)
	}
}

// The demo stops and kills what it finds. Who has exported NATS_URL for good
// wants to try things out, and not on that server.
func TestTheDemoBringsItsOwnServerWhateverTheEnvironmentNames(t *testing.T) {
	t.Parallel()
	args := []string{"demo", "--plain", "--workers", "1", "--for", "1s"}
	for _, name := range []string{"NATS_URL=nats://127.0.0.1:1", "NATS_CONTEXT=nowhere"} {
		code, out, stderr := runProgram(t, []string{name}, args...)
		variable, value, _ := strings.Cut(name, "=")
		if code != 0 || strings.Contains(out, value) || !strings.Contains(stderr, variable+" is not used") {
			t.Errorf("%s: exit status %d, stderr %q\n%s", name, code, stderr, out)
		}
		// The command line is obeyed, even if it says the same.
		flag := map[string]string{"NATS_URL": "--server", "NATS_CONTEXT": "--context"}[variable]
		if code, _, stderr := runProgram(t, []string{name}, append(args, flag, value)...); code == 0 || strings.Contains(stderr, "is not used") {
			t.Errorf("%s with %s: exit status %d, stderr %q", name, flag, code, stderr)
		}
	}
}
