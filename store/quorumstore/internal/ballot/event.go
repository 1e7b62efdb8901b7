package ballot

import "github.com/seed-ff2cb582/leader/store"

// An EventKind names what happened.
type EventKind uint8

// The kinds of events, with the fields of Event that each uses.
const (
	// Begin begins a call: Expected, Own. No other may be under way.
	Begin EventKind = iota
	// Retry ends the delay that Wait asked for.
	Retry
	// Cancel ends the call: its context is done.
	Cancel
	// Looked answers Look: Member, Outcome, and Rev and Seen if OK.
	Looked
	// Wrote answers Write: Member, Outcome, and Rev if OK.
	Wrote
	// Seen: a watch or a read that nobody asked for delivered Rev and Seen of
	// Member. It is ignored while a request to the member is under way.
	Seen
	// Chosen: a read saw that a majority of the members contain Seen.Value at
	// the same ballot.
	Chosen
)

// An Event is something that happened to a process.
type Event struct {
	Kind    EventKind
	Member  int
	Outcome store.Outcome
	Rev     uint64
	Seen    Acceptor

	Expected uint64
	Own      Value // without a version

	// Random and Clock come with every event. Random is a random number, used
	// if a ballot is drawn, and Clock the time in microseconds, used if a
	// version begins.
	Random, Clock uint64
}

// An ActionKind names what is to be done.
type ActionKind uint8

// The kinds of actions, with the fields of Action that each uses.
const (
	// Look: read the register of Member and answer with Looked.
	Look ActionKind = iota
	// Write: compare-and-swap the register of Member from Expected to Content,
	// and answer with Wrote.
	Write
	// Wait: send Retry after a delay, which grows with each of a call.
	Wait
	// Done: the call ended with Outcome, and with Version if OK.
	Done
)

// An Action is something to be done in the world, in the order given.
type Action struct {
	Kind     ActionKind
	Member   int
	Expected uint64
	Content  Acceptor
	Outcome  store.Outcome
	Version  uint64
}
