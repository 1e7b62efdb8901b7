package leader_test

import (
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
