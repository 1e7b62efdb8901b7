package leader

import (
	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
)

// A Reason names a cause in one word. Logs, hooks, records and the command line
// use the same words.
type Reason string

// The reasons why a candidate begins to lead, or follows.
const (
	// ReasonStarted: the candidate began to take part.
	ReasonStarted = Reason(machine.ReasonStarted)
	// ReasonAbsent: the store knows nothing of the record.
	ReasonAbsent = Reason(machine.ReasonAbsent)
	// ReasonVacant: the holder released the record.
	ReasonVacant = Reason(machine.ReasonVacant)
	// ReasonOffered: the holder handed the record over without a vacancy.
	// Candidates of before decision 13 (docs/contributing/adr) give this reason; later ones
	// do not.
	ReasonOffered = Reason(machine.ReasonOffered)
	// ReasonExpired: the holder's lease ran out.
	ReasonExpired = Reason(machine.ReasonExpired)
	// ReasonUnowned: the record was deleted or unreadable for a whole lease.
	ReasonUnowned = Reason(machine.ReasonUnowned)
	// ReasonRemnant: the record is this candidate's own, of an earlier claim.
	ReasonRemnant = Reason(machine.ReasonRemnant)
	// ReasonLostRace: another candidate was faster.
	ReasonLostRace = Reason(machine.ReasonLostRace)
	// ReasonFollow: another candidate holds the record.
	ReasonFollow = Reason(machine.ReasonFollow)
	// ReasonStandBack: the candidate left on purpose, and lets the others go
	// first.
	ReasonStandBack = Reason(machine.ReasonStandBack)
	// ReasonFull: the instance leads as many roles as its RoleManager lets it.
	ReasonFull = Reason(leadership.ReasonFull)
)

// The reasons why a term ends.
const (
	// ReasonTrustExpired: no renewal was acknowledged before the trust window
	// closed.
	ReasonTrustExpired = Reason(machine.ReasonTrust)
	// ReasonSuperseded: another candidate's record took the place of this
	// one's.
	ReasonSuperseded = Reason(machine.ReasonSuperseded)
	// ReasonDeleted: somebody deleted the record, or the server expired it.
	ReasonDeleted = Reason(machine.ReasonDeleted)
	// ReasonOverwritten: somebody wrote something over the record.
	ReasonOverwritten = Reason(machine.ReasonOverwritten)
	// ReasonDisconnected: the connection was down for longer than
	// DisconnectGracePeriod.
	ReasonDisconnected = Reason(machine.ReasonDisconnected)
	// ReasonRetriesSpent: a renewal failed RetryConfig.MaxAttempts times in a
	// row.
	ReasonRetriesSpent = Reason(machine.ReasonRetries)
	// ReasonLateGrant: the claim was acknowledged after its trust window had
	// closed; nobody was promoted.
	ReasonLateGrant = Reason(machine.ReasonLate)
	// ReasonResigned: the program called Resign.
	ReasonResigned = Reason(machine.ReasonResigned)
	// ReasonTransferred: handed to a named successor, by Transfer or by
	// request.
	ReasonTransferred = Reason(machine.ReasonTransferred)
	// ReasonSteppedDown: an operator asked for it through the control key.
	ReasonSteppedDown = Reason(machine.ReasonSteppedDown)
	// ReasonStopped: the election was stopped.
	ReasonStopped = Reason(machine.ReasonStopped)
	// ReasonPanicked: OnPromote panicked.
	ReasonPanicked = Reason(machine.ReasonPanicked)
	// ReasonUnhealthy: MaxConsecutiveFailures health checks failed in a row.
	ReasonUnhealthy = Reason(machine.ReasonUnhealthy)
	// ReasonPaused: an operator paused the group.
	ReasonPaused = Reason(machine.ReasonPaused)
	// ReasonOutranked: a candidate that is preferred asked to take over: see
	// AllowPriorityTakeover.
	ReasonOutranked = Reason(machine.ReasonOutranked)
	// ReasonCrashed: this library panicked, and the election is over: see
	// ErrPanicked.
	ReasonCrashed = Reason(leadership.ReasonCrashed)
	// ReasonClosed: the connection is permanently closed, and the election is
	// over: see ErrConnectionClosed.
	ReasonClosed = Reason(leadership.ReasonClosed)
	// ReasonBalanced: a RoleManager handed the role to an instance that leads
	// fewer.
	ReasonBalanced = Reason(machine.ReasonBalanced)
	// ReasonDrained: an operator drained the instance: see Control.Drain.
	ReasonDrained = Reason(machine.ReasonDrained)
)

// The reasons of a vacancy that an operator wrote in the place of a record.
const (
	// ReasonVacated: the holder was gone: see Control.Vacate.
	ReasonVacated = Reason(leadership.ReasonVacated)
	// ReasonForgotten: the group is gone, and lists leave it out: see
	// Control.Forget.
	ReasonForgotten = Reason(leadership.ReasonForgotten)
)

// Asked reports whether r is the end of a term for which somebody asked: the
// program, an operator or another candidate. The other ends are troubles.
func (r Reason) Asked() bool { return engine.Asked(machine.Reason(r)) }
