package leader

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
)

// The states of an election, as ElectionStatus.State and Transition show them.
const (
	StateInit      = engine.StateInit      // not started
	StateCandidate = engine.StateCandidate // there is no leader that we know of, and we try or prepare to be it
	StateLeader    = engine.StateLeader    // this candidate leads
	StateFollower  = engine.StateFollower  // another candidate holds the record
	StateDemoted   = engine.StateDemoted   // the term is over; its work is being stopped and its record released
	StateStopped   = engine.StateStopped   // permanently
)

// A Term is one unbroken time of leadership: its number orders it among all
// terms of the group, its token identifies it. The zero Term means no term.
//
// A protected resource accepts a term if its number is larger than any that it
// has seen, or equal with the same token: see [Term.Supersedes].
type Term struct {
	// Number is the fencing token: larger than the numbers of all earlier terms
	// of the group. It is the store's revision of the acquiring write, and
	// below 2^53 on NATS.
	Number uint64
	// Token is unique to the term. Tokens have no order, and are best kept out
	// of logs.
	Token string
}

// IsZero reports whether t is the zero Term.
func (t Term) IsZero() bool { return t == Term{} }

// Supersedes reports whether a resource whose latest accepted term is last may
// accept t. The zero Term it never may.
func (t Term) Supersedes(last Term) bool {
	return t.Number > last.Number || t == last && !t.IsZero()
}

// String shows the number and a short hash of the token.
func (t Term) String() string { return fmt.Sprintf("%d/%s", t.Number, t.hash()) }

// LogValue keeps the token out of logs: it shows a short hash in its place.
func (t Term) LogValue() slog.Value {
	return slog.GroupValue(slog.Uint64("number", t.Number), slog.String("hash", t.hash()))
}

func (t Term) hash() string { return leadership.Hash(t.Token) }

// Correlation identifies the term in logs, metrics and traces without giving
// its token away: a short hash of it, or "" for no term. All candidates derive
// the same.
func (t Term) Correlation() string { return leadership.Correlation(t.Token) }

// TermFromContext returns the term whose context ctx is or descends from. The
// contexts that OnPromote, Run's function and the operation of Election.Do
// receive carry it.
func TermFromContext(ctx context.Context) (Term, bool) {
	t, ok := engine.TermFrom(ctx)
	return Term(t), ok
}

// An ElectionStatus is what one candidate knew at the instant of the call. Logs
// by slog, and text by fmt, show a short hash in the place of the token; other
// encodings, such as JSON, hold the token itself.
type ElectionStatus struct {
	Address          string    // of this candidate: ElectionConfig.Address
	State            string    // one of the State constants
	IsLeader         bool      // IsLeader() at the same instant
	LeaderID         string    // who leads, as far as this candidate knows; empty if nobody or unknown
	LeaderTerm       uint64    // number of that leader's term, 0 without one
	Token            string    // of the present term, if this candidate leads
	Term             uint64    // number of the present term, if this candidate leads
	Transitions      uint64    // how often the group got another leader before the term that is known: see LeaderInfo
	Acquired         time.Time // when that term began, by its holder's wall clock: see LeaderInfo
	Renewed          time.Time // when its record was written last, by that clock: see LeaderInfo
	TrustUntil       time.Time // end of the trust window, if this candidate leads
	LastHeartbeat    time.Time // when the last acknowledged renewal (or the acquisition) left, if this candidate leads
	LastTransition   time.Time // when State last changed
	Reason           Reason    // why it did
	Revision         uint64    // of the latest write of this candidate's record, if it leads
	ConnectionStatus string    // CONNECTED, DISCONNECTED, CLOSED
	// Barred is why this candidate does not campaign at present:
	// ReasonUnhealthy, ReasonDrained, ReasonPaused, ReasonFull; empty if nothing keeps it.
	Barred Reason
	// LastError is the last error of a call to the store, and LastErrorAt when
	// it came. A conflict is none. Nil once a call has succeeded since; the
	// reads of a store that has no watch clear no error of another call.
	LastError   error
	LastErrorAt time.Time
}

// A LeaderInfo is who leads a group, as seen from one place.
type LeaderInfo struct {
	// Group is the group's name.
	Group string
	// ID is the leader's InstanceID; empty if nobody leads as far as can be
	// seen.
	ID string
	// Term is the number of the leader's term; of the last one if nobody leads.
	Term uint64
	// Transitions is how often the group had got another leader when that term
	// began, 0 in its first, as far as its records show. The count restarts
	// where the records do: after a deletion that no candidate saw, in a store
	// that was made again, and after a record of a program that does not count.
	// Compare terms by Term.
	Transitions uint64
	// Correlation is a short hash of the token of that term, the same in all
	// reports about it.
	Correlation string
	// Priority, Version, Address, ConnectionParams and Meta are the leader's
	// own settings. ConnectionParams and Meta are shared: do not modify them.
	Priority int
	Version  string
	Address  string
	// ConnectionParams is nil if the leader states none.
	ConnectionParams []byte
	Meta             map[string]string
	// Until is when the lease as seen from here runs out, unless it is renewed:
	// nobody else leads before, if nobody releases. It counts the ClockDrift
	// that the record states, by which the others wait, too; where it states
	// none, DefaultClockDrift. Zero if nobody leads.
	Until time.Time
	// Acquired is when the term began, and Renewed when its record was written
	// last: by the claim, by a renewal or, if nobody leads, by the writer that
	// ended it. Both are from the wall clock of the writer, in whole
	// milliseconds, and for people: that clock may be wrong, and the election
	// never compares it with another. Until is how long a leader is valid. Zero
	// if the record does not contain it: a record of another program or of an
	// older version, or none.
	Acquired time.Time
	Renewed  time.Time
	// Reason, By, Why and Successor explain why nobody leads: why the last
	// leader left, who asked for it, the requester's reason, and the requested
	// successor.
	Reason    Reason
	By        string
	Why       string
	Successor string
}

// String describes in one line for people who leads, or why nobody does. Its
// format may change: do not parse it.
func (l LeaderInfo) String() string { return l.info().String() }

// infoOf is what is known of a leader, in the words of this package.
func infoOf(i leadership.Info) LeaderInfo {
	var params []byte
	if i.Params != nil {
		params = *i.Params
	}
	return LeaderInfo{
		Group: i.Group, ID: i.ID, Term: i.Term, Transitions: i.Transitions, Correlation: i.Correlation, Priority: i.Priority, Version: i.Version,
		Address: i.Address, ConnectionParams: params, Meta: i.Meta, Until: i.Until,
		Acquired: i.Acquired.Time(), Renewed: i.Renewed.Time(), Reason: Reason(i.Reason), By: i.By, Why: i.Why, Successor: i.Successor,
	}
}

// info is the reverse of infoOf.
func (l LeaderInfo) info() leadership.Info {
	return leadership.Info{
		Group: l.Group, ID: l.ID, Term: l.Term, Transitions: l.Transitions, Correlation: l.Correlation, Priority: l.Priority, Version: l.Version,
		Address: l.Address, Params: paramsOf(l.ConnectionParams), Meta: l.Meta, Until: l.Until,
		Acquired: record.MomentOf(l.Acquired), Renewed: record.MomentOf(l.Renewed), Reason: machine.Reason(l.Reason), By: l.By, Why: l.Why, Successor: l.Successor,
	}
}

// statusOf is a candidate's status in the words of this package.
func statusOf(s engine.Status) ElectionStatus {
	return ElectionStatus{
		Address: s.Address, State: s.State, IsLeader: s.IsLeader, LeaderID: s.LeaderID, LeaderTerm: s.LeaderTerm, Token: s.Term.Token, Term: s.Term.Number,
		Transitions: s.Transitions, Acquired: s.Acquired.Time(), Renewed: s.Renewed.Time(), TrustUntil: s.TrustUntil, LastHeartbeat: s.LastHeartbeat, LastTransition: s.LastTransition, Reason: Reason(s.Reason),
		Revision: s.Revision, ConnectionStatus: s.ConnectionStatus, Barred: Reason(s.Barred),
		LastError: s.LastError, LastErrorAt: s.LastErrorAt,
	}
}
