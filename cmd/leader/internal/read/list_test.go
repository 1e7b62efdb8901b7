package read

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
)

func TestTransitionsAreShown(t *testing.T) {
	now := time.Now()
	g := groupOf(leader.LeaderInfo{Group: "reports", ID: "w", Term: 7, Transitions: 41, Until: now.Add(time.Second)}, now)
	if b, err := json.Marshal(g); err != nil || !strings.Contains(string(b), `"transitions":41`) {
		t.Errorf("%s, %v", b, err)
	}
	r := table([]Group{g}, now)
	if i := slices.Index(r.Head, "TRANSITIONS"); i < r.Wide || r.Rows[0][i] != "41" {
		t.Errorf("column %d of %v: %v", i, r.Head, r.Rows)
	}
}

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

// ls -w is told of renewals by records alone.
func TestAListThatIsFollowedSaysWhenTheLeaderRenewedLast(t *testing.T) {
	info := leader.LeaderInfo{Group: "g", ID: "a", Term: 7, Acquired: acquired, Renewed: acquired, Until: acquired.Add(time.Second)}
	b := &board{groups: map[string]Group{"g": groupOf(info, acquired).withRecord(acquired.Add(time.Millisecond), 8, acquired)}}
	info.Renewed = renewed
	b.renew(info)
	if g := b.groups["g"]; !g.Renewed.Equal(renewed) || g.Stored {
		t.Errorf("%+v", g)
	}
}
