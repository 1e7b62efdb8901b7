package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/store"
)

// Hooks report the actions of an election to the outside: metrics, traces,
// tests. Nil means off. They are called from the election's own goroutine, in
// order, and must return quickly: a slow hook delays the election. They may
// call the election's methods that do not wait; Stop and Resign do not wait
// when a hook calls them, ValidateToken and Do would wait for the hook itself.
//
// A panic in a hook is reported as a note (NotePanic), and the election goes
// on. A panic in Note while it receives a panic is reported to the Logger
// alone. A hook that ends its goroutine (runtime.Goexit, as a test's FailNow
// does) ends the election, as a panic of this library does: see ErrPanicked.
type Hooks struct {
	// Transition: the state changed.
	Transition func(Transition)
	// Call: a call to the store ended.
	Call func(Call)
	// Note: something that an operator may want to know happened.
	Note func(Note)
	// Callback: a callback of the program returned. It is called from a
	// goroutine of the callbacks, one call at a time.
	Callback func(Callback)
	// PerElection, called once when an election has been started and before any
	// other of its hooks, returns hooks for that election alone, to be called
	// after these. So one Hooks value serves any number of elections, also of
	// Run, and the returned hooks know their election. The configuration has
	// its defaults filled in. The last transition of each election leads to
	// STOPPED. A PerElection within the returned hooks is ignored: hooks that
	// return a changed copy of themselves would be asked without end.
	PerElection func(Election, ElectionConfig) Hooks
	// TermContext, called when a term begins, returns the context whose values
	// the term's context shows: OnPromote finds what it adds to ctx (a span,
	// for example). Its end is ignored. Nil is ctx itself.
	TermContext func(ctx context.Context, term Term) context.Context
}

// JoinHooks returns hooks that call the hooks of each, in order. They are fit
// for an election if each is. A hook is called even if the one before it
// panics, and the results of the other PerElection hooks are kept. But a panic
// in a TermContext discards the results of the others.
func JoinHooks(each ...Hooks) Hooks {
	var all Hooks
	for _, h := range each {
		all.Transition = both(all.Transition, h.Transition)
		all.Call = both(all.Call, h.Call)
		all.Note = both(all.Note, h.Note)
		all.Callback = both(all.Callback, h.Callback)
		all.TermContext = nested(all.TermContext, h.TermContext)
		all.PerElection = joined(all.PerElection, h.PerElection)
	}
	return all
}

// of asks PerElection for the hooks of one election, and gives take all that
// there are, even if it panics.
func (h Hooks) of(e Election, cfg ElectionConfig, take func(engine.Hooks)) {
	var more Hooks
	defer func() {
		h.PerElection, more.PerElection = nil, nil
		take(JoinHooks(h, more).engine())
	}()
	ask(&more, h.PerElection, e, cfg)
}

// ask adds to h what a PerElection returns. If that panics, ask does, after it has
// added what there is.
func ask(h *Hooks, perElection func(Election, ElectionConfig) Hooks, e Election, cfg ElectionConfig) {
	defer func() {
		cause := recover()
		if p, is := cause.(partial); is {
			*h, cause = JoinHooks(*h, p.hooks), p.cause
		}
		if cause != nil {
			panic(cause) // here, where the stack still shows who panicked
		}
	}()
	*h = JoinHooks(*h, perElection(e, cfg))
}

// A partial is the panic value of a joined PerElection: the cause, and the
// hooks that it has got. Those may have started something for the election (a
// goroutine, the series of a metric), which they end when they hear that it has
// stopped.
type partial struct {
	hooks Hooks
	cause any
}

// String is what a recover that precedes the election's prints.
func (p partial) String() string { return fmt.Sprint(p.cause) }

// engine returns the hooks as the engine calls them, without PerElection.
func (h Hooks) engine() (e engine.Hooks) {
	if f := h.Transition; f != nil {
		e.Transition = func(t engine.Transition) { f(transitionOf(t)) }
	}
	if f := h.Call; f != nil {
		e.Call = func(c engine.Call) { f(Call(c)) }
	}
	if f := h.Note; f != nil {
		e.Note = func(n engine.Note) { f(Note(n)) }
	}
	if f := h.Callback; f != nil {
		e.Callback = func(c engine.Callback) { f(Callback{Kind: c.Kind, Term: Term(c.Term), Took: c.Took}) }
	}
	if f := h.TermContext; f != nil {
		e.TermContext = func(ctx context.Context, t leadership.Term) context.Context { return f(ctx, Term(t)) }
	}
	return e
}

func transitionOf(t engine.Transition) Transition {
	return Transition{
		At: t.At, Event: Event(t.Event), From: t.From, To: t.To, Reason: Reason(t.Reason), By: t.By, Why: t.Why, Term: Term(t.Term),
		LeaderID: t.LeaderID, LeaderTerm: t.LeaderTerm, Correlation: t.Correlation,
	}
}

func both[T any](f, g func(T)) func(T) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	default:
		return func(v T) {
			defer g(v) // even if f panics
			f(v)
		}
	}
}

func nested(f, g func(context.Context, Term) context.Context) func(context.Context, Term) context.Context {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	default:
		return func(ctx context.Context, t Term) context.Context {
			inner := or(f(ctx, t), ctx)
			return or(g(inner, t), inner)
		}
	}
}

// or returns what a TermContext gave, or ctx itself if that is nil.
func or(given, ctx context.Context) context.Context {
	if given == nil {
		return ctx
	}
	return given
}

func joined(f, g func(Election, ElectionConfig) Hooks) func(Election, ElectionConfig) Hooks {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	default:
		return func(e Election, cfg ElectionConfig) (all Hooks) {
			defer func() {
				if cause := recover(); cause != nil {
					panic(partial{all, cause})
				}
			}()
			defer ask(&all, g, e, cfg) // even if f panics
			ask(&all, f, e, cfg)
			return all
		}
	}
}

// A Transition is a change of state.
type Transition struct {
	At       time.Time // when it happened
	Event    Event     // its name, as logs and advisories show it
	From, To string    // State constants
	Reason   Reason    // why it happened
	// By and Why are who asked for it and why, in the requester's words, if
	// somebody did.
	By, Why string
	Term    Term // the term that begins or ended, if one did
	// LeaderID and LeaderTerm are who leads now, if known.
	LeaderID   string
	LeaderTerm uint64
	// Correlation is the same in all reports about one term, by any candidate:
	// a short hash of its token. It is empty where no term is concerned.
	Correlation string
}

// An Event is the name of a transition.
type Event string

// The events, by the state that they lead to.
const (
	EventCampaigning = Event(engine.EventCampaigning) // CANDIDATE
	EventFollowing   = Event(engine.EventFollowing)   // FOLLOWER
	EventPromoted    = Event(engine.EventPromoted)    // LEADER
	EventDemoted     = Event(engine.EventDemoted)     // DEMOTED
	EventStopped     = Event(engine.EventStopped)     // STOPPED
)

// A Call is one call to the store that ended.
type Call struct {
	// Kind is "acquire", "renew", "release" or "read".
	Kind string
	// Sent is when the call began, Took how long it lasted.
	Sent time.Time
	Took time.Duration
	// Outcome classes Err; both as the store gave them.
	Outcome store.Outcome
	Err     error
	// Correlation identifies the claim or term that the call was for, if any.
	Correlation string
}

// A Note is something noteworthy that changes no state by itself.
type Note struct {
	// At is when it happened.
	At time.Time
	// Kind is one of the Note constants.
	Kind string
	// Call is the kind of write that it is about, if any.
	Call string
	// Text is a sentence for people.
	Text string
	// Correlation identifies the claim or term that it is about, if any.
	Correlation string
}

// The kinds of notes.
const (
	// NoteResolved: a write without an answer was found to have been applied.
	NoteResolved = engine.NoteResolved
	// NoteStale: a read showed an older state than known.
	NoteStale = engine.NoteStale
	// NoteRegressed: the register went back: the store has lost writes.
	NoteRegressed = engine.NoteRegressed
	// NoteLostRace: another candidate's claim came first.
	NoteLostRace = engine.NoteLostRace
	// NoteFailed: an attempt failed and is repeated.
	NoteFailed = engine.NoteFailed
	// NoteOverrun: the work, or at a stop a callback, did not end within
	// DemoteTimeout.
	NoteOverrun = engine.NoteOverrun
	// NoteGaveUp: a release could not be written; the record will expire.
	NoteGaveUp = engine.NoteGaveUp
	// NoteWarning: the store, or another candidate, weakens a guarantee.
	NoteWarning = engine.NoteWarning
	// NoteNotReady: the store could not be checked or watched yet, and is tried
	// again.
	NoteNotReady = engine.NoteNotReady
	// NotePanic: something panicked: a callback, a hook, the store, or this
	// library itself.
	NotePanic = engine.NotePanic
	// NoteBadToken: ValidateToken found that the term is over, or that there
	// was none.
	NoteBadToken = engine.NoteBadToken
	// NoteTakeover: this candidate could not make its standing known to the
	// leader.
	NoteTakeover = engine.NoteTakeover
	// NoteMalformed: the control record is unreadable.
	NoteMalformed = engine.NoteMalformed
	// NoteBarred: this candidate does not campaign from now on, since the group
	// is paused, the instance is drained or the health check fails; Text
	// contains which, and who paused or drained it and why.
	// ElectionStatus.Barred has the same for as long as it lasts.
	NoteBarred = engine.NoteBarred
	// NoteUnbarred: that is over.
	NoteUnbarred = engine.NoteUnbarred
	// NoteWaiting: nobody leads in a store that was made less than a lease ago;
	// Text contains until when.
	NoteWaiting = engine.NoteWaiting
	// NoteDisconnected: the connection to the store is lost, and the election
	// waits for it; Text contains since when, and why if that is known. It is
	// repeated each minute.
	NoteDisconnected = engine.NoteDisconnected
	// NoteReturned: the function that was given to Run returned while its term
	// lasted, which ends the election; Text has its error.
	NoteReturned = engine.NoteReturned
	// NoteClosed: the connection to the store is permanently closed, which ends
	// the election.
	NoteClosed = engine.NoteClosed
)

// A Callback is a callback that returned.
type Callback struct {
	Kind string // "promote", "demote", "campaign" or "leader-change"
	Term Term   // with "promote" and "demote"
	// Took is how long the callback ran.
	Took time.Duration
}
