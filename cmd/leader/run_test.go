package main

import (
	"strings"
	"testing"
)

func TestWrongFlagsOfRunAreRefusedWithTheRule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"stop-timeout": {
			[]string{"run", "g", "--ttl", "3s", "--heartbeat", "1s", "--stop-timeout", "2s", "--", "go"},
			[]string{"--stop-timeout 2s", "at most 550ms"},
		},
		"two faults": {
			[]string{"run", "g", "--ttl=-1s", "--stop-timeout=-2s", "--", "go"},
			[]string{"--ttl -1s: must not be negative", "--stop-timeout -2s: must not be negative"},
		},
		"lease":   {[]string{"run", "g", "--ttl", "3s", "--heartbeat", "2s", "--", "go"}, []string{"--ttl 3s", "at least 3 × --heartbeat"}},
		"program": {[]string{"run", "g"}, []string{"<program>"}},
		"on-exit": {[]string{"run", "g", "--on-exit", "retire", "--", "go"}, []string{"--on-exit", `"retire"`}},
		"check":   {[]string{"campaign", "g", "--check-interval", "1s"}, []string{"--check-interval"}},
		"group":   {[]string{"campaign", "_ctl.g"}, []string{`"_ctl.g"`}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, stderr := runProgram(t, nil, c.args...)
			if first, _, _ := strings.Cut(stderr, "\n"); code != 2 || out != "" || first == "leader: usage" {
				t.Errorf("exit status %d, stdout %q, stderr %q", code, out, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr %q does not say %q", stderr, want)
				}
			}
		})
	}
}
