// Package leader elects one of several copies of a program to act, over a NATS
// JetStream key-value bucket or another compare-and-swap store.
//
// [Run] campaigns, calls a function for each term that it wins, and campaigns
// again. An [Election], made by [NewElection] or [NewElectionWithStore], is the
// long way; a [RoleManager] runs many of them, and an [Observer] only watches.
//
// # What is guaranteed
//
// At most one leader acts while clock rates stay within the drift
// ([ElectionConfig].ClockDrift) and the store keeps its acknowledgements;
// beyond that, fenced resources stay correct. In detail:
//
//   - No two candidates of a group answer IsLeader() == true at one instant,
//     nor do the contexts of two terms live. Wall clocks are never compared
//     between machines.
//   - The number of a [Term] exceeds the numbers of all earlier terms of the
//     group, across release, expiry, deletion and restart.
//   - OnPromote and OnDemote alternate, never overlap, and are never called for
//     a term that is over. The term's context, with all derived from it, is
//     cancelled by the end of the trust window, even if the election is stuck.
//   - Another is let in only when the context is cancelled and OnDemote has
//     returned (or DemoteTimeout has passed).
//   - After any fault that ends, a live candidate campaigns again within 2 ×
//     TTL, without a restart. If it never can again, its election ends, and
//     reports that ([Election].Done).
//   - A write whose acknowledgement was lost is resolved. No malformed record
//     crashes a candidate.
//
// docs/reference/protocol.md has the argument, the tests, and the cases in which this
// does not hold.
//
// # What is left to the caller
//
// An election cannot undo an act. The program may be paused between IsLeader
// and the act that follows; a request that left before the demotion arrives
// after it. Where that matters, have the protected resource refuse a term that
// does not supersede all it has seen ([Term.Supersedes]). OnPromote must return
// soon after its context ended: nothing else stops its work.
//
// Records of other programs do not contain the length of their leases: set
// [ElectionConfig].ForeignTTL.
//
// # The trust window
//
// A leader trusts its lease until sent + TTL × (1 − ClockDrift), where sent is
// the instant before the last acknowledged renewal left: a slow answer does not
// extend it. The others leave the lease alone until TTL × (1 + ClockDrift)
// after they received that renewal. Every call compares the window with the
// monotonic and with the wall clock; once closed, it never opens again.
//
// # Suspension
//
// When a suspended machine runs again, IsLeader, Token, Term, and Err of the
// contexts of a term and of an operation (Do) are right at the first call,
// unless the wall clock was set back meanwhile. Those contexts and all that are
// derived from them are cancelled at once on Linux, within 250 ms elsewhere. A
// hypervisor that pauses a guest stops all of its clocks: that is not a
// suspension.
//
// # Handing over
//
// A leader that leaves by itself (Stop, Resign, a panic, bad health) writes a
// vacancy, of which all candidates hear. Priority and VersionPolicy determine
// which candidate goes first. A [Control] steps leaders down, transfers
// leadership and pauses groups, from a program that takes no part.
//
// # States
//
//	INIT ──Start──▶ CANDIDATE ◀──────────────▶ FOLLOWER
//	                    │  no leader │ another holds the record
//	              claim │ acknowledged
//	                    ▼
//	                 LEADER ──loss, resignation, stop──▶ DEMOTED ──▶ CANDIDATE, FOLLOWER
//
//	STOPPED follows every state after Stop, or when the context of Start ends.
//
// In DEMOTED the work is stopped, then the record released. Each transition has
// a [Reason], the same word in logs, hooks and records.
//
// # Failures
//
// An election waits for a store that cannot be reached. A leader that cannot
// renew is demoted when its window closes, or earlier by DisconnectGracePeriod.
// Start returns problems that a person has to solve (a missing bucket, a
// permission); if they appear later, they are logged with the remedy and
// retried. A connection that is permanently closed ends what runs on it
// ([ErrConnectionClosed]): connect with nats.MaxReconnects(-1) and
// nats.IgnoreAuthErrorAbort.
//
// No panic ends the program; Go's fatal errors do. A panic in a callback, a
// health check, a hook or a store is reported; in OnPromote it ends the term,
// and in a store the outcome is unknown. A panic in this library ends the
// election ([ErrPanicked]).
//
// Package leadertest is for tests of programs that use this one.
package leader

// The files, in the order in which to read them:
//
//	run.go       a function that leads, in one call
//	election.go  the interface Election, and how one is made
//	config.go    the settings, their defaults and rules
//	profile.go   settings that go together
//	nats.go      all that takes a connection to NATS
//	status.go    terms, who leads, and the state of a candidate
//	reason.go    the words for why
//	errors.go    the errors, and the validator of settings
//	hooks.go     events for metrics and traces
//	roles.go     many elections in one program
//	observe.go   who leads, for a program that takes no part
//	control.go   what such a program may ask of a leader
//	drain.go     what it may ask of an instance
//	handover.go  how it follows what comes of that
//	vacate.go    how it ends a record that nobody can release
//	format.go    how values are printed, without tokens
