package leader

import (
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// Hooks tell the outside what an election does: metrics, traces, tests. Nil means
// off. They are called from the election's own goroutine, in order, and must return
// quickly: what they are slow at, the election is late at. They may call the election's methods that do not
// wait; Stop and Resign do not wait when a hook calls them, ValidateToken and Do would wait for the hook itself.
type Hooks struct {
	// Transition: the state changed.
	Transition func(Transition)
	// Call: a call to the store ended.
	Call func(Call)
	// Note: something that an operator may want to know happened.
	Note func(Note)
	// Callback: a callback of the program returned. It is called from the goroutine of
	// the callbacks.
	Callback func(Callback)
}

// A Transition is a change of state.
type Transition struct {
	At       time.Time
	From, To string // State constants
	Reason   Reason
	Term     Term   // the term that begins or ended, if one did
	LeaderID string // who leads now, if known
}

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
}

// A Note is something noteworthy that changes no state by itself.
type Note struct {
	At time.Time
	// Kind is one of the Note constants.
	Kind string
	// Call is the kind of write that it is about, if any.
	Call string
	// Text is a sentence for people.
	Text string
}

// The kinds of notes.
const (
	NoteResolved  = "resolved"   // a write without an answer was found to have been applied
	NoteStale     = "stale-read" // a read showed an older state than known
	NoteRegressed = "regressed"  // the register went back: the store has lost writes
	NoteLostRace  = "lost-race"  // another candidate's claim came first
	NoteFailed    = "failed"     // an attempt failed and is repeated
	NoteOverrun   = "overrun"    // the work did not stop within DemoteTimeout
	NoteGaveUp    = "gave-up"    // a release could not be written; the record will expire
	NoteWarning   = "warning"    // the store weakens a guarantee
	NoteNotReady  = "not-ready"  // the store could not be checked or watched yet, and is tried again
	NotePanic     = "panic"      // a callback panicked
)

// A Callback is a callback that returned.
type Callback struct {
	Kind string // "promote" or "demote"
	Term Term
	Took time.Duration
}
