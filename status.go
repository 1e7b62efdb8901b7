package leader

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
)

// The states of an election, as ElectionStatus.State and Transition show them.
const (
	StateInit      = "INIT"      // not started
	StateCandidate = "CANDIDATE" // there is no leader that we know of, and we try or prepare to be it
	StateLeader    = "LEADER"    // this candidate leads
	StateFollower  = "FOLLOWER"  // another candidate holds the record
	StateDemoted   = "DEMOTED"   // the term is over; its work is being stopped and its record released
	StateStopped   = "STOPPED"   // for good
)

func eventOf(p machine.Public) Event {
	return [...]Event{
		machine.Candidate: EventCampaigning, machine.Leader: EventPromoted, machine.Follower: EventFollowing,
		machine.Demoted: EventDemoted, machine.Ended: EventStopped,
	}[p]
}

func stateName(p machine.Public) string {
	return [...]string{
		machine.Init: StateInit, machine.Candidate: StateCandidate, machine.Leader: StateLeader,
		machine.Follower: StateFollower, machine.Demoted: StateDemoted, machine.Ended: StateStopped,
	}[p]
}

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
	ReasonFull      = Reason("full")                  // the instance leads as many roles as its RoleManager lets it
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
	ReasonCrashed      = Reason("crashed")                  // this library panicked, and the election is over: see ErrPanicked
	ReasonClosed       = Reason("closed")                   // the connection is closed for good, and the election is over: see ErrConnectionClosed
	ReasonBalanced     = Reason(machine.ReasonBalanced)     // a RoleManager handed the role to an instance that leads fewer
)

// The reasons of a vacancy that an operator wrote in the place of a record.
const (
	ReasonVacated   = Reason("vacated")   // the holder was gone: see Control.Vacate
	ReasonForgotten = Reason("forgotten") // the group is gone, and lists leave it out: see Control.Forget
)

// Asked reports whether r is the end of a term for which somebody asked: the program, an operator or another candidate. The
// other ends are troubles.
func (r Reason) Asked() bool {
	switch r {
	case ReasonResigned, ReasonTransferred, ReasonSteppedDown, ReasonStopped, ReasonPaused, ReasonOutranked, ReasonBalanced:
		return true
	default:
		return false
	}
}

// A Term is one unbroken reign: its number orders it among all terms of the group,
// its token identifies it. The zero Term is no term.
//
// A protected resource accepts a term if its number is larger than any that it has
// seen, or equal with the same token: see [Term.Supersedes].
type Term struct {
	// Number is the fencing token: larger than that of every earlier term of the
	// group. It is the store's revision of the acquiring write, and below 2^53 on NATS.
	Number uint64
	// Token is unique to the term. It is no order, and is best kept out of logs.
	Token string
}

// IsZero reports whether t is no term.
func (t Term) IsZero() bool { return t == Term{} }

// Supersedes reports whether a resource whose latest accepted term is last may accept t.
func (t Term) Supersedes(last Term) bool {
	return t.Number > last.Number || t.Number == last.Number && t.Token == last.Token
}

// String shows the number and a short hash of the token.
func (t Term) String() string { return fmt.Sprintf("%d/%s", t.Number, t.hash()) }

// LogValue keeps the token out of logs: it shows a short hash in its place.
func (t Term) LogValue() slog.Value {
	return slog.GroupValue(slog.Uint64("number", t.Number), slog.String("hash", t.hash()))
}

func (t Term) hash() string { return hashOf(t.Token) }

// Correlation identifies the term in logs, metrics and traces without giving its token away: a short
// hash of it, or "" for no term. All candidates derive the same.
func (t Term) Correlation() string { return correlation(t.Token) }

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:4])
}

func correlation(token string) string {
	if token == "" {
		return ""
	}
	return hashOf(token)
}

// An ElectionStatus is what one candidate knew at the instant of the call. Logs by slog, and text by fmt, show a short hash in
// the place of the token; other encodings, such as JSON, hold the token itself.
type ElectionStatus struct {
	State            string    // one of the State constants
	IsLeader         bool      // IsLeader() at the same instant
	LeaderID         string    // who leads, as far as this candidate knows; empty if nobody or unknown
	LeaderTerm       uint64    // number of that leader's term, 0 without one
	Token            string    // of the present term, if this candidate leads
	Term             uint64    // number of the present term, if this candidate leads
	TrustUntil       time.Time // end of the trust window, if this candidate leads
	LastHeartbeat    time.Time // when the last acknowledged renewal (or the acquisition) left, if this candidate leads
	LastTransition   time.Time // when State last changed
	Reason           Reason    // why it did
	Revision         uint64    // of the latest write of this candidate's record, if it leads
	ConnectionStatus string    // CONNECTED, DISCONNECTED, CLOSED
	// Barred says why this candidate does not campaign at present: ReasonUnhealthy, ReasonPaused, ReasonFull; empty if
	// nothing keeps it.
	Barred Reason
	// LastError is the last error of a call to the store, and LastErrorAt when it came. A conflict is
	// none. Nil once a call has succeeded since.
	LastError   error
	LastErrorAt time.Time
}

// A LeaderInfo is who leads a group, as seen from one place.
type LeaderInfo struct {
	// Group is the group's name.
	Group string
	// ID is the leader's InstanceID; empty if nobody leads as far as can be seen.
	ID string
	// Term is the number of the leader's term; of the last one if nobody leads.
	Term uint64
	// Correlation is a short hash of the token of that term, the same in everything that is said of it.
	Correlation string
	// Priority, Version, Address and Meta are what the leader says of itself. Meta is shared: do not modify it.
	Priority int
	Version  string
	Address  string
	Meta     map[string]string
	// Until is when the lease as seen from here runs out, unless it is renewed:
	// nobody else leads before, if nobody releases. Zero if nobody leads.
	Until time.Time
	// Reason, By, Why and Successor say why nobody leads: why the last leader left, who asked
	// for it, for what reason in that one's words, and whom it asked to take over.
	Reason    Reason
	By        string
	Why       string
	Successor string
}

// String says in one line for people who leads, or why nobody does. It is no format to parse.
func (l LeaderInfo) String() string {
	if l.ID != "" {
		return fmt.Sprintf("%q leads group %q in term %d", l.ID, l.Group, l.Term)
	}
	return fmt.Sprintf("nobody leads group %q: %s", l.Group, l.vacancy())
}

// vacancy says why nobody leads.
func (l LeaderInfo) vacancy() string {
	var b strings.Builder
	b.WriteString(cmp.Or(string(l.Reason), "unknown"))
	if l.Term != 0 {
		fmt.Fprintf(&b, ", after term %d", l.Term)
	}
	if l.By != "" {
		fmt.Fprintf(&b, ", by %q", l.By)
	}
	if l.Why != "" {
		fmt.Fprintf(&b, " (%s)", l.Why)
	}
	if l.Successor != "" {
		fmt.Fprintf(&b, ", for %q to take over", l.Successor)
	}
	return b.String()
}

// vacancyAfter returns the vacancy between the leader that was known and the one whose record is seen, if there was one that nobody
// wrote: the one before offered its record, which says so since then. Who asks why a leader left finds it where it always is.
func vacancyAfter(known LeaderInfo, seen machine.Seen) (vacancy LeaderInfo, ok bool) {
	prior := seen.Rec.Prior
	if known.ID == "" || seen.Kind != machine.Held || prior.Reason == "" || prior.Term != known.Term || seen.Term() == known.Term {
		return LeaderInfo{}, false
	}
	return LeaderInfo{
		Group: known.Group, Term: known.Term, Correlation: known.Correlation, Reason: Reason(prior.Reason), By: known.ID,
	}, true
}

// sameNews tells whether o says the same of who leads, or of why nobody does.
func (l LeaderInfo) sameNews(o LeaderInfo) bool {
	return l.ID == o.ID && l.Term == o.Term && l.Reason == o.Reason && l.By == o.By && l.Why == o.Why && l.Successor == o.Successor
}
