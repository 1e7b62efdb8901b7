package read

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app/apptest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board/boardtest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
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

func TestPausedGroupShowsItsPauseUnderAnyLeader(t *testing.T) {
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
func TestFollowedListReportsADeadLeaderOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		apptest.Lead(t, st, "g", "gone", time.Hour)
		found := time.Now()
		next := followed(t, st)
		time.Sleep(time.Minute)
		if all := next(); len(all) != 1 || all[0].Leader != "" || all[0].Last != "gone" || all[0].Reason != leader.ReasonExpired || !all[0].Since.Equal(found.Add(22*time.Second-time.Hour)) {
			t.Errorf("%+v", all)
		}
		apptest.Lead(t, st, "g", "gone", 0)
		if all := next(); len(all) != 1 || all[0].Leader != "gone" || all[0].Term != 1 || all[0].Last != "" {
			t.Errorf("its renewal: %+v", all)
		}
	})
}

// A renewal is not a change, and a vacancy has the reason for the next leader.
func TestAListThatIsFollowedPrintsEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		apptest.Lead(t, st, "g", "a", 0)
		next := followed(t, st)
		for range 3 {
			time.Sleep(10 * time.Second)
			apptest.Lead(t, st, "g", "a", 0)
		}
		if all := next(); len(all) != 1 || all[0].Leader != "a" {
			t.Errorf("%+v", all)
		}
		e, err := st.Get(t.Context(), "g")
		if err == nil {
			vacancy := []byte(`{"token":"t","term":1,"reason":"resigned","by":"ops"}`)
			_, err = st.CompareAndSwap(t.Context(), store.Write{Key: "g", Expected: e.Revision, Tombstone: true, Value: vacancy})
		}
		if err != nil {
			t.Fatal(err)
		}
		if all := next(); len(all) != 1 || all[0].Leader != "" || all[0].Last != "a" || all[0].By != "ops" {
			t.Errorf("a vacancy: %+v", all)
		}
		st.Put("g", []byte(`{"id":"b","token":"u","ttl":20000,"term":2,"reason":"vacant"}`))
		if all := next(); len(all) != 1 || all[0].Leader != "b" || all[0].Reason != leader.ReasonResigned || all[0].By != "ops" || !all[0].Since.Equal(time.Now()) {
			t.Errorf("the next leader: %+v", all)
		}
	})
}

// followed follows a store with leader ls --watch, and returns a function that
// returns the groups that were printed since its last call.
func followed(t *testing.T, st *memstore.Store) (next func() []Group) {
	t.Helper()
	out := make(chan []byte, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		c := ListCommand{Target: apptest.Elsewhere(st, 5*time.Second), Format: output.Format{Output: "json"}, Pattern: ">", Watch: true}
		done <- c.Run(ctx, app.Streams{Out: written(out), Err: io.Discard})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return func() (all []Group) {
		t.Helper()
		synctest.Wait()
		for len(out) > 0 {
			var g Group
			if err := json.Unmarshal(<-out, &g); err != nil {
				t.Error(err)
			}
			all = append(all, g)
		}
		return all
	}
}

// written passes on each write.
type written chan []byte

func (w written) Write(line []byte) (int, error) {
	w <- bytes.Clone(line)
	return len(line), nil
}

// ls -w learns of renewals by records alone.
func TestFollowedListShowsTheLastRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		apptest.Lead(t, st, "g", "a", time.Second)
		b := boardtest.Follow(t, st)
		kept := time.Now().Add(-time.Millisecond)
		b.Learn([]board.Finding{{Group: "g", Term: 1, Renewed: kept}})
		now := func() Group { g, _ := b.Group("g"); return groupOn(g, time.Now()) }
		if g := now(); !g.Renewed.Equal(kept) || !g.Stored {
			t.Errorf("by the store: %+v", g)
		}
		apptest.Lead(t, st, "g", "a", 10*time.Millisecond)
		synctest.Wait()
		if g := now(); !g.Renewed.Equal(time.Now().Add(-10*time.Millisecond)) || g.Stored {
			t.Errorf("by the record: %+v", g)
		}
	})
}
