package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// NewLogger returns a logger whose lines are like the command's own, among
// which they appear: warnings and what keeps a candidate from campaigning, or
// with verbose everything, and then with the time. The group and the instance
// are left out, since a command has one of each, and so are notes of the kinds
// that the command prints by itself.
func NewLogger(w io.Writer, verbose bool, said ...string) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(&lines{out: w, mu: new(sync.Mutex), level: level, said: said})
}

// Of is the key of an attribute that comes before the message: the election,
// where a command has several.
const Of = "of"

// lines is a slog.Handler. Copies of it share the lock.
type lines struct {
	out   io.Writer
	mu    *sync.Mutex // one line at a time
	level slog.Level
	said  []string // kinds of notes that are left out
	attrs []slog.Attr
	group string
}

// Enabled reports whether a record of that level is to be logged.
func (l *lines) Enabled(_ context.Context, level slog.Level) bool {
	return level >= min(l.level, slog.LevelInfo) // among which are the notes of bars
}

// WithAttrs returns a handler that adds the attributes to each record.
func (l *lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	more := *l
	more.attrs = slices.Clone(l.attrs)
	for _, a := range attrs {
		a.Key = l.group + a.Key
		more.attrs = append(more.attrs, a)
	}
	return &more
}

// WithGroup returns a handler that puts the name before the names of
// attributes.
func (l *lines) WithGroup(name string) slog.Handler {
	more := *l
	more.group += name + "."
	return &more
}

// Handle prints a record.
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	if r.Level < l.level && !ofKind(r, leader.NoteBarred, leader.NoteUnbarred, leader.NoteWaiting) || ofKind(r, l.said...) || slices.Contains(l.said, leader.NoteDisconnected) && unsent(r) {
		return nil
	}
	var b strings.Builder
	b.WriteString("leader: ")
	if _, stamped := l.out.(output.Stamped); !stamped && l.level < slog.LevelWarn {
		b.WriteString(cmp.Or(r.Time, time.Now()).Format("15:04:05.000 "))
	}
	switch {
	case r.Level >= slog.LevelError:
		b.WriteString("error: ")
	case r.Level >= slog.LevelWarn:
		b.WriteString("warning: ")
	}
	b.WriteString(l.words(r))
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := fmt.Fprintln(l.out, output.Printable(b.String()))
	return err
}

// ofKind reports whether a record is a note of one of the kinds. Notes that
// something keeps a candidate from campaigning or leading, or no longer does,
// are printed though nothing is wrong: a user who started a candidate that
// waits for that has to see it.
func ofKind(r slog.Record, kinds ...string) (found bool) {
	if r.Message != "note" {
		return false
	}
	r.Attrs(func(a slog.Attr) bool {
		found = a.Key == "kind" && slices.Contains(kinds, a.Value.String())
		return !found
	})
	return found
}

// unsent reports whether a record is the note that the store was not asked,
// since there is no connection.
func unsent(r slog.Record) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		found = a.Key == "text" && strings.Contains(a.Value.String(), nats.ErrDisconnected.Error())
		return !found
	})
	return found && ofKind(r, leader.NoteNotReady)
}

// words returns the message of a record with its attributes. A note of an
// election has its message in its text.
func (l *lines) words(r slog.Record) string {
	message, of, rest, bars := r.Message, "", "", ofKind(r, leader.NoteBarred, leader.NoteUnbarred, leader.NoteWaiting)
	for _, a := range l.attrs {
		if a.Key == Of {
			of = a.Value.String() + ": "
			continue
		}
		rest += said("", a)
	}
	r.Attrs(func(a slog.Attr) bool {
		switch note := r.Message == "note"; {
		case note && a.Key == "text":
			message = a.Value.String()
		case note && a.Key == "kind" && (bars || a.Value.String() == leader.NoteWarning):
		default:
			rest += said(l.group, a)
		}
		return true
	})
	if rest != "" {
		message = strings.TrimSuffix(message, ".") // the sentence goes on
	}
	return of + message + rest
}

// said returns an attribute in words, or nothing if it has no meaning here.
func said(group string, a slog.Attr) string {
	switch value := a.Value.Resolve().Any().(type) {
	case nil:
		return ""
	case error:
		return ", " + group + a.Key + " " + strings.ReplaceAll(Words(value), "\n", "; ")
	default:
		text := fmt.Sprint(value)
		if text == "" || a.Key == "group" || a.Key == "instance" {
			return ""
		}
		return ", " + group + a.Key + " " + text
	}
}
