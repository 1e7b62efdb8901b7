//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestACampaignDoesNotStandBeforeItsCheckHasPassed(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	log := filepath.Join(t.TempDir(), "log")
	f := l.follow("campaign", "solo", "--id", "a", "--check", fitLater(log), "--check-interval", "1s", "--json")
	var tr transition
	f.next(&tr)
	asked, err := os.ReadFile(log)
	if err != nil || strings.Count(string(asked), "asked") < 3 {
		t.Errorf("%s %s after the checks %q (%v)", tr.Event, tr.Reason, asked, err)
	}
}

// Its second check interrupts it.
func TestAnInterruptEndsACampaignThatIsNotFit(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	asked := filepath.Join(t.TempDir(), "asked")
	code, out, stderr := execute(t, []string{"NATS_URL=" + l.url},
		"campaign", "solo", "--check", "[ ! -e "+asked+" ] || kill -INT $PPID; : > "+asked+"; false", "--check-interval", "1s")
	if code != 0 || out != "" || strings.Count(stderr, "leader: waiting: this host is not fit to lead: the check failed\n") != 1 {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, out, stderr)
	}
}
