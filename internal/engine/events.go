package engine

import (
	"context"
	"errors"
	"time"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
)

// The errors of a candidate. Package leader documents them, and exports the
// same values: so errors.Is finds them, whether a candidate or a manager of
// many returned them.
var (
	ErrAlreadyStarted = errors.New("leader: election already started")
	ErrNotStarted     = errors.New("leader: election not started")
	ErrStopped        = errors.New("leader: election stopped")
	ErrNotLeader      = errors.New("leader: not the leader")
	ErrStopTimeout    = errors.New("leader: stop did not complete in time")
	ErrDemoteTimeout  = errors.New("leader: a callback did not return within DemoteTimeout")
	ErrPanicked       = errors.New("leader: the election panicked")
)

// The names of the states. They are of the API: programs compare them, and
// hooks, logs and metrics show them.
const (
	StateInit      = "INIT"
	StateCandidate = "CANDIDATE"
	StateLeader    = "LEADER"
	StateFollower  = "FOLLOWER"
	StateDemoted   = "DEMOTED"
	StateStopped   = "STOPPED"
)

func stateName(p machine.Public) string {
	// By name and not by position, so that a new state of the core shifts none.
	return [...]string{
		machine.Init: StateInit, machine.Candidate: StateCandidate, machine.Leader: StateLeader,
		machine.Follower: StateFollower, machine.Demoted: StateDemoted, machine.Ended: StateStopped,
	}[p]
}

// An Event is the name of a transition.
type Event string

// The events.
const (
	EventCampaigning Event = "campaigning"
	EventFollowing   Event = "following"
	EventPromoted    Event = "promoted"
	EventDemoted     Event = "demoted"
	EventStopped     Event = "stopped"
)

// eventOf returns the name of the transition to a state. Init has none, since
// no candidate comes back to it.
func eventOf(p machine.Public) Event {
	return [...]Event{
		machine.Candidate: EventCampaigning, machine.Leader: EventPromoted, machine.Follower: EventFollowing,
		machine.Demoted: EventDemoted, machine.Ended: EventStopped,
	}[p]
}

// The kinds of notes. Those of the core are the names of its NoteKinds, from
// which noteOf takes them: the two have to agree, since programs count notes by
// the names here.
const (
	NoteResolved  = "resolved"
	NoteStale     = "stale-read"
	NoteRegressed = "regressed"
	NoteLostRace  = "lost-race"
	NoteFailed    = "failed"
	NoteOverrun   = "overrun"
	NoteGaveUp    = "gave-up"
	NoteWarning   = "warning"
	NoteNotReady  = "not-ready"
	NotePanic     = "panic"
	NoteBadToken  = "bad-token"
	NoteTakeover  = "takeover-request"
	NoteMalformed = "malformed"
	NoteBarred    = "barred"
	NoteUnbarred  = "unbarred"
	NoteWaiting   = "waiting"
	NoteReturned  = "returned"

	NoteDisconnected = "disconnected"
	NoteClosed       = "closed"
)

// callRead is the kind of all calls but the core's writes.
const callRead = "read"

// Hooks report the actions of a candidate to the outside. Nil means off. See
// leader.Hooks. The loop calls all but Callback: a hook that blocks delays
// renewals with all the rest. The term then ends by the window's own timer, and
// not when the loop gets to it.
type Hooks struct {
	Transition  func(Transition)
	Call        func(Call)
	Note        func(Note)
	Callback    func(Callback)
	TermContext func(ctx context.Context, term leadership.Term) context.Context
}

// A Transition is a change of state. The fields match leader.Transition. Term
// is set where a term of this candidate begins or ends; LeaderID and LeaderTerm
// describe the current leader.
type Transition struct {
	At          time.Time
	Event       Event
	From, To    string
	Reason      machine.Reason
	By, Why     string
	Term        leadership.Term
	LeaderID    string
	LeaderTerm  uint64
	Correlation string
}

// A Call is a call to the store that ended. The fields match leader.Call. The
// loop sets Correlation when it hears of the call: it alone knows the claim
// that is under way.
type Call struct {
	Kind        string
	Sent        time.Time
	Took        time.Duration
	Outcome     store.Outcome
	Err         error
	Correlation string
}

// A Note is something noteworthy. The fields match leader.Note. Any goroutine
// may have made it. The loop reports it, and sets Correlation then.
type Note struct {
	At          time.Time
	Kind        string
	Call        string
	Text        string
	Correlation string
}

// A Callback is a callback that returned. The fields match leader.Callback.
type Callback struct {
	Kind string
	Term leadership.Term
	Took time.Duration
}

// A failure is an error of a call to the store, and its time. By the time, a
// waiting caller distinguishes a new failure from an older one.
type failure struct {
	err error
	at  time.Time
}

// outcomeOf translates an outcome of the store for the core, which knows no
// store. An outcome that outcomeOf does not know is Unknown, as package store
// requires in doubt.
func outcomeOf(o store.Outcome) machine.Outcome {
	switch o {
	case store.OK:
		return machine.OK
	case store.Conflict:
		return machine.Conflict
	case store.Transient:
		return machine.Transient
	case store.Permanent:
		return machine.Permanent
	default:
		return machine.Unknown
	}
}
