//go:build unix && !natsonly

package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// nowhere is a store whose server is not there.
const nowhere = "redis://127.0.0.1:1"

// A host that waits for its store ends like any other that waits. A crontab
// would start one more each minute, and nobody could stop them.
func TestRunEndsWhileItsStoreIsNotThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags []string
		sig   syscall.Signal
		code  int
		said  string
	}{
		"TERM":   {nil, syscall.SIGTERM, 128 + int(syscall.SIGTERM), ""},
		"INT":    {nil, syscall.SIGINT, 128 + int(syscall.SIGINT), ""},
		"--try":  {[]string{"--try", "--timeout", "300ms"}, 0, 6, "the server is not reached"},
		"--once": {[]string{"--once", "--every", "1s"}, 0, 75, "the period of --every is over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRunOn(t, append([]string{"--store", nowhere}, c.flags...), "echo up")
			if c.sig != 0 {
				r.awaitSaid("waiting for the store")
				r.signal(c.sig)
			}
			if rest, code := r.end(); code != c.code || len(rest) > 0 || !strings.Contains(r.said(), c.said) {
				t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, r.said())
			}
		})
	}
}

// Others that wait have nothing to do then, and end as they would later.
func TestAgentAndCampaignEndWhileTheirStoreIsNotThere(t *testing.T) {
	t.Parallel()
	if code, out, stderr := runProgram(t, nil, "campaign", "jobs", "--store", nowhere, "--for", "300ms"); code != 0 || out != "" {
		t.Errorf("campaign --for: exit status %d, stdout %q, stderr %s", code, out, stderr)
	}
	for _, args := range [][]string{{"campaign", "jobs"}, {"agent", "--listen", "127.0.0.1:0"}} {
		r := follow(t, append(args, "--store", nowhere))
		r.awaitSaid("waiting for the store")
		r.signal(syscall.SIGINT)
		if rest, code := r.end(); code != 0 || len(rest) > 0 || strings.Count(r.said(), "\n") != 1 {
			t.Errorf("%s: exit status %d, stdout %q, stderr %s", args[0], code, rest, r.said())
		}
	}
}

// No restart helps a host that waits for its store, and clients are not to come.
func TestAHostWhoseStoreIsAwayAnswersProbes(t *testing.T) {
	t.Parallel()
	r := startRunOn(t, []string{"--store", nowhere, "--http", "127.0.0.1:0"}, "echo up")
	r.awaitSaid("waiting for the store")
	for path, want := range map[string]int{
		"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/leader": http.StatusServiceUnavailable, "/metrics": http.StatusOK,
	} {
		if code, body := r.get(path); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}
