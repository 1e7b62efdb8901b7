package specification

import (
	"fmt"
	"strings"
)

// The bounds of a world that are the same for all: array sizes, so that a world
// is a value that can be compared and copied.
const (
	maxCandidates = 3
	maxEntries    = 7  // of the register's history that can still be read
	maxMessages   = 10 // writes that can still be applied or acknowledged
	maxClaims     = 12 // claims that anything in the world still names
)

// A content is what the register may hold.
type content uint8

const (
	nothing content = iota
	record
	vacancy
	marker  // a delete, purge or expiry without a body
	garbage // what no candidate wrote
)

func (c content) String() string {
	return [...]string{"nothing", "record", "vacancy", "marker", "garbage"}[c]
}

// An entry is one revision of the register. Claim represents the token, and
// belongs to records and vacancies; Owner belongs to records. The renewal
// number is left out: a record of the own claim at a revision beyond the own
// latest one can only be the write that waits for an answer.
type entry struct {
	Rev   int8
	What  content
	Owner int8
	Claim int8

	Settled bool // of a vacancy: by its writer, no earlier leader can lead
}

func (e entry) String() string {
	switch e.What {
	case record:
		return fmt.Sprintf("%d: record of %s, claim %d", e.Rev, name(e.Owner), e.Claim)
	case vacancy:
		return fmt.Sprintf("%d: vacancy after claim %d", e.Rev, e.Claim)
	default:
		return fmt.Sprintf("%d: %v", e.Rev, e.What)
	}
}

func name(i int8) string { return string(rune('X' + i)) }

// A write is a message to the register. It stays in the network for as long as
// it can have an effect: it may be applied at any time, or never, and its
// acknowledgement may arrive at any time after that, or never.
type write struct {
	Owner    int8
	Expected int8
	Content  entry // but for Rev
	Applied  int8  // revision at which it was applied, 0 if it was not
	Pending  bool  // an attempt of the write that its owner still waits for
	Age      int8  // units of the owner's clock since it left
	Cool     bool  // it left when its owner's cool-down was over
	Used     bool  // the slot is taken
}

// A stage is what a candidate is about.
type stage uint8

const (
	watching stage = iota
	claiming
	holding
	stopping
	releasing
)

func (s stage) String() string {
	return [...]string{"watching", "claiming", "holding", "stopping", "releasing"}[s]
}

// A candidate is what the protocol has one remember.
type candidate struct {
	Stage stage

	// The latest observation, and the units of the candidate's clock since it
	// arrived.
	Seen       entry
	SeenAge    int8
	HasSeen    bool // false after a start, before anything was heard
	HolderSeen bool // a holder's record was among what was heard

	// The own grant, from the claim on.
	Claim    int8
	Rev      int8 // of the own latest write that is known to have been applied
	Term     int8
	Left     int8 // units of trust that are left
	Lease    int8 // the same by the newest acknowledged write, however late that was heard of
	Deposed  bool
	SawOpen  bool // Seen arrived within the lease of the own newest write
	Promoted bool // OnPromote was called for this claim

	// The write that waits for an answer.
	Waiting bool
	First   int8 // units since its first attempt left
	Last    int8 // units since its latest attempt left, for a mutation
	Cooled  bool // the cool-down was over when that attempt left

	Settled bool // of the own grant: nobody who led before can lead
	Cool    int8 // units until a promotion is allowed
	Regress bool // a regress was seen, and its cool-down runs
	OwnLost bool // the own record is what was lost, and the window was open
	Work    bool // the term's work runs
}

// A ghost is what the judge knows of a candidate. No rule reads it.
type ghost struct {
	Right int8 // units for which the candidate may act by what it heard
}

// A world is one state. It has no pointers: equal states are equal values.
type world struct {
	Candidates [maxCandidates]candidate
	Ghosts     [maxCandidates]ghost
	History    [maxEntries]entry // oldest first, zero after the last
	Entries    int8
	Lost       [maxEntries]entry // rolled back, but still on its way to somebody
	LostCount  int8
	Writes     [maxMessages]write
	Claims     int8 // numbers of claims in use
	Gone       bool // the register reads as if nothing had been written: its record vanished
	Odd        bool // true time is odd: slow clocks advance now

	MaxTerm int8 // the largest term of a promotion

	Crashes, Operators, Rollbacks, Expiries, Repeats, Vacates, GivenUp, Overlooked int8
	Broken                                                                         broken
}

// stands returns the revision that a write has to expect.
func (w *world) stands() int8 {
	if w.Gone {
		return 0
	}
	return w.now().Rev
}

// now returns the latest write, which the register holds unless it is gone.
func (w *world) now() entry {
	if w.Entries == 0 {
		return entry{}
	}
	return w.History[w.Entries-1]
}

// Bounds are the world to explore.
type Bounds struct {
	Name       string
	Candidates int8

	// Times are whole units of a candidate's own clock. The fast clock advances
	// by one unit a tick of true time and the slow one by one unit every two
	// ticks, so d is 1/3 about a nominal rate of 3/4. With TTL the lease's
	// length in units, Trust is TTL × (1 − d) and Wait is TTL × (1 + d) = 2 ×
	// Trust. Both last as many ticks, Trust by the slow clock and Wait by the
	// fast one, so one unit less of either margin lets two candidates act.
	Trust, Wait int8

	Slow [maxCandidates]bool // whose clocks are slow

	// How often each fault may happen.
	Crashes, Operators, Rollbacks, Expiries, Repeats, Vacates, GivenUp int8

	Graceful bool // holders leave of their own will
	Grace    bool // every claim cools down (AcquireGrace)
	Exact    bool // no detail of the past is dropped as without effect
	Once     bool // no write is applied again after a rollback, by a request that came twice
	Told     bool // who does not act hears of a rollback at once, and of nothing lost
	Revs     int8 // the register takes no more revisions; 0 means no bound
	Lag      int8 // how many of the latest entries can still be read
	MaxWorld int  // stop there; 0 means never

	start func(*model, *world) // leads to the first world, where that is not the empty one
}

// Rules are the safeguards of the protocol. The zero value has all of them;
// each field takes one away.
type Rules struct {
	TrustLonger          int8 // rule 1: units added to the window
	WaitShorter          int8 // rule 5: units taken from the wait at a record
	MarkerWaitShorter    int8 // rule 7: the same at a marker or garbage
	TrustFromReply       bool // rule 1
	LateAnswersCount     bool // rule 3
	ReadBackFromLatest   bool // rule 4
	WaitFromFirstEntry   bool // rule 5: a renewal does not start the wait again
	ReleaseBeforeStopped bool // rule 9
	MarkerKeepsWait      bool // rule 7: the remainder of the running wait will do
	MarkerIsVacancy      bool // rule 7
	GarbageIsVacancy     bool // rule 7
	ClearAnyMarker       bool // rule 8 without its condition
	WayBackFromRelease   bool // rule 10: after a release
	BlindClaims          bool // A1: claims expect nothing
	OldTermKept          bool // rule 11
	NoGrace              bool // AcquireGrace is ignored
	GraceByOldRenewal    bool // a renewal that left during the cool-down promotes
	RegressIgnored       bool // rule 12
	AnyVacancySettles    bool // a vacancy of any writer spares the cool-down
	NothingSettles       bool // so does an empty register
}

// A label describes a step in words.
type label struct {
	who  int8 // the candidate, or -1
	text string
	what entry
}

func (l label) String() string {
	s := l.text
	if l.who >= 0 {
		s = name(l.who) + " " + s
	}
	if l.what != (entry{}) {
		s += " " + l.what.String()
	}
	return s
}

// A broken is a set of guarantees that a step did not keep.
type broken uint8

const (
	brokeG1     broken = 1 << iota // two candidates act
	brokeG2                        // a term did not grow
	brokeG4                        // a release before the work stopped
	brokeWindow                    // acts beyond what it heard
)

func (b broken) String() string {
	var names []string
	for i, n := range [...]string{"G1", "G2", "G4", "window"} {
		if b&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, " ")
}
