package ballot

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/seed-ff2cb582/leader/store"
)

// MaxMembers is the largest number of members in a group.
const MaxMembers = 5

// MaxChain is the largest number of ancestors that a value carries.
const MaxChain = 4

// Leap is by how many counters a healing ballot exceeds all that it replaces.
const Leap = 1 << 32

// A Ballot orders the attempts to write. The zero value is below every other.
type Ballot struct{ Counter, Random uint64 }

// Less reports whether b is below c.
func (b Ballot) Less(c Ballot) bool {
	return b.Counter < c.Counter || b.Counter == c.Counter && b.Random < c.Random
}

// String returns both numbers, as an envelope contains them.
func (b Ballot) String() string { return fmt.Sprintf("%d.%016x", b.Counter, b.Random) }

// An ID identifies the call that wrote a value. The zero value belongs to what
// no call wrote: "nothing" and a bare deletion.
type ID [16]byte

// Short is the first half of an ID, which identifies a call among the few that
// wrote the versions of one chain.
type Short uint64

// Short returns the first half of id.
func (id ID) Short() Short { return Short(binary.BigEndian.Uint64(id[:])) }

// A Value is one state of the composite register. The zero value is "nothing":
// the key was never written.
type Value struct {
	ID        ID
	Version   uint64
	Data      string
	Tombstone bool
	// Ancestors identify the versions before this one, the nearest first:
	// Ancestors[0] wrote Version-1. The chain ends at the first zero, before
	// which no version or no call is known.
	Ancestors [MaxChain]Short
}

// wrote returns the call that wrote the version, if v or its chain contains it.
func (v *Value) wrote(version uint64) (call Short, ok bool) {
	switch back := v.Version - version; {
	case version > v.Version:
	case back == 0:
		call = v.ID.Short()
	case back <= MaxChain:
		call = v.Ancestors[back-1]
	}
	return call, call != 0
}

// An Acceptor is the content of a member's register.
type Acceptor struct {
	// Set identifies the group's members. It is 0 in a register that is empty
	// or that another tool wrote.
	Set uint64
	// Promised is the ballot below which the member accepts nothing.
	Promised Ballot
	// Ballot is the ballot at which Value was accepted. It is zero in a member
	// without memory.
	Ballot Ballot
	// Founding marks a value that gives the members memory and that no call
	// has been acknowledged for.
	Founding bool
	// Marked, in a member without memory, reports that its register contained
	// something that was not a promise.
	Marked bool
	Value
}

// Accepted reports whether the member accepted a value.
func (a *Acceptor) Accepted() bool { return a.Ballot != Ballot{} }

// A Mask is a set of members by their numbers.
type Mask uint8

// Has reports whether m contains member i.
func (m Mask) Has(i int) bool { return m&(1<<i) != 0 }

// Count returns the number of members in m.
func (m Mask) Count() int { return bits.OnesCount8(uint8(m)) }

// A Group is what all views of one composite store have in common.
type Group struct {
	Set     uint64 // not 0
	Members int    // odd, from 3 to MaxMembers
	Leap    uint64 // the constant Leap; smaller in tests
	Chain   int    // the constant MaxChain; smaller in tests

	quorum, all int // the votes that choose a value; that found a key
}

// NewGroup returns a group of so many members. set identifies them; it is not 0.
func NewGroup(set uint64, members int) *Group {
	return &Group{Set: set, Members: members, Leap: Leap, Chain: MaxChain, quorum: members/2 + 1, all: members}
}

// A View is what a process knows of a key. The zero value knows nothing.
type View struct {
	Members [MaxMembers]Member
	// Shown is the newest value that was seen to be chosen.
	Shown Value
	// Counter is the largest counter of a ballot seen or drawn, and Newest the
	// largest version.
	Counter, Newest uint64
	// Lead is a ballot that a majority promised to this process when it chose
	// Led. It is zero if there is none.
	Lead Ballot
	Led  Value
	Call Call
}

// A Member is what a process knows of a member's register.
type Member struct {
	// Acceptor is what the register last showed, at revision Rev.
	Acceptor
	Rev uint64
	// Fresh reports whether a write may expect Rev.
	Fresh bool
	// Suspect reports that a lower revision is no stale read: a write that
	// expected Rev was refused, or another read showed one before.
	Suspect bool
	// Known reports that the register was seen, however long ago.
	Known bool
	// Most holds the largest ballots that the register ever showed.
	Most struct{ Promised, Ballot Ballot }

	// Doing is the request under way, and Sent what it writes.
	Doing Doing
	Sent  Acceptor
}

// remembers reports whether the member has memory: it accepted a value, and
// shows no less than it once did.
func (m *Member) remembers() bool {
	return m.Accepted() && !m.Promised.Less(m.Most.Promised) && !m.Ballot.Less(m.Most.Ballot)
}

// A Doing is a kind of request to a member.
type Doing uint8

// The kinds of requests.
const (
	Idle Doing = iota
	Looking
	Promising
	Accepting
	Healing
)

// A Stage is how far a call has come.
type Stage uint8

// The stages; the package documentation draws them.
const (
	Ended Stage = iota
	Surveying
	Preparing
	Founding
	Proposing
	Waiting
)

// A Call is the progress of one call of CompareAndSwap. It is zero when the
// call has ended.
type Call struct {
	Stage    Stage
	Expected uint64
	Own      Value // its version is 0 until it was proposed; the chain is its last proposal's
	// Loose is the number of acceptances of Own that were sent and not refused.
	Loose uint32

	// The rest belongs to one attempt.
	Ballot   Ballot
	Next     Ballot // is promised by what accepts Proposal
	Heal     Mask   // had no memory when Ballot was drawn, and did not move since
	Reports  Mask   // promised Ballot
	Remember Mask   // and had memory
	Votes    Mask   // accepted Proposal
	Failed   Mask   // did not answer, or refused
	Denied   Mask   // refused permanently
	Highest  Acceptor
	Ceiling  uint64 // the largest counter among the reports
	Remains  bool   // a report contained something that was not a promise
	Proposal Value
}

// settled returns how the call ends if v is chosen, and false if v leaves that
// open. A version has one ID, so the call's value was applied if its ID wrote
// the version that it was proposed with, and never will be if another did, or
// wrote one between the expected version and that.
func (c *Call) settled(v *Value) (store.Outcome, bool) {
	if v.Version <= c.Expected {
		return store.Unknown, false
	}
	if call, ok := v.wrote(c.Own.Version); ok && call == c.Own.ID.Short() {
		return store.OK, true
	} else if ok || c.Loose == 0 || v.Version < c.Own.Version {
		return store.Conflict, true
	}
	return store.Unknown, false
}

// Show returns the newest value of which a majority was seen with the same
// ballot. Such a value is chosen; the same value at two ballots need not be.
func (g *Group) Show(seen []Acceptor) (v Value, ok bool) {
	for i := range seen {
		a, n := &seen[i], 0
		for k := range seen {
			if seen[k].Ballot == a.Ballot && seen[k].Founding == a.Founding {
				n++
			}
		}
		if n >= g.quorum && a.Accepted() && !a.Founding && (!ok || v.Version < a.Version) {
			v, ok = a.Value, true
		}
	}
	return v, ok
}
