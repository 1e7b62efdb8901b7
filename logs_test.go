package leader_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log" //nolint:depguard // slog.SetDefault writes through it, and it is to be put back
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
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

func TestLogLevelsFitWhatHappened(t *testing.T) {
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

// Each line is named by an Event, or is a note or a call. A candidate logs once
// which leader it follows, at INFO.
func TestLogLinesHaveANameForEachKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		st, cfg := memstore.New(), config("b")
		cfg.Logger = slog.New(slog.NewJSONHandler(&book, &slog.HandlerOptions{Level: slog.LevelDebug}))
		a := start(t, st, config("a"))
		b := start(t, st, cfg)
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

// A program may log whatever it is given.
func TestLoggedElectionShowsNoToken(t *testing.T) {
	for name, handler := range map[string]func(*logbook) slog.Handler{
		"json": func(b *logbook) slog.Handler { return slog.NewJSONHandler(b, nil) },
		"text": func(b *logbook) slog.Handler { return slog.NewTextHandler(b, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var book logbook
				logger, cfg := slog.New(handler(&book)), config("a")
				cfg.Hooks = leader.Hooks{
					Transition: func(tr leader.Transition) { logger.Info("hook", "transition", tr) },
					Callback:   func(c leader.Callback) { logger.Info("hook", "callback", c) },
				}
				a := candidate(t, memstore.New(), cfg)
				a.OnDemote(func() {})
				started(t, a)
				mustLead(t, a)
				term := a.Term()
				logger.Info("looked", "status", a.Status(), "term", term)
				halt(t, a)
				logger.Info("looked", "status", a.Status())
				text := book.text()
				if strings.Contains(text, term.Token) {
					t.Errorf("the token %s is in\n%s", term.Token, text)
				}
				if n := strings.Count(text, term.Correlation()); n < 4 {
					t.Errorf("%d lines of the term %s in\n%s", n, term.Correlation(), text)
				}
			})
		})
	}
}

// A program may print whatever it is given, as it likes.
func TestFmtShowsNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("a")
		var transition leader.Transition
		var callback leader.Callback
		cfg.Hooks = leader.Hooks{
			Transition: func(tr leader.Transition) {
				if tr.To == leader.StateLeader {
					transition = tr
				}
			},
			Callback: func(c leader.Callback) { callback = c },
		}
		a := candidate(t, memstore.New(), cfg)
		a.OnPromote(func(context.Context, string) {})
		started(t, a)
		mustLead(t, a)
		term, status := a.Term(), a.Status()
		if callback.Term != term || transition.Term != term || status.Token != term.Token {
			t.Fatal("the values are not of the term")
		}
		role := leader.RoleStatus{Name: "role", ElectionStatus: status}
		loss := &leader.LossError{Term: term, Reason: leader.ReasonStopped}
		for _, value := range []any{
			term, &term, status, &status, role, &role, transition, &transition, callback, loss, *loss,
			[]leader.ElectionStatus{status}, map[string]leader.Term{"t": term}, struct{ S leader.RoleStatus }{role}, a,
		} {
			for verb := range strings.FieldsSeq("%v %+v %#v %s %+s %q %#q %x %X %d %t %c %U %e %o %z") {
				text := strings.ToLower(fmt.Sprintf(verb, value))
				if strings.Contains(text, term.Token) || strings.Contains(text, hex.EncodeToString([]byte(term.Token))) {
					t.Errorf("%s of a %T shows the token: %s", verb, value, text)
				}
			}
		}
		for want, got := range map[string]string{
			fmt.Sprintf("%d/%s", term.Number, term.Correlation()): term.String(),
			fmt.Sprint(term.Number):                               fmt.Sprintf("%d", term),
			`candidate "a" of group "g"`:                          fmt.Sprint(a),
		} {
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		for _, value := range []any{status, role} {
			for _, want := range []string{term.Correlation(), "State:LEADER", "LeaderID:a"} {
				if text := fmt.Sprintf("%+v", value); !strings.Contains(text, want) {
					t.Errorf("no %s in %s", want, text)
				}
			}
		}
	})
}

func TestLoggedRoleShowsItsName(t *testing.T) {
	var book logbook
	slog.New(slog.NewJSONHandler(&book, nil)).Info("looked", "status", leader.RoleStatus{
		Name: "db", ElectionStatus: leader.ElectionStatus{State: leader.StateLeader, IsLeader: true, Token: "secret"},
	})
	text := book.text()
	if !strings.Contains(text, `"role":"db","state":"LEADER"`) || strings.Contains(text, "secret") {
		t.Error(text)
	}
}

// Candidates in trouble, of which one has no Logger, write nothing anywhere.
func TestElectionWithoutALoggerWritesNothing(t *testing.T) {
	var out bytes.Buffer
	was, flags := slog.Default(), log.Flags()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer func() {
		slog.SetDefault(was)
		log.SetOutput(os.Stderr)
		log.SetFlags(flags)
	}()
	stderr := captured(t, func() {
		synctest.Test(t, func(t *testing.T) {
			f := network(t, nil)
			a := candidate(t, f.Client("a"), config("a"))
			a.OnDemote(func() { panic("boom") })
			started(t, a)
			f.BlackHole("a")
			time.Sleep(time.Minute)
			f.Heal("a")
			time.Sleep(time.Minute)
			mustLead(t, a)
		})
	})
	if out.Len() > 0 || stderr != "" {
		t.Errorf("written:\n%s%s", out.String(), stderr)
	}
}

// captured returns what f writes to the standard output and the standard error.
func captured(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	text := make(chan string)
	go func() {
		b, _ := io.ReadAll(r) // ends with the pipe
		text <- string(b)
	}()
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = w, w
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	f()
	_ = w.Close()
	return <-text
}
