package read

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app/apptest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// On a store that does not report when it stored a record.
func TestSilentHolderLeadsNoMoreElsewhere(t *testing.T) {
	type command interface {
		Run(ctx context.Context, std app.Streams) error
	}
	asJSON := output.Format{Output: "json"}
	for name, of := range map[string]func(app.Target) command{
		"ls":            func(to app.Target) command { return ListCommand{Target: to, Format: asJSON, Pattern: "g"} },
		"get":           func(to app.Target) command { return GetCommand{Target: to, Format: asJSON, Group: "g"} },
		"wait --vacant": func(to app.Target) command { return WaitCommand{Target: to, Format: asJSON, Group: "g", Vacant: true} },
	} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			apptest.Lead(t, st, "g", "gone", time.Hour)
			renewed := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
			var out bytes.Buffer
			if err := of(apptest.Elsewhere(st, 5*time.Second)).Run(t.Context(), app.Streams{Out: &out, Err: &out}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			var g Group
			if err := json.Unmarshal(bytes.Trim(out.Bytes(), "[]\n"), &g); err != nil {
				t.Errorf("%s: %v: %s", name, err, &out)
			}
			if g.Leader != "" || g.Last != "gone" || g.Term != 1 || g.Reason != leader.ReasonExpired || g.LeaseLeft != 0 ||
				!g.Renewed.Equal(renewed) || !g.Since.Equal(renewed.Add(22*time.Second)) {
				t.Errorf("%s: %s", name, &out)
			}
		})
	}
}

func TestGetStatesThatCandidatesCannotBeAskedElsewhere(t *testing.T) {
	st := memstore.New()
	apptest.Lead(t, st, "g", "a", 0)
	var out bytes.Buffer
	c := GetCommand{Target: apptest.Elsewhere(st, time.Minute), Format: output.Format{Output: "table"}, Group: "g"}
	if err := c.Run(t.Context(), app.Streams{Out: &out, Err: &out}); err != nil || !strings.Contains(out.String(), "the roll call needs NATS") {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestLeaseCountsDownElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		apptest.Lead(t, st, "g", "a", 5*time.Second)
		var out bytes.Buffer
		c := ListCommand{Target: apptest.Elsewhere(st, 5*time.Second), Format: output.Format{Output: "json"}, Pattern: ">"}
		if err := c.Run(t.Context(), app.Streams{Out: &out, Err: &out}); err != nil {
			t.Error(err)
		}
		var all []Group
		if err := json.Unmarshal(out.Bytes(), &all); err != nil || len(all) != 1 || all[0].Leader != "a" || all[0].LeaseLeft != 17000 {
			t.Errorf("%v: %s", err, &out)
		}
	})
}
