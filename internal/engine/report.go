package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// A reporter reports what happens to the log and the hooks. The loop calls its
// methods, but any goroutine may call failed, unheard, heard, callback,
// panicked and tell: hooks are promised one call at a time, so reports of other
// goroutines go through the inbox.
type reporter struct {
	log   *slog.Logger
	hooks Hooks
	inbox *inbox
	// told holds one element while a hook receives a callback's report, since
	// two goroutines call callbacks. It is nil without such a hook. It is a
	// channel, since a mutex would keep virtual time from passing.
	told    chan struct{}
	lastErr atomic.Pointer[callFailure]
}

// A callFailure is the failure of a call to the store.
type callFailure struct {
	failure

	following bool // it came of following the records, and is over once that works
}

// failed keeps the error for Status, and for those who wait for what now fails.
func (r *reporter) failed(err error) { r.keep(err, false) }

// unheard is failed for what keeps from following the records.
func (r *reporter) unheard(err error) { r.keep(err, true) }

// heard clears the last error if it came of following the records: a follower
// makes no other call that would. That of a write stays, since a store that can
// be read may refuse writes all the same.
func (r *reporter) heard() {
	if f := r.lastErr.Load(); f != nil && f.following {
		r.lastErr.CompareAndSwap(f, nil)
	}
}

func (r *reporter) keep(err error, following bool) {
	r.lastErr.Store(&callFailure{failure{err, time.Now()}, following})
	// Not every store reports its connection. The first call that finds it
	// closed ends the election.
	if errors.Is(err, store.ErrClosed) {
		r.inbox.put(&message{closed: err})
	}
}

// hook shields the loop from a hook of the program, whose panic must not end a
// term.
func (r *reporter) hook(name string, f func()) { shield.Call(f, r.panicked(name)) }

// transition logs a change of state and calls the hook. news means that it
// shows a new leader.
func (r *reporter) transition(t Transition, news bool) {
	level := slog.LevelInfo
	switch {
	// This end of a term was not requested, so somebody should look.
	case t.From == StateLeader && !Asked(t.Reason):
		level = slog.LevelWarn
	case waiting(t.From) && waiting(t.To) && !news:
		level = slog.LevelDebug // every vacancy takes every follower through these
	}
	r.event(level, t)
	if h := r.hooks.Transition; h != nil {
		r.hook("Hooks.Transition", func() { h(t) })
	}
}

// Asked reports whether r is the end of a term for which somebody asked: the
// program, an operator or another candidate. The other ends are troubles.
func Asked(r machine.Reason) bool {
	switch r {
	case machine.ReasonResigned, machine.ReasonTransferred, machine.ReasonSteppedDown, machine.ReasonStopped,
		machine.ReasonPaused, machine.ReasonOutranked, machine.ReasonBalanced, machine.ReasonDrained:
		return true
	default:
		return false
	}
}

// waiting reports whether a candidate in this state neither leads nor is about
// to end.
func waiting(state string) bool { return state == StateCandidate || state == StateFollower }

// event logs a transition.
func (r *reporter) event(level slog.Level, t Transition) {
	attrs := []slog.Attr{
		slog.String("from", t.From), slog.String("to", t.To), slog.String("reason", string(t.Reason)),
		slog.String("leader", t.LeaderID),
	}
	if t.Correlation != "" {
		// A follower has no term. It logs the leader's, so that the lines of
		// all candidates about one term are found together.
		term := t.Term.Number
		if term == 0 {
			term = t.LeaderTerm
		}
		attrs = append(attrs, slog.Uint64("term", term), slog.String("correlation", t.Correlation))
	}
	if t.By != "" || t.Why != "" {
		attrs = append(attrs, slog.String("by", t.By), slog.String("why", t.Why))
	}
	r.logged(func() {
		r.log.LogAttrs(context.Background(), level, string(t.Event), attrs...) //nolint:sloglint // each Event is a constant
	})
}

// call reports a call to the store. A success clears the last error: status
// shows a trouble only while it lasts.
func (r *reporter) call(c Call) {
	switch c.Outcome {
	case store.OK:
		r.lastErr.Store(nil)
	// An answer, and no trouble: another's write came first.
	case store.Conflict:
	default:
		r.failed(c.Err)
	}
	// A call that failed is repeated, and the state shows what comes of that. A
	// person has to know only what no repetition mends.
	level := slog.LevelDebug
	if c.Outcome == store.Permanent {
		level = slog.LevelWarn
	}
	r.logged(func() {
		// Asked first: each renewal would pay for attributes that hardly
		// anybody logs.
		if r.log.Enabled(context.Background(), level) {
			r.log.LogAttrs(context.Background(), level, "call", slog.String("kind", c.Kind),
				slog.String("outcome", c.Outcome.String()), slog.Duration("took", c.Took), slog.Any("error", c.Err),
				slog.String("correlation", c.Correlation))
		}
	})
	if h := r.hooks.Call; h != nil {
		r.hook("Hooks.Call", func() { h(c) })
	}
}

// note logs a note and calls the hook. If one of the two panics while a panic
// is reported, only the other receives the report: otherwise reporting would
// never end.
func (r *reporter) note(n Note) {
	again := r.panicked
	if n.Kind == NotePanic {
		again = func(string) func(any, []byte) { return ignore }
	}
	shield.Call(func() { r.logNote(n) }, again("Logger"))
	h := r.hooks.Note
	if h == nil {
		return
	}
	shield.Call(func() { h(n) }, func(value any, stack []byte) {
		if n.Kind != NotePanic {
			again("Hooks.Note")(value, stack)
			return
		}
		text := shield.Text("Hooks.Note", value, stack)
		shield.Call(func() { r.logNote(Note{Kind: NotePanic, Text: text}) }, ignore)
	})
}

// logged shields us from the program's log handler, which may panic.
func (r *reporter) logged(f func()) { shield.Call(f, r.panicked("Logger")) }

func (r *reporter) logNote(n Note) {
	// Most notes describe how the protocol deals with something; Warn is for
	// problems that a person can solve, Error for panics, and for causes that
	// end the election.
	level := slog.LevelDebug
	switch n.Kind {
	case NoteWarning, NoteOverrun, NoteGaveUp, NoteRegressed, NoteNotReady, NoteDisconnected, NoteMalformed:
		level = slog.LevelWarn
	case NoteBarred, NoteUnbarred, NoteWaiting, NoteReturned:
		level = slog.LevelInfo // a candidate that does not lead has no transition that explains it
	case NotePanic, NoteClosed:
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("kind", n.Kind), slog.String("text", n.Text), slog.String("correlation", n.Correlation)}
	if n.Call != "" {
		attrs = append(attrs, slog.String("call", n.Call))
	}
	r.log.LogAttrs(context.Background(), level, "note", attrs...)
}

// panicked returns a function that reports a panic of what, by way of the
// inbox, since hooks are called from one goroutine.
func (r *reporter) panicked(what string) func(value any, stack []byte) {
	return func(value any, stack []byte) {
		r.tell(NotePanic, shield.Text(what, value, stack))
	}
}

// tell makes the loop report a note. Any goroutine may call it.
func (r *reporter) tell(kind, text string) {
	r.inbox.put(&message{note: &Note{At: time.Now(), Kind: kind, Text: text}})
}

// callback reports a callback that has returned to the hook. It may wait for
// the other goroutine of callbacks, and never for the loop.
func (r *reporter) callback(c Callback) {
	h := r.hooks.Callback
	if h == nil {
		return
	}
	r.told <- struct{}{}
	defer func() { <-r.told }()
	r.hook("Hooks.Callback", func() { h(c) })
}

func noteOf(a *machine.Action) Note {
	n := Note{At: time.Now(), Kind: a.Note.String(), Text: noteText(a.Note)}
	if a.Write != machine.NoWrite {
		n.Call = a.Write.String()
	}
	return n
}

// noteText returns the text of a note of the core. The text of an overrun is
// missing: it names the callback, which the core does not know (outlivedText).
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

// NoteReporter returns a function that logs a note and calls the hook, for a
// supervisor that has something to report itself. It reports panics of the two
// as well. There is no loop that would take them from the inbox, so the
// function does that itself.
func NoteReporter(log *slog.Logger, hooks Hooks) func(Note) {
	r := &reporter{log: log, hooks: hooks, inbox: newInbox()}
	return func(n Note) {
		r.note(n)
		messages, _, _ := r.inbox.take()
		for _, m := range messages {
			r.note(*m.note) // of a panic: only the other of the two receives a further one
		}
	}
}
