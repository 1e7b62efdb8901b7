package read

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
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

func TestALeaderWhoseLeaseHasRunOutLeadsNoMore(t *testing.T) {
	now := time.Now().UTC()
	g := groupOf(leader.LeaderInfo{Group: "reports", ID: "w", Term: 1, Address: "host", Until: now.Add(20 * time.Second)}, now)
	g.Reason = leader.ReasonVacant
	for renewed, want := range map[time.Duration]Group{
		15 * time.Second: {Leader: "w", Address: "host", Reason: leader.ReasonVacant, LeaseLeft: 5000},
		21 * time.Second: {Leader: "w", Address: "host", Reason: leader.ReasonVacant}, // clocks may be apart
		5 * time.Minute:  {Last: "w", Reason: leader.ReasonExpired, Since: now.Add(20*time.Second - 5*time.Minute)},
	} {
		got := g.withStanding(app.Judge(g.info, now.Add(-renewed), 2, now), now)
		if got.Leader != want.Leader || got.Last != want.Last || got.Address != want.Address || got.Reason != want.Reason ||
			got.LeaseLeft != want.LeaseLeft || !got.Since.Equal(want.Since) || !got.Renewed.Equal(now.Add(-renewed)) {
			t.Errorf("renewed %v ago: %+v", renewed, got)
		}
	}
}

func TestAGroupThatIsPausedSaysSoWhoeverLeadsIt(t *testing.T) {
	for want, g := range map[string]Group{
		"paused by ops":                  {Reason: leader.ReasonExpired, Last: "w"},
		"paused by ops (not obeyed yet)": {Leader: "w"},
	} {
		g.Paused, g.PausedBy, g.PausedWhy = true, "ops", "disk"
		if change, why := g.stands(); change != want || why != "disk" {
			t.Errorf("%q, %q; want %q", change, why, want)
		}
	}
}

func TestAListThatIsFollowedScrolls(t *testing.T) {
	p := &pager{}
	p.Update(tea.WindowSizeMsg{Width: 10, Height: 5})
	var lines screenful
	for i := range 10 {
		lines = append(lines, fmt.Sprintf("line %d", i))
	}
	p.Update(lines)
	for _, step := range []struct {
		key  rune
		want string // the first and the last line below the head
	}{{0, "13"}, {'k', "13"}, {tea.KeyDown, "24"}, {tea.KeyPgDown, "57"}, {'G', "79"}, {'j', "79"}, {tea.KeyPgUp, "46"}, {'g', "13"}} {
		if step.key != 0 {
			k := tea.KeyPressMsg{Code: step.key}
			if step.key < tea.KeyExtended {
				k.Text = string(step.key)
			}
			p.Update(k)
		}
		shown := strings.Split(p.View().Content, "\n")
		if got := shown[1][5:] + shown[3][5:]; len(shown) != 5 || shown[0] != "line 0" || got != step.want || !strings.HasPrefix(shown[4], "… ") {
			t.Errorf("after %q: %q, want %s", step.key, shown, step.want)
		}
	}
	p.Update(screenful{"head", "one"}) // the others are gone
	if got := p.View().Content; got != "head\none" {
		t.Errorf("%q", got)
	}
	bare := &pager{bare: true}
	bare.Update(tea.WindowSizeMsg{Width: 10, Height: 5})
	bare.Update(lines)
	bare.Update(tea.KeyPressMsg{Code: tea.KeyDown})
	if got := bare.View().Content; !strings.HasPrefix(got, "line 1\nline 2\n") {
		t.Errorf("without headers: %q", got)
	}
}

func TestTroubleIsShownFirst(t *testing.T) {
	groups := []Group{{Group: "a", Leader: "w"}, {Group: "b", Paused: true}, {Group: "c"}, {Group: "d", Leader: "w", Paused: true}, {Group: "e"}}
	if r := (ListCommand{Sort: "trouble"}).table(groups, time.Now()); !slices.Equal(r.Names, []string{"c", "e", "b", "d", "a"}) {
		t.Errorf("%q", r.Names)
	}
}

// The record stays as it is when the lease that it states runs out, and changes
// if its leader comes back.
func TestAListThatIsFollowedSaysOnceThatALeaderIsDead(t *testing.T) {
	died := acquired.Add(time.Minute)
	info := leader.LeaderInfo{Group: "g", ID: "a", Term: 7, Acquired: acquired, Renewed: renewed, Until: renewed.Add(time.Second)}
	var out bytes.Buffer
	b := &board{cmd: ListCommand{Format: output.Format{Output: "json"}}, out: &out, present: true, hidden: func(leader.LeaderInfo) bool { return false },
		groups: map[string]Group{"g": groupOf(info, renewed).withStanding(app.Judge(info, died, 8, renewed), renewed)}}
	expired := leader.LeaderInfo{Group: "g", Term: 7, Reason: leader.ReasonExpired}
	if err := b.take(t.Context(), observed{info: expired, at: renewed.Add(time.Second)}); err != nil || out.Len() != 0 {
		t.Errorf("said again: %s, %v", out.String(), err)
	}
	if g := b.groups["g"]; g.Last != "a" || !g.Since.Equal(died.Add(time.Second)) {
		t.Errorf("%+v", g)
	}
	if err := b.take(t.Context(), observed{info: info, renewed: true}); err != nil || !strings.Contains(out.String(), `"leader":"a"`) {
		t.Errorf("its renewal: %s, %v", out.String(), err)
	}
}

// ls -w is told of renewals by records alone.
func TestAListThatIsFollowedSaysWhenTheLeaderRenewedLast(t *testing.T) {
	info := leader.LeaderInfo{Group: "g", ID: "a", Term: 7, Acquired: acquired, Renewed: acquired, Until: acquired.Add(time.Second)}
	b := &board{groups: map[string]Group{"g": groupOf(info, acquired).withStanding(app.Judge(info, acquired.Add(time.Millisecond), 8, acquired), acquired)}}
	info.Renewed = renewed
	if err := b.renew(info); err != nil {
		t.Error(err)
	}
	if g := b.groups["g"]; !g.Renewed.Equal(renewed) || g.Stored {
		t.Errorf("%+v", g)
	}
}
