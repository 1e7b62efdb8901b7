package app

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
)

func TestLogsAreLinesOfTheCommand(t *testing.T) {
	var b strings.Builder
	quiet := NewLogger(&b, false, leader.NoteDisconnected).With("group", "g", "instance", "a")
	quiet.Info("not told")
	quiet.Info("note", "kind", "takeover", "text", "not told")
	quiet.Info("note", "kind", "barred", "text", "paused", "correlation", "")
	quiet.Info("note", "kind", "unbarred", "text", "no longer paused", "correlation", "")
	quiet.Warn("no answer", "error", fmt.Errorf("%w: %w", store.ErrPermanent, errors.New("two\nlines")), "term", 7, "leader", "")
	quiet.Warn("note", "kind", "warning", "text", "A sentence.", "correlation", "")
	quiet.Warn("note", "kind", "warning", "text", "A sentence.", "correlation", "c0ffee00")
	quiet.Warn("note", "kind", "not-ready", "text", "transient failure: not sent: no connection to nats://127.0.0.1:4222: nats: server is disconnected")
	quiet.Error("note", "kind", "panic", "text", "OnPromote panicked")
	want := "leader: paused\nleader: no longer paused\nleader: warning: no answer, error two; lines, term 7\nleader: warning: A sentence.\nleader: warning: A sentence, correlation c0ffee00\nleader: error: OnPromote panicked, kind panic\n"
	quiet.With(Of, "orders as worker-1").Info("note", "kind", "waiting", "text", "A sentence.")
	want += "leader: orders as worker-1: A sentence.\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	b.Reset()
	Say(&b, errors.New("nobody is there:\n\thost a\n\thost b\x1b"))
	if want := "leader: nobody is there:\nleader:  host a\nleader:  host b\ufffd\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	b.Reset()
	NewLogger(&b, true).WithGroup("x").With("k", "v\x1b").Debug("call", "error", error(nil), "n", 1)
	if !regexp.MustCompile(`^leader: \d\d:\d\d:\d\d\.\d{3} call, x\.k v\x{fffd}, x\.n 1\n$`).MatchString(b.String()) {
		t.Errorf("%q", b.String())
	}
}
