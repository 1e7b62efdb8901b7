package read

import (
	"strings"
	"testing"
	"time"
)

// The lines of ls -w say what the table of ls says in its column TRUST.
func TestLsWatchSaysWhoIsSilent(t *testing.T) {
	now := time.Now()
	g := Group{Group: "reports", Leader: "w", Term: 1, until: now.Add(20 * time.Second)}
	for renewed, want := range map[time.Duration]bool{5 * time.Minute: true, 15 * time.Second: false} {
		var b strings.Builder
		if err := lineOf(g.withRecord(now.Add(-renewed), 2, now), now).write(&b); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "silent for 5m0s"); got != want {
			t.Errorf("renewed %v ago: %q", renewed, b.String())
		}
	}
}
