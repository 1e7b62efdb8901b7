package leader_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A logbook takes in a logger's output.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logbook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// lines returns the attributes of all lines with the message.
func (l *logbook) lines(t *testing.T, msg string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(l.text()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if m["msg"] == msg {
			all = append(all, m)
		}
	}
	return all
}

func TestTransitionsAreLoggedWithGroupInstanceAndReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		f, cfg := network(t, nil), config("a")
		cfg.Logger = slog.New(slog.NewJSONHandler(&book, nil)) // INFO
		a := start(t, f.Client("a"), cfg)
		_ = a.Resign(t.Context())
		time.Sleep(2 * wait)
		mustLead(t, a)
		f.BlackHole("a")
		time.Sleep(ttl)
		f.Heal("a")
		time.Sleep(2 * wait)
		halt(t, a)
		var got []string
		correlations := map[any]bool{}
		for _, event := range []leader.Event{leader.EventPromoted, leader.EventDemoted, leader.EventStopped} {
			for _, m := range book.lines(t, string(event)) {
				if m["group"] != "g" || m["instance"] != "a" {
					t.Errorf("%v", m)
				}
				got = append(got, fmt.Sprint(m["level"], " ", event, " ", m["from"], " ", m["to"], " ", m["reason"]))
				correlations[m["correlation"]] = true
				if n, ok := m["term"].(float64); !ok || n < 1 {
					t.Errorf("without a term: %v", m)
				}
			}
		}
		for _, want := range []string{
			"INFO promoted CANDIDATE LEADER absent", "INFO demoted LEADER DEMOTED resigned",
			"WARN demoted LEADER DEMOTED trust-expired", "INFO stopped DEMOTED STOPPED stopped",
		} {
			if !slices.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, strings.Join(got, "\n"))
			}
		}
		if correlations[nil] || len(correlations) != 3 {
			t.Errorf("correlation ids of three terms: %v", correlations)
		}
		if len(book.lines(t, "call")) != 0 {
			t.Error("calls are for DEBUG")
		}
	})
}

func TestTokenIsInNoLogAndNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		var tokens []string
		cfg := config("a")
		cfg.Logger = slog.New(slog.NewJSONHandler(&book, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
		f := network(t, nil)
		cfg.Hooks = leader.Hooks{
			Transition: func(tr leader.Transition) {
				fmt.Fprintf(&book, "{\"hook\":%q}\n", fmt.Sprintf("%v %+v", tr.Term, tr))
			},
		}
		a := candidate(t, f.Client("a"), cfg)
		a.OnPromote(func(ctx context.Context, token string) {
			tokens = append(tokens, token)
			<-ctx.Done()
			fmt.Fprintf(&book, "{\"cause\":%q}\n", fmt.Sprintf("%v %+v", context.Cause(ctx), context.Cause(ctx)))
			panic("boom")
		})
		started(t, a)
		_ = a.Resign(t.Context())
		time.Sleep(3 * wait)
		f.Delete("g")
		time.Sleep(3 * wait)
		f.BlackHole("a")
		fmt.Fprintf(&book, "{\"validate\":%q}\n", fmt.Sprintf("%+v", a.ValidateToken(t.Context())))
		f.Heal("a")
		time.Sleep(3 * wait)
		halt(t, a)
		if len(tokens) < 3 || len(book.lines(t, "call")) < 10 {
			t.Fatalf("%d tokens in\n%s", len(tokens), book.text())
		}
		for _, token := range tokens {
			if strings.Contains(book.text(), token) {
				t.Errorf("token %s in\n%s", token, book.text())
			}
		}
	})
}

func TestLevelsOfTheLogFitWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		st := &checked{Store: memstore.New(), report: store.Report{Warnings: []string{"One replica."}}}
		cfg := config("a")
		cfg.Logger = slog.New(slog.NewJSONHandler(&book, &slog.HandlerOptions{Level: slog.LevelDebug}))
		a := candidate(t, st, cfg)
		a.OnDemote(func() { panic("boom") })
		started(t, a)
		mustLead(t, a)
		halt(t, a)
		levels := map[any]any{}
		for _, m := range book.lines(t, "note") {
			levels[m["kind"]] = m["level"]
			if m["kind"] == leader.NotePanic && !strings.Contains(fmt.Sprint(m["text"]), "OnDemote panicked: boom\ngoroutine ") {
				t.Errorf("%v", m["text"])
			}
		}
		if levels[leader.NoteWarning] != "WARN" || levels[leader.NotePanic] != "ERROR" {
			t.Errorf("%v", levels)
		}
		for _, m := range book.lines(t, "call") {
			if m["level"] != "DEBUG" || m["outcome"] != "ok" {
				t.Errorf("%v", m)
			}
		}
	})
}

func TestHooksComeInOrderWithTheirContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, callbacks, cfg := newJournal(), newJournal(), config("a")
		cfg.Hooks = leader.Hooks{
			Transition: func(tr leader.Transition) {
				j.note("%s -> %s %s, term %d, leader %q", tr.From, tr.To, tr.Reason, tr.Term.Number, tr.LeaderID)
				if time.Since(tr.At) != 0 {
					t.Errorf("%+v", tr)
				}
			},
			Call: func(c leader.Call) {
				j.note("%s %v in %v, %v", c.Kind, c.Outcome, c.Took, c.Err)
				if c.Sent.Before(j.begun) {
					t.Errorf("%+v", c)
				}
			},
			Callback: func(c leader.Callback) { callbacks.note("%s of term %d took %v", c.Kind, c.Term.Number, c.Took) },
		}
		// Without a watch, which may show the effect of a call before its
		// answer comes.
		a := candidate(t, newPlain(), cfg)
		a.OnPromote(func(ctx context.Context, _ string) { <-ctx.Done() })
		a.OnDemote(func() { time.Sleep(time.Second) })
		started(t, a)
		time.Sleep(heartbeat * 3 / 2)
		_ = a.Resign(t.Context())
		halt(t, a)
		j.demand(t,
			`INIT -> CANDIDATE started, term 0, leader ""`,
			`acquire ok in 0s, <nil>`,
			`CANDIDATE -> LEADER absent, term 1, leader "a"`,
			`renew ok in 0s, <nil>`,
			`LEADER -> DEMOTED resigned, term 1, leader ""`,
			`renew ok in 0s, <nil>`,
			`release ok in 0s, <nil>`,
			`DEMOTED -> CANDIDATE standing-back, term 0, leader ""`,
			`CANDIDATE -> STOPPED stopped, term 0, leader ""`,
		)
		callbacks.demand(t, `promote of term 1 took 1.5s`, `demote of term 1 took 1s`)
	})
}

// The watch shows the vacancy, and with it the end of the election, before the
// release is answered.
func TestEveryCallIsReportedAlsoTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, func(c faultstore.Call) faultstore.Fate {
			if c.Write.Tombstone {
				return faultstore.Fate{Reply: 100 * time.Millisecond}
			}
			return faultstore.Fate{}
		})
		j, cfg := newJournal(), config("a")
		cfg.Hooks.Call = func(c leader.Call) { j.note("%s", c.Kind) }
		halt(t, start(t, f.Client("a"), cfg))
		j.demand(t, "acquire", "release")
	})
}

// Each line is named by an Event, or is a note or a call. Whom a candidate
// comes to follow is said once, at INFO.
func TestEveryLineOfTheLogHasANameOfItsOwnKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		st, cfg := memstore.New(), config("b")
		cfg.Logger = slog.New(slog.NewJSONHandler(&book, &slog.HandlerOptions{Level: slog.LevelDebug}))
		a := start(t, st, config("a"))
		b := start(t, st, cfg)
		// Not at a heartbeat: a renewal then would follow the offer, and the
		// claim on it lose.
		time.Sleep(ttl + heartbeat/2)
		halt(t, a)
		time.Sleep(wait)
		mustLead(t, b)
		// Others, one right after the other.
		for _, id := range []string{"x", "y"} {
			put(t, st, "g", map[string]any{"id": id, "token": id, "ttl": ttl.Milliseconds()})
			synctest.Wait()
		}
		halt(t, b)
		names := []string{
			string(leader.EventCampaigning), string(leader.EventFollowing), string(leader.EventPromoted),
			string(leader.EventDemoted), string(leader.EventStopped), "note", "call",
		}
		var followed []string
		for line := range strings.Lines(book.text()) {
			var m struct{ Level, Msg, Leader, From, To string }
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(names, m.Msg) {
				t.Errorf("a line %q", line)
			}
			if m.Msg == string(leader.EventFollowing) && m.Level == "INFO" {
				followed = append(followed, m.Leader+" "+m.From+" "+m.To)
			}
		}
		want := []string{"a CANDIDATE FOLLOWER", "x DEMOTED FOLLOWER", "y FOLLOWER FOLLOWER"}
		if !slices.Equal(followed, want) {
			t.Errorf("followed %q, want %q in\n%s", followed, want, book.text())
		}
	})
}
