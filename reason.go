package leader

import (
	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
)

// A Reason says in one word why something happened. Logs, hooks, records
// and the command line use the same words.
type Reason string

// The reasons why a candidate begins to lead, or follows.
const (
	ReasonStarted   = Reason(machine.ReasonStarted)   // the candidate began to take part
	ReasonAbsent    = Reason(machine.ReasonAbsent)    // the store knows nothing of the record
	ReasonVacant    = Reason(machine.ReasonVacant)    // the holder released the record
	ReasonOffered   = Reason(machine.ReasonOffered)   // the holder was done with the record, and offered it to this candidate
	ReasonExpired   = Reason(machine.ReasonExpired)   // the holder's lease ran out
	ReasonUnowned   = Reason(machine.ReasonUnowned)   // the record was deleted or unreadable for a whole lease
	ReasonRemnant   = Reason(machine.ReasonRemnant)   // the record is this candidate's own, of an earlier claim
	ReasonLostRace  = Reason(machine.ReasonLostRace)  // another candidate was faster
	ReasonFollow    = Reason(machine.ReasonFollow)    // another candidate holds the record
	ReasonStandBack = Reason(machine.ReasonStandBack) // the candidate left on purpose, and lets the others go first
	ReasonFull      = Reason(leadership.ReasonFull)   // the instance leads as many roles as its RoleManager lets it
)

// The reasons why a term ends.
const (
	ReasonTrustExpired = Reason(machine.ReasonTrust)        // no renewal was acknowledged before the trust window closed
	ReasonSuperseded   = Reason(machine.ReasonSuperseded)   // another candidate's record took the place of this one's
	ReasonDeleted      = Reason(machine.ReasonDeleted)      // somebody deleted the record, or the server expired it
	ReasonOverwritten  = Reason(machine.ReasonOverwritten)  // somebody wrote something over the record
	ReasonDisconnected = Reason(machine.ReasonDisconnected) // the connection was down for longer than DisconnectGracePeriod
	ReasonRetriesSpent = Reason(machine.ReasonRetries)      // a renewal failed RetryConfig.MaxAttempts times in a row
	ReasonLateGrant    = Reason(machine.ReasonLate)         // the claim was acknowledged after its trust window had closed; nobody was promoted
	ReasonResigned     = Reason(machine.ReasonResigned)     // the program called Resign
	ReasonTransferred  = Reason(machine.ReasonTransferred)  // handed to a named successor, by Transfer or by request
	ReasonSteppedDown  = Reason(machine.ReasonSteppedDown)  // an operator asked for it through the control key
	ReasonStopped      = Reason(machine.ReasonStopped)      // the election was stopped
	ReasonPanicked     = Reason(machine.ReasonPanicked)     // OnPromote panicked
	ReasonUnhealthy    = Reason(machine.ReasonUnhealthy)    // MaxConsecutiveFailures health checks failed in a row
	ReasonPaused       = Reason(machine.ReasonPaused)       // an operator paused the group
	ReasonOutranked    = Reason(machine.ReasonOutranked)    // a candidate that is preferred asked to take over: see AllowPriorityTakeover
	ReasonCrashed      = Reason(leadership.ReasonCrashed)   // this library panicked, and the election is over: see ErrPanicked
	ReasonClosed       = Reason(leadership.ReasonClosed)    // the connection is closed for good, and the election is over: see ErrConnectionClosed
	ReasonBalanced     = Reason(machine.ReasonBalanced)     // a RoleManager handed the role to an instance that leads fewer
)

// The reasons of a vacancy that an operator wrote in the place of a record.
const (
	ReasonVacated   = Reason(leadership.ReasonVacated)   // the holder was gone: see Control.Vacate
	ReasonForgotten = Reason(leadership.ReasonForgotten) // the group is gone, and lists leave it out: see Control.Forget
)

// Asked reports whether r is the end of a term for which somebody asked: the
// program, an operator or another candidate. The other ends are troubles.
func (r Reason) Asked() bool { return engine.Asked(machine.Reason(r)) }
