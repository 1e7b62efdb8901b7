package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestDurationsAreShownAsPeopleWriteThem(t *testing.T) {
	for d, want := range map[time.Duration]string{
		10 * time.Minute: "10m", 24 * time.Hour: "24h", 150 * time.Second: "2m30s", 40 * time.Second: "40s", 90 * time.Minute: "1h30m",
	} {
		if got := short(d); got != want {
			t.Errorf("%v is shown as %s", d, got)
		}
	}
}

func TestAPageNamesTheSeedOfItsRun(t *testing.T) {
	for want, f := range map[string]fireCommand{
		`make chaos FOR=7m ARGS="--seed 588"`:            {For: 7 * time.Minute, Seed: 588},
		"go run ./test/labs/chaos --rounds 6 --seed 588": {Rounds: 6, Seed: 588},
	} {
		if got := f.command(); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func TestExitCodesDistinguishMisuseFromFailure(t *testing.T) {
	for line, want := range map[string]int{
		"--help":           exitOK,
		"--mutant list":    exitOK,
		"--mutant nothing": exitFailed,
		"--only nothing":   exitFailed,
		"--nothing":        exitUsage,
		"nothing":          exitUsage,
	} {
		var out, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(line), &out, &stderr); code != want {
			t.Errorf("chaos %s: %d, not %d\n%s", line, code, want, stderr.String())
		}
		if (want == exitOK) != (stderr.Len() == 0) || (want == exitOK) != (out.Len() > 0) {
			t.Errorf("chaos %s: stdout %q, stderr %q", line, out.String(), stderr.String())
		}
	}
}
