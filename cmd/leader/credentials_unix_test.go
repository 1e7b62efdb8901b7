//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
)

// What leader run is let in by is none of its program's business.
func TestProgramsDoNotInheritCredentials(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	env := []string{
		"NATS_URL=" + strings.Replace(url, "://", "://leader:secret-1@", 1),
		"NATS_USER=leader", "NATS_PASSWORD=secret-2", "LEADER_DASH_TOKEN=secret-3-and-then-some", "OWN=kept",
	}
	args := []string{"run", "jobs", "--check", "env | sed s/^/check:/ >&2", "--on-promote", "env | sed s/^/hook:/ >&2"}
	program := []string{"--", "env"}

	code, out, said := execute(t, env, append(args, program...)...)
	if code != 0 || strings.Contains(out, "secret") || strings.Contains(said, "secret") {
		t.Errorf("exit status %d; the program has\n%s\nand the hooks\n%s", code, out, said)
	}
	for _, in := range []string{out, said} {
		if !strings.Contains(in, "OWN=kept") {
			t.Errorf("there is nothing left: %s", in)
		}
	}
	if !strings.Contains(out, "LEADER_TERM=") {
		t.Errorf("the program is not told of its term: %s", out)
	}

	code, out, said = execute(t, env, append(append(args, "--pass-credentials"), program...)...)
	for _, secret := range []string{"secret-1", "secret-2", "secret-3"} {
		if code != 0 || !strings.Contains(out, secret) || !strings.Contains(said, "hook:") || strings.Count(said, secret) < 2 {
			t.Errorf("exit status %d; %s is not passed on: %s\n%s", code, secret, out, said)
		}
	}
}
