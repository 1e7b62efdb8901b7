package read

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/rollcall"
)

var (
	acquired = time.Date(2026, 11, 25, 4, 0, 0, 123e6, time.UTC)
	renewed  = acquired.Add(time.Hour)
)

// answers are details of which a store and a leader say this.
func answers(kept stored, itself rollcall.Candidate) *details {
	return &details{
		func(context.Context, string) []advisory.Advisory { return nil },
		source[stored]{func(context.Context, Group) (stored, error) { return kept, nil }, new(atomic.Bool)},
		source[rollcall.Candidate]{func(context.Context, Group) (rollcall.Candidate, error) { return itself, nil }, new(atomic.Bool)},
	}
}

func TestWhatNobodyElseKnowsTheRecordSays(t *testing.T) {
	led := leader.LeaderInfo{Group: "g", ID: "a", Term: 7, Acquired: acquired, Renewed: renewed, Until: renewed.Add(time.Second)}
	vacant := leader.LeaderInfo{Group: "g", Term: 7, Acquired: acquired, Renewed: renewed, Reason: leader.ReasonResigned}
	expired := vacant
	expired.Reason = leader.ReasonExpired
	at := renewed.Add(time.Minute)
	for name, c := range map[string]struct {
		info           leader.LeaderInfo
		kept           stored
		itself         rollcall.Candidate
		since, renewed time.Time
		stored         bool
	}{
		"a leader":                         {info: led, since: acquired, renewed: renewed},
		"a vacancy":                        {info: vacant, since: renewed},
		"a leader that fell silent":        {info: expired, renewed: renewed},
		"a record that says nothing":       {info: leader.LeaderInfo{Group: "g", ID: "a", Term: 7}},
		"the store knows":                  {info: led, kept: stored{at, 7}, since: at, renewed: at, stored: true},
		"the store knows of a renewal":     {info: led, kept: stored{at, 9}, since: acquired, renewed: at, stored: true},
		"the store knows of a vacancy":     {info: vacant, kept: stored{at, 9}, since: at},
		"the leader knows":                 {info: led, itself: rollcall.Candidate{Since: at}, since: at, renewed: renewed},
		"the store and the leader know it": {info: led, kept: stored{at, 9}, itself: rollcall.Candidate{Since: at}, since: at, renewed: at, stored: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			groups := []Group{groupOf(c.info, time.Now())}
			answers(c.kept, c.itself).complete(t.Context(), ">", groups)
			if g := groups[0]; !g.Since.Equal(c.since) || !g.Renewed.Equal(c.renewed) || g.Stored != c.stored {
				t.Errorf("%s: %+v", name, g)
			}
		})
	}
}

// The clock of a leader may be wrong: by it nobody is called silent, and
// nothing that is printed fails.
func TestAClockThatIsWrongIsShownAndNoMore(t *testing.T) {
	now := renewed
	for _, wrong := range []time.Time{time.UnixMilli(1), time.Date(6429, 1, 1, 0, 0, 0, 0, time.UTC)} {
		info := leader.LeaderInfo{Group: "g", ID: "a", Term: 7, Acquired: wrong, Renewed: wrong, Until: now.Add(time.Second)}
		groups := []Group{groupOf(info, now)}
		answers(stored{}, rollcall.Candidate{}).complete(t.Context(), ">", groups)
		g := groups[0]
		if g.Silent || g.LeaseLeft != 1000 {
			t.Errorf("%+v", g)
		}
		b, err := json.Marshal(g)
		if err != nil || !strings.Contains(string(b), `"since":"`+wrong.UTC().Format(time.RFC3339Nano)+`"`) {
			t.Errorf("%s, %v", b, err)
		}
		r := table(groups, now)
		for _, head := range []string{"SINCE", "LEASE", "RENEWED"} {
			if cell := r.Rows[0][slices.Index(r.Head, head)]; cell == "" || strings.Contains(cell, "silent") {
				t.Errorf("%s: %q", head, cell)
			}
		}
	}
}

func TestWatchSaysSinceWhenByTheRecord(t *testing.T) {
	for want, info := range map[string]leader.LeaderInfo{
		`"since":"2026-11-25T04:00:00.123Z","renewed":"2026-11-25T05:00:00.123Z"`:  {ID: "a", Acquired: acquired, Renewed: renewed},
		`"since":"2026-11-25T05:00:00.123Z","reason":"resigned"`:                   {Acquired: acquired, Renewed: renewed, Reason: leader.ReasonResigned},
		`"event":"vacant","renewed":"2026-11-25T05:00:00.123Z","reason":"expired"`: {Acquired: acquired, Renewed: renewed, Reason: leader.ReasonExpired},
		`"event":"acquired","leader":"b"}`:                                         {ID: "b"},
	} {
		var out bytes.Buffer
		p := &printer{out: &out, json: true}
		c := changeOf(observed{info: info}, true)
		if _, err := p.print(c, c.line()); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s, %v; want %s", out.String(), err, want)
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
