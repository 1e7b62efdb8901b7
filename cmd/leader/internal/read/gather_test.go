package read

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/rollcall"
)

// unanswered is a question that the server drops, as it does where the right to
// ask is missing.
func unanswered[T any](ctx context.Context, _ Group) (answer T, err error) {
	<-ctx.Done()
	return answer, ctx.Err()
}

func noHistory(ctx context.Context, _ string) []advisory.Advisory {
	<-ctx.Done()
	return nil
}

var (
	acquired = time.Date(2026, 11, 25, 4, 0, 0, 123e6, time.UTC)
	renewed  = acquired.Add(time.Hour)
)

// answers are details with these reports of a store and of a leader.
func answers(kept stored, itself rollcall.Candidate) *details {
	return sources(
		func(context.Context, string) []advisory.Advisory { return nil }, kept.stand,
		func(context.Context, Group) (rollcall.Candidate, error) { return itself, nil },
	)
}

func sources(
	history func(context.Context, string) []advisory.Advisory,
	record func(context.Context, Group) (app.Standing, error),
	itself func(context.Context, Group) (rollcall.Candidate, error),
) *details {
	return &details{
		history, source[app.Standing]{record, new(atomic.Bool), enough}, source[rollcall.Candidate]{itself, new(atomic.Bool), enough}, 32, 2 * enough,
	}
}

// stored is what a server reports about a record, if it reports anything.
type stored struct {
	at       time.Time
	revision uint64
}

func (s stored) stand(_ context.Context, g Group) (app.Standing, error) {
	return app.Judge(g.info, s.at, s.revision, time.Now()), nil
}

// led is a group that w leads.
func led(group string, term uint64) Group {
	return groupOf(leader.LeaderInfo{Group: group, ID: "w", Term: term, Until: time.Now().Add(time.Minute)}, time.Now())
}

func TestUserWhoMayAskNobodyWaitsOnlyOnce(t *testing.T) {
	for name, record := range map[string]func(context.Context, Group) (app.Standing, error){
		"but the records": stored{time.Now(), 9}.stand, "at all": unanswered[app.Standing],
	} {
		synctest.Test(t, func(t *testing.T) {
			d := sources(noHistory, record, unanswered[rollcall.Candidate])
			groups := []Group{led("a", 7), led("b", 8)}
			begin := time.Now()
			d.complete(t.Context(), ">", groups)
			if took := time.Since(begin); took > 1250*time.Millisecond {
				t.Errorf("%s: %v", name, took)
			}
			if name != "at all" && groups[0].Renewed.IsZero() {
				t.Errorf("%s: %+v", name, groups[0])
			}
		})
	}
}

func TestALeaderIsAskedForWhatNobodyElseKnows(t *testing.T) {
	began := time.Now().Add(-time.Hour).UTC()
	errNever := errors.New("asked")
	for name, c := range map[string]struct {
		history func(context.Context, string) []advisory.Advisory
		asked   bool
	}{
		"the history knows": {func(context.Context, string) []advisory.Advisory {
			return []advisory.Advisory{{Group: "a", Event: leader.EventPromoted, Term: 7, Time: began, Reason: leader.ReasonVacant}}
		}, false},
		"the history knows nothing":   {func(context.Context, string) []advisory.Advisory { return nil }, true},
		"the history does not answer": {noHistory, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Bool
			d := sources(c.history,
				func(context.Context, Group) (app.Standing, error) { return app.Standing{}, errNever },
				func(context.Context, Group) (rollcall.Candidate, error) {
					asked.Store(true)
					return rollcall.Candidate{Since: began, Reason: leader.ReasonVacant}, nil
				})
			groups := []Group{led("a", 7)}
			d.complete(t.Context(), ">", groups)
			if asked.Load() != c.asked || !groups[0].Since.Equal(began) || groups[0].Reason != leader.ReasonVacant {
				t.Errorf("%s: asked %v, %+v", name, asked.Load(), groups[0])
			}
		})
	}
}

func TestRecordIsTheLastSource(t *testing.T) {
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

// The clock of a leader may be wrong: by it alone nobody is called dead, and
// nothing that is printed fails.
func TestAClockThatIsWrongIsShownAndNoMore(t *testing.T) {
	for _, wrong := range []time.Time{time.UnixMilli(1), time.Date(6429, 1, 1, 0, 0, 0, 0, time.UTC)} {
		synctest.Test(t, func(t *testing.T) {
			now := time.Now()
			info := leader.LeaderInfo{Group: "g", ID: "a", Term: 7, Acquired: wrong, Renewed: wrong, Until: now.Add(time.Second)}
			groups := []Group{groupOf(info, now)}
			answers(stored{}, rollcall.Candidate{}).complete(t.Context(), ">", groups)
			g := groups[0]
			if g.Leader == "" || g.LeaseLeft != 1000 {
				t.Errorf("%+v", g)
			}
			b, err := json.Marshal(g)
			if err != nil || !strings.Contains(string(b), `"since":"`+wrong.UTC().Format(time.RFC3339Nano)+`"`) {
				t.Errorf("%s, %v", b, err)
			}
			r := table(groups, now)
			for _, head := range []string{"SINCE", "LEASE", "RENEWED"} {
				if cell := r.Rows[0][slices.Index(r.Head, head)]; cell == "" {
					t.Errorf("%s: %q", head, cell)
				}
			}
		})
	}
}

func TestWatchShowsSinceWhenByTheRecord(t *testing.T) {
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

// After an error no leader of any other group is asked.
func TestALeaderInACrowdIsNotThereAndNoError(t *testing.T) {
	t.Parallel()
	nc, _ := devtest.Connect(t, devtest.Serve(t))
	_, err := nc.Subscribe(rollcall.Subject("leaders", "reports"), func(m *nats.Msg) {
		for range 1001 {
			_ = nc.Publish(m.Reply, []byte(`{"format":1,"bucket":"leaders","group":"reports","instance":"c"}`)) // asked again
		}
	})
	if err := errors.Join(err, nc.Flush()); err != nil {
		t.Fatal(err)
	}
	c, err := leaderOf(t.Context(), &app.Session{NC: nc, Bucket: "leaders"}, Group{Group: "reports", Leader: "w", Term: 7})
	if err != nil || c.Instance != "" {
		t.Errorf("%+v, %v", c, err)
	}
}

// Any user that hears the question may answer, with anything.
func TestAMalformedAnswerHidesNoLeader(t *testing.T) {
	t.Parallel()
	nc, _ := devtest.Connect(t, devtest.Serve(t))
	_, err := nc.Subscribe(rollcall.Subject("leaders", "reports"), func(m *nats.Msg) {
		_ = nc.Publish(m.Reply, []byte("no answer")) // asked again
		_ = nc.Publish(m.Reply, fmt.Appendf(nil, `{"format":1,"bucket":"leaders","group":"reports","instance":"w","state":%q,"term":7}`, leader.StateLeader))
	})
	if err := errors.Join(err, nc.Flush()); err != nil {
		t.Fatal(err)
	}
	c, err := leaderOf(t.Context(), &app.Session{NC: nc, Bucket: "leaders"}, Group{Group: "reports", Leader: "w", Term: 7})
	if err != nil || c.Instance != "w" {
		t.Errorf("%+v, %v", c, err)
	}
}
