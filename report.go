package leader

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// reportTransition logs a change of state and tells the hook. news: it shows a new leader.
func (e *election) reportTransition(t Transition, news bool) {
	level := slog.LevelInfo
	switch {
	case t.From == StateLeader && !t.Reason.Asked():
		level = slog.LevelWarn
	case waiting(t.From) && waiting(t.To) && !news:
		level = slog.LevelDebug // every vacancy takes every follower through these
	}
	e.logEvent(level, t)
	if h := e.hooks.Transition; h != nil {
		e.hook("Hooks.Transition", func() { h(t) })
	}
}

// logEvent writes a line with the name of the event.
func (e *election) logEvent(level slog.Level, t Transition) {
	attrs := []slog.Attr{
		slog.String("from", t.From), slog.String("to", t.To), slog.String("reason", string(t.Reason)),
		slog.String("leader", t.LeaderID),
	}
	if t.Correlation != "" {
		term := t.Term.Number
		if term == 0 {
			term = t.LeaderTerm
		}
		attrs = append(attrs, slog.Uint64("term", term), slog.String("correlation", t.Correlation))
	}
	if t.By != "" || t.Why != "" {
		attrs = append(attrs, slog.String("by", t.By), slog.String("why", t.Why))
	}
	e.logged(func() {
		e.log.LogAttrs(context.Background(), level, string(t.Event), attrs...) //nolint:sloglint // each Event is a constant
	})
}

// waiting tells the states of a candidate that does not lead and is not about to end.
func waiting(state string) bool { return state == StateCandidate || state == StateFollower }

// reportCall reports a call that the present claim made.
func (l *loop) reportCall(c Call) {
	c.Correlation = l.correlation(l.state.Grant.Token)
	l.e.reportCall(c)
}

// report reports a note about the present claim.
func (l *loop) report(n Note) {
	n.Correlation = l.correlation(l.state.Grant.Token)
	l.e.report(n)
}

func (e *election) reportCall(c Call) {
	switch c.Outcome {
	case store.OK:
		if c.Kind != callOffer { // which proves nothing of the store
			e.lastErr.Store(nil)
		}
	case store.Conflict:
	default:
		e.failed(c.Err)
	}
	level := slog.LevelDebug
	if c.Outcome == store.Permanent {
		level = slog.LevelWarn
	}
	e.logged(func() {
		if e.log.Enabled(context.Background(), level) {
			e.log.LogAttrs(context.Background(), level, "call", slog.String("kind", c.Kind),
				slog.String("outcome", c.Outcome.String()), slog.Duration("took", c.Took), slog.Any("error", c.Err),
				slog.String("correlation", c.Correlation))
		}
	})
	if h := e.hooks.Call; h != nil {
		e.hook("Hooks.Call", func() { h(c) })
	}
}

// report logs a note and tells the hook. What panics while a panic is reported
// is told to the other of the two alone: reporting it would never end.
func (e *election) report(n Note) {
	again := e.reportPanic
	if n.Kind == NotePanic {
		again = func(string) func(any, []byte) { return reported }
	}
	shield.Call(func() { e.logNote(n) }, again("Logger"))
	h := e.hooks.Note
	if h == nil {
		return
	}
	shield.Call(func() { h(n) }, func(value any, stack []byte) {
		if n.Kind != NotePanic {
			again("Hooks.Note")(value, stack)
			return
		}
		text := shield.Text("Hooks.Note", value, stack)
		shield.Call(func() { e.logNote(Note{Kind: NotePanic, Text: text}) }, reported)
	})
}

// logged calls f, which logs something, and reports a panic of the Logger.
func (e *election) logged(f func()) { shield.Call(f, e.reportPanic("Logger")) }

func (e *election) logNote(n Note) {
	level := slog.LevelDebug
	switch n.Kind {
	case NoteWarning, NoteOverrun, NoteGaveUp, NoteRegressed, NoteNotReady, NoteGarbled:
		level = slog.LevelWarn
	case NotePanic, NoteClosed:
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("kind", n.Kind), slog.String("text", n.Text), slog.String("correlation", n.Correlation)}
	if n.Call != "" {
		attrs = append(attrs, slog.String("call", n.Call))
	}
	e.log.LogAttrs(context.Background(), level, "note", attrs...)
}

// reportPanic returns a function that reports a panic of the named callback, by way of
// the mailbox, since hooks are called from one goroutine.
func (e *election) reportPanic(what string) func(value any, stack []byte) {
	return func(value any, stack []byte) {
		e.mail.put(letter{note: &Note{At: time.Now(), Kind: NotePanic, Text: shield.Text(what, value, stack)}})
	}
}

func (e *election) reportCallback(c Callback) {
	h := e.hooks.Callback
	if h == nil {
		return
	}
	e.told <- struct{}{}
	defer func() { <-e.told }()
	e.hook("Hooks.Callback", func() { h(c) })
}

// outlivedText says which callback has outlived DemoteTimeout, and how it is mended.
// OnPromote often waits for what OnDemote is to do, and both wait for ever.
func (e *election) outlivedText() string {
	if !e.promoting.Load() {
		return fmt.Sprintf("OnDemote has not returned within DemoteTimeout (%v); the record is released all the same, and this candidate does not campaign"+
			" until it returns", e.cfg.DemoteTimeout)
	}
	return fmt.Sprintf("OnPromote has not returned within DemoteTimeout (%v) after its term ended; the record is released all the same, and this candidate"+
		" does not campaign until it returns. OnDemote is called when OnPromote has returned, so OnPromote must not wait for it: either return from OnPromote"+
		" when its context ends (<-ctx.Done()), or start the work in a goroutine, return at once, and end the work in OnDemote", e.cfg.DemoteTimeout)
}

func noteText(k machine.NoteKind) string {
	return [...]string{
		machine.NoteResolved:  "a write without an answer was found to have been applied",
		machine.NoteStale:     "a read showed an older state of the record than known",
		machine.NoteRegressed: "the record went back to an older revision: the store has lost writes",
		machine.NoteLost:      "another candidate's claim came first",
		machine.NoteFailed:    "an attempt failed and will be repeated",
		machine.NoteGaveUp:    "the release could not be written; the record will expire by itself",
	}[k]
}

func noteOf(a machine.Action) Note {
	n := Note{At: time.Now(), Kind: a.Note.String(), Text: noteText(a.Note)}
	if a.Write != machine.NoWrite {
		n.Call = a.Write.String()
	}
	return n
}
