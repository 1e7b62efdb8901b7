// Package ballot keeps one register in several independent ones, as a pure
// function: which writes are to be sent to which member, and how a call ends.
//
//	view, actions := group.Step(view, event)
//
// It is CASPaxos. The acceptors are the members' own registers, which only
// compare-and-swap moves. There is no I/O, clock, goroutine or randomness in
// it: random numbers and the time come in with the events, and calls to the
// members come out as actions. A View is comparable, so that the explorer in
// this package's tests can recognize the worlds that it visited.
// docs/reference/quorum-protocol.md contains the rules and the argument.
//
// A View is what one process knows of one key, and the progress of its call, of
// which it makes one at a time:
//
//	           enough known      reports          votes
//	Surveying ─────────────▶ Preparing ─────▶ Proposing ─────▶ ended
//	    ▲                        │  too few       ▲
//	    │ Retry                  ▼ remember       │ votes of all
//	 Waiting ◀── outvoted ──  Founding ───────────┘
//
// A process that holds the lead begins with Proposing.
package ballot
