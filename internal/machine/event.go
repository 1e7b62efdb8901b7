package machine

import "time"

// A Reason names the cause of a transition in one word. The same words appear
// in records, logs, metrics, events and on the command line.
type Reason string

// The reasons.
const (
	// Towards leadership.
	ReasonStarted Reason = "started" // the candidate began to take part
	ReasonAbsent  Reason = "absent"  // nobody has held the record before
	ReasonVacant  Reason = "vacant"  // the holder had released it
	// ReasonOffered: the holder handed the record over without a vacancy. Only
	// earlier versions give this reason, which their advisories contain.
	ReasonOffered  Reason = "offered"
	ReasonExpired  Reason = "expired"   // the holder's lease ran out
	ReasonUnowned  Reason = "unowned"   // deleted or unreadable, and waited out
	ReasonRemnant  Reason = "remnant"   // our own record of an earlier term
	ReasonLostRace Reason = "lost-race" // another candidate was faster
	ReasonFollow   Reason = "following" // another candidate holds the record
	// ReasonStandBack: it left on purpose, and lets the others go first.
	ReasonStandBack Reason = "standing-back"

	// Away from leadership.
	ReasonTrust        Reason = "trust-expired" // no renewal was acknowledged in time
	ReasonSuperseded   Reason = "superseded"    // the register contains another candidate's record
	ReasonDeleted      Reason = "deleted"       // somebody deleted the record
	ReasonOverwritten  Reason = "overwritten"   // somebody overwrote the record
	ReasonDisconnected Reason = "disconnected"  // without a connection for longer than the grace period
	ReasonRetries      Reason = "retries-spent" // a renewal failed MaxAttempts times
	ReasonLate         Reason = "late-grant"    // the claim's answer came after its trust window
	ReasonResigned     Reason = "resigned"      // the program asked for it
	ReasonTransferred  Reason = "transferred"   // handed over to a named successor
	ReasonSteppedDown  Reason = "stepped-down"  // an operator asked through the control key
	ReasonStopped      Reason = "stopped"       // the candidate stops taking part
	ReasonPanicked     Reason = "panicked"      // a callback panicked
	ReasonUnhealthy    Reason = "unhealthy"     // the program's health check failed too often
	ReasonPaused       Reason = "paused"        // an operator paused the group
	ReasonOutranked    Reason = "outranked"     // a candidate that is preferred asked for it
	ReasonBalanced     Reason = "balanced"      // handed to an instance that leads fewer groups
	ReasonDrained      Reason = "drained"       // an operator drained the instance
)

// An EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events, with the fields of Event that each uses.
const (
	Tick        EventKind = iota // time passed
	Start                        // take part
	Observed                     // the watch delivered Seen
	Written                      // the write Op ended with Outcome (and Rev if OK)
	Read                         // the read Op ended with Outcome (and Seen if OK)
	Drained                      // the work has stopped after a demotion
	Closed                       // the runtime closed the term: its window passed unseen by us
	Asked                        // a control request: Term, Exit
	Leave                        // the program gives up its term: Exit
	Validate                     // renew now, whether or not it is due
	ConnDown                     // the connection is lost
	ConnUp                       // the connection is back
	StopRelease                  // stop taking part, release the record
	StopLeave                    // stop taking part, let the record expire
	Bar                          // do not campaign while any of Bars is set; with an Exit, leave too
	Unbar                        // Bars are cleared
	Examined                     // the examination Op ended with Outcome (and Doubt if OK)
)

var eventNames = [...]string{
	"tick", "start", "observed", "written", "read", "drained", "closed", "asked", "leave", "validate",
	"conn-down", "conn-up", "stop-release", "stop-leave", "bar", "unbar", "examined",
}

// String returns the kind's name.
func (k EventKind) String() string { return eventNames[k] }

// An Outcome is how a call to the store ended; see package store.
type Outcome uint8

// The outcomes.
const (
	OK Outcome = iota
	Conflict
	Transient
	Permanent
	Unknown
)

var outcomeNames = [...]string{"ok", "conflict", "transient", "permanent", "unknown"}

// String returns the outcome's name.
func (o Outcome) String() string { return outcomeNames[o] }

// An Event is one thing that happened to a candidate.
type Event struct {
	Kind    EventKind
	Outcome Outcome
	Bars    Bars
	Op      uint64
	Rev     uint64
	Seen    Seen
	Term    uint64
	Exit    Exit
	// Doubt, of Start and Examined, is for how long somebody may still lead by
	// what a predecessor of the store held: see State.DoubtUntil and
	// State.YoungUntil.
	Doubt time.Duration

	// Token is a fresh token, used if this event leads to a claim; the caller
	// offers a new one once it was used.
	Token string
	// Rand is a random number, used if this event leads to a delay.
	Rand uint64
	// Nonce is a random number that no copy of this machine draws as well, used
	// if this event leads to a claim or a renewal. 0: none is available.
	Nonce uint64
}

// An ActionKind is what an Action asks the runtime to do.
type ActionKind uint8

// The kinds of actions, with the fields of Action that each uses.
const (
	// Send: compare-and-swap the register from Expected to Rec; answer with
	// Written, Op.
	Send ActionKind = iota
	// Look: read the register; answer with Read, Op.
	Look
	// Promote: the term State.Grant begins; notify the program.
	Promote
	// Demote: end the term's context and notify the program, with Reason;
	// answer with Drained when it has stopped. State.Leading is false already.
	Demote
	// Finish: all is over, nothing is under way.
	Finish
	// Note: nothing to do; something that an operator wants to hear of
	// happened.
	Note
	// Examine: ask the store how old it is; answer with Examined, Op.
	Examine
)

var actionNames = [...]string{"send", "look", "promote", "demote", "finish", "note", "examine"}

// String returns the kind's name.
func (k ActionKind) String() string { return actionNames[k] }

// An Action is one thing to be done in the world, in the order given.
type Action struct {
	Kind     ActionKind
	Write    WriteKind
	Note     NoteKind
	Outcome  Outcome
	Op       uint64
	Expected uint64
	Rec      Record
	Reason   Reason
}

// A NoteKind is the subject of a Note.
type NoteKind uint8

// The kinds of notes.
const (
	NoteResolved  NoteKind = iota // an unanswered write was found applied
	NoteStale                     // a read showed a register older than known
	NoteRegressed                 // the register went back: the store has lost writes
	NoteLost                      // a race for the record was lost
	NoteFailed                    // an attempt failed with Outcome
	NoteOverrun                   // the work did not stop within its budget
	NoteGaveUp                    // a release was given up; the record will expire
)

var noteNames = [...]string{"resolved", "stale-read", "regressed", "lost-race", "failed", "overrun", "gave-up"}

// String returns the kind's name.
func (k NoteKind) String() string { return noteNames[k] }
