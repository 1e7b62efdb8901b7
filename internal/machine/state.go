package machine

import (
	"math"
	"time"
)

// A Phase is what a candidate is doing.
type Phase uint8

// The phases; the package documentation draws them.
const (
	Idle      Phase = iota // not started
	Watching               // knows or awaits the record, and challenges it when it is due
	Claiming               // an acquisition is under way
	Holding                // the record is ours: leading, or cooling down before
	Draining               // no longer leading; the work is being stopped
	Releasing              // the work has stopped; the vacancy is being written
	Stopped                // permanently over
)

var phaseNames = [...]string{"idle", "watching", "claiming", "holding", "draining", "releasing", "stopped"}

// String returns the phase's name.
func (p Phase) String() string { return phaseNames[p] }

// A Kind is the kind of the register's content.
type Kind uint8

// The kinds of content.
const (
	Unseen    Kind = iota // nothing was read yet
	Absent                // the store knows nothing of the key
	Held                  // a holder's record
	Vacant                // a vacancy that a holder wrote when its work had stopped
	Bare                  // deleted by somebody who was not the holder, or expired
	Malformed             // not a record
)

var kindNames = [...]string{"unseen", "absent", "held", "vacant", "bare", "malformed"}

// String returns the kind's name.
func (k Kind) String() string { return kindNames[k] }

// A Record is what the protocol reads and writes of the register's content.
type Record struct {
	ID        string        // the holder; empty in a vacancy
	Token     string        // identifies the claim; in a vacancy, the claim that ended
	TTL       time.Duration // the lease's length as its holder counts it
	Term      uint64        // revision of the acquiring write; 0 in that write itself
	Renewal   uint64        // renewals of this claim so far
	Nonce     uint64        // drawn for this write: distinguishes it from a twin's
	Priority  int
	Reason    Reason // vacancy: why the holder left
	By        string // vacancy: who asked for it, or the holder itself
	Why       string // vacancy: why, in that one's words
	Successor string // vacancy: the candidate asked to take over; others give it a head start
	// Prior, only read: the term before, if its holder gave the record to this
	// one without a vacancy, as candidates of earlier versions do. Nothing here
	// depends on it.
	Prior Prior
	// Settled, of a vacancy: its writer cools down, and had cooled down, or
	// succeeded one that had. So when it was written nobody who led before could
	// still lead.
	Settled bool
}

// A Prior describes how a term ended that left no vacancy. The zero value is
// unknown.
type Prior struct {
	Term   uint64
	Reason Reason
}

// A Seen is what the register was observed to hold.
type Seen struct {
	Kind Kind
	// Behind is how many others the candidate lets go first: see Machine.Yield.
	// It has a meaning for the kinds Held and Vacant only.
	Behind uint8
	// Ranked: the candidates of the group are not all alike.
	Ranked bool

	Rev uint64
	Rec Record // of kinds Held and Vacant
}

// A Grant is a claim of this candidate that the store acknowledged.
type Grant struct {
	Token   string
	Term    uint64
	Rev     uint64 // revision of our latest write
	Renewal uint64
	// Nonce identifies our latest write, Next the renewal after it; Next is 0
	// until that renewal begins. A renewal keeps its nonce however often it is
	// sent.
	Nonce, Next uint64
	// Sent is when the latest acknowledged write left: renewals are due from
	// it.
	Sent Instant
	// Trust is when the trust window closes, if no renewal is acknowledged
	// before.
	Trust Instant
	// PromoteAt is when the cool-down ends (monotonic), 0 without one. The
	// promotion takes the acknowledgement of a write that left then or later.
	PromoteAt int64
	Promoted  bool
	// Settled: no earlier leader can still lead. The write that ends this grant
	// records that. It is kept where candidates cool down.
	Settled bool
	// Void: the claim expects nothing, in a store that reports its age. Every
	// store is empty when it was just made, so the claim may have been applied
	// in one that took the place of the store that was observed.
	Void bool
	// Examine is the examination that is under way, 0 without one.
	Examine uint64
}

// A WriteKind is the purpose of a write.
type WriteKind uint8

// The kinds of writes.
const (
	NoWrite WriteKind = iota
	Acquire
	Renew
	Release
)

var writeNames = [...]string{"none", "acquire", "renew", "release"}

// String returns the kind's name.
func (k WriteKind) String() string { return writeNames[k] }

// A Stage is the progress of a write.
type Stage uint8

// The stages of a write.
const (
	NoStage    Stage = iota
	Flying           // sent, no answer yet
	BackingOff       // answered, to be sent again at Write.Due
	Reading          // refused: the register is being read to learn by what
)

// Bars is a set of reasons not to campaign.
type Bars uint8

// The bars.
const (
	Unhealthy  Bars = 1 << iota // the program's health check fails
	Withdrawn                   // an operator has drained the instance
	Paused                      // an operator has paused the group
	Uninformed                  // it is not known yet whether one has
	Full                        // the program leads as many groups as it may
)

// exits is how many of the bars, the first ones, may make a holder leave.
const exits = 3

// A Write is the one logical write that a candidate may have under way:
// repeated with the same condition and content until its outcome is known.
type Write struct {
	Kind     WriteKind
	Stage    Stage
	Maybe    bool   // an attempt's outcome is unknown
	Refused  bool   // an attempt was refused, and no read has explained it yet
	Tries    uint8  // attempts, and reads that did not help
	Stale    uint8  // reads in a row that showed a register older than we know
	Op       uint64 // the call that is out: answers to others are stale
	Expected uint64
	First    Instant // when the first attempt that may have been applied left
	Sent     Instant // when the latest attempt left
	Due      int64   // monotonic end of BackingOff
}

// An Exit is the reason for the end of a term, and what follows it.
type Exit struct {
	Reason    Reason
	By        string
	Why       string
	Successor string
	StandBack bool   // stay away from the vacancy, since we left on purpose
	Keep      bool   // renew until the work has stopped, since nobody took the record from us
	Vacate    uint64 // a revision not ours that we may vacate all the same; see mayVacate
}

// A State is all that a candidate knows and is about to do. The zero value is a
// candidate that was not started. States are comparable.
type State struct {
	Phase Phase
	// Undrained: a Demote was not answered by Drained yet. Such a candidate
	// does not campaign: it could not begin a term before the work of the last
	// one stopped.
	Undrained bool
	Down      bool // the connection is lost, since DownSince
	Stopping  bool // a stop was asked for
	Leave     bool // and the record is to be left to expire
	Prove     bool // a validation waits for a renewal that was not sent yet
	// Behind is how many others the register, when it was last readable, showed
	// to go first.
	Behind uint8
	Ranked bool
	// Passed counts the terms of others since this candidate's last term.
	Passed uint8
	// Barred holds what keeps the candidate from campaigning, and BarExits, for
	// each bar by its bit, how it leaves a grant that comes nevertheless.
	Barred   Bars
	BarExits [exits]Exit

	// View is the observed state of the register, and ViewAt when it arrived
	// (monotonic).
	View   Seen
	ViewAt int64
	// DueAt is when this candidate claims the register, and FreeAt when it could
	// but for the delay that spreads candidates (monotonic); meaningful while
	// Watching.
	DueAt, FreeAt int64
	// Window is what that delay is picked from, for contention that was met: see
	// contention.go.
	Window time.Duration
	// HeldTTL is the lease length of the latest candidate's record seen, ours
	// included; 0 if none was seen. Content that no candidate wrote does not
	// change HeldTTL: when that content is deleted, the rule for deletions
	// considers candidates alone.
	HeldTTL time.Duration
	// DoubtUntil is set when the store has lost writes: the register went back
	// to an older revision, or the store was made too recently (Event.Doubt). A
	// leader whose record is gone may trust it until then (monotonic). Nothing
	// is promoted before, whatever the settings are.
	DoubtUntil int64
	// YoungUntil is the same for a void claim that was applied: its store may
	// have been made only just before (monotonic). The answer to an examination
	// contains how long ago that was.
	YoungUntil int64

	Grant Grant
	Write Write
	Exit  Exit
	// DrainBy is when the release stops waiting for the work (monotonic).
	DrainBy int64
	// ReleaseBy is when the release is given up (monotonic): the lease has run
	// out by then.
	ReleaseBy int64
	// StandBackUntil keeps a candidate that left on purpose from coming
	// straight back (monotonic).
	StandBackUntil int64
	DownSince      int64 // monotonic

	// Reason is the reason for the latest transition.
	Reason Reason

	ops uint64
}

// Term is the number of the term that the record or vacancy is about.
func (s *Seen) Term() uint64 {
	if s.Kind == Held && s.Rec.Term == 0 {
		return s.Rev // the acquiring write itself
	}
	return s.Rec.Term
}

// Foreign reports whether no candidate wrote what was seen: candidates state
// the length of their lease.
func (s *Seen) Foreign() bool {
	return s.Kind == Malformed || s.Kind == Held && s.Rec.TTL <= 0
}

// same reports whether both are of the same write.
func (s *Seen) same(o *Seen) bool {
	return s.Rev == o.Rev && s.Kind == o.Kind && s.Rec.Token == o.Rec.Token
}

// Echoes reports whether a holder already knows seen: most often the watch
// reports a renewal that was answered already. Observing it only reads the
// clock.
func (s *State) Echoes(seen *Seen) bool { return s.Phase == Holding && seen.same(&s.View) }

// ours reports whether seen is a record of our latest claim that this candidate
// wrote. A record without a token, which somebody may write by hand, belongs to
// nobody, also for a candidate that never claimed. A record with our token that
// this candidate did not write was written by a twin: a copy of this machine,
// memory included.
func (s *State) ours(seen *Seen) bool {
	return seen.Kind == Held && seen.Rec.Token == s.Grant.Token && seen.Rec.Token != "" && s.wrote(seen)
}

// wrote reports whether a record with our token is by our hand. Of the writes
// before the latest one only the term is remembered: a twin that claimed by the
// same token has another.
func (s *State) wrote(seen *Seen) bool {
	r, g := &seen.Rec, &s.Grant
	switch r.Renewal {
	case g.Renewal:
		return r.Nonce == g.Nonce
	case g.Renewal + 1:
		return r.Nonce == g.Next
	default:
		return r.Renewal < g.Renewal && seen.Term() == g.Term
	}
}

// Leading reports whether the candidate may act at now: it was promoted and its
// trust window is open. It is the definition of a leader.
func (s *State) Leading(now Instant) bool {
	return s.Phase == Holding && s.Grant.Promoted && !s.Grant.Trust.Reached(now)
}

// Public is the state's name in the API.
type Public uint8

// The public states.
const (
	Init Public = iota
	Candidate
	Leader
	Follower
	Demoted
	Ended
)

// Public returns the state's name in the API.
func (s *State) Public() Public {
	switch s.Phase {
	case Idle:
		return Init
	case Watching:
		if s.View.Kind == Held && !s.ours(&s.View) {
			return Follower
		}
		return Candidate
	case Claiming:
		return Candidate
	case Holding:
		if s.Grant.Promoted {
			return Leader
		}
		return Candidate
	case Draining, Releasing:
		return Demoted
	default:
		return Ended
	}
}

// Never is what Wake returns when only an event can change anything.
const Never = math.MaxInt64

// Wake returns the monotonic instant at which Step wants a Tick. It leaves the
// state alone, which is passed by its address because of its size.
func (m *Machine) Wake(s *State) int64 {
	wake := int64(Never)
	if s.Write.Stage == BackingOff {
		wake = s.Write.Due
	}
	switch s.Phase {
	case Watching:
		if m.mayClaim(s) {
			wake = min(wake, max(s.DueAt, s.StandBackUntil))
		}
	case Holding:
		wake = min(wake, s.Grant.Trust.Mono)
		if s.Write.Kind == NoWrite {
			wake = min(wake, m.renewAt(s))
		}
		if !s.Grant.Promoted && s.Write.Kind == NoWrite {
			wake = min(wake, s.promoteAt())
		}
		if s.Down && m.DisconnectGrace > 0 {
			wake = min(wake, s.DownSince+int64(m.DisconnectGrace))
		}
	case Draining:
		wake = min(wake, s.DrainBy)
		if s.keeps() {
			wake = min(wake, s.Grant.Trust.Mono)
			if s.Write.Kind == NoWrite {
				wake = min(wake, m.renewAt(s))
			}
		}
	case Releasing:
		wake = min(wake, s.ReleaseBy)
	default:
	}
	return wake
}

// promoteAt is when a holder that is not promoted may be: it takes the
// acknowledgement of a write that left then or later.
func (s *State) promoteAt() int64 { return max(s.Grant.PromoteAt, s.YoungUntil) }

// keeps reports whether a record whose term is over is still to be renewed.
func (s *State) keeps() bool {
	return s.Exit.Keep && s.ours(&s.View)
}

// mayClaim reports whether nothing but time keeps the candidate from claiming.
// Without its connection a candidate with a grace period would soon have to
// give up what it wins, and claim it again as fast as the store answers.
func (m *Machine) mayClaim(s *State) bool {
	cutOff := s.Down && m.DisconnectGrace > 0
	return s.View.Kind != Unseen && !s.Undrained && s.Barred == 0 && !cutOff
}

// barExit is how a candidate that may not campaign leaves a grant that comes
// nevertheless. It has no reason if the candidate may keep it. Of several bars
// the one with the higher bit decides, since a pause concerns the whole group.
func (s *State) barExit() (x Exit) {
	for i := range s.BarExits {
		if exit := &s.BarExits[i]; exit.Reason != "" {
			x = *exit
		}
	}
	return x
}

func (m *Machine) renewAt(s *State) int64 {
	at := s.Grant.Sent.Mono + int64(m.Heartbeat)
	if m.Grid > 0 {
		at -= at % int64(m.Grid)
	}
	return at
}
