package leader_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A program may log whatever it is given.
func TestWhatAProgramLogsOfAnElectionHasNoToken(t *testing.T) {
	for name, handler := range map[string]func(*logbook) slog.Handler{
		"json": func(b *logbook) slog.Handler { return slog.NewJSONHandler(b, nil) },
		"text": func(b *logbook) slog.Handler { return slog.NewTextHandler(b, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var book logbook
				log, cfg := slog.New(handler(&book)), config("a")
				cfg.Hooks = leader.Hooks{
					Transition: func(tr leader.Transition) { log.Info("hook", "transition", tr) },
					Callback:   func(c leader.Callback) { log.Info("hook", "callback", c) },
				}
				a := candidate(t, memstore.New(), cfg)
				a.OnDemote(func() {})
				started(t, a)
				mustLead(t, a)
				term := a.Term()
				log.Info("looked", "status", a.Status(), "term", term)
				halt(t, a)
				log.Info("looked", "status", a.Status())
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
func TestNoVerbOfFmtShowsAToken(t *testing.T) {
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

func TestWhatIsLoggedOfARoleNamesIt(t *testing.T) {
	var book logbook
	slog.New(slog.NewJSONHandler(&book, nil)).Info("looked", "status", leader.RoleStatus{
		Name: "db", ElectionStatus: leader.ElectionStatus{State: leader.StateLeader, IsLeader: true, Token: "secret"},
	})
	text := book.text()
	if !strings.Contains(text, `"role":"db","state":"LEADER"`) || strings.Contains(text, "secret") {
		t.Error(text)
	}
}
