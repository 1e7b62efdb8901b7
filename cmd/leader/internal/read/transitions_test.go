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
