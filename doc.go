// Package leader elects one of several copies of a program to act, over a NATS
// JetStream key-value bucket or another compare-and-swap store.
//
// The short way is [Run]: it campaigns, calls a function for each term that it
// wins, and campaigns again. The long way is an [Election], made by
// [NewElection] or [NewElectionWithStore].
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
//   - The number of a [Term] is larger than that of every earlier term of the
//     group, across release, expiry, deletion and restart.
//   - OnPromote and OnDemote alternate, never overlap, and are never called for
//     a term that is already over. The term's context, and every context
//     derived from it, is cancelled by the end of the trust window, even if the
//     election's own goroutine is stuck.
//   - Work stops before the release: the context is cancelled, OnDemote has
//     returned (or DemoteTimeout has passed), and only then is another let in.
//   - After any fault that ends, a live candidate stands again within 2 × TTL,
//     without a restart. An election that cannot ends and says so
//     ([Election].Done).
//   - A write whose acknowledgement was lost is resolved. No record, however
//     malformed, crashes a candidate.
//
// docs/protocol.md has the argument, the tests, and the cases in which this
// does not hold.
//
// # What is left to the caller
//
// No election can stop what was begun. Between an answer of IsLeader and the
// act that follows, the program may be paused for any length; a request that
// left before the demotion arrives after it. Where that matters, have the
// protected resource refuse a term that does not supersede all it has seen
// ([Term.Supersedes]). OnPromote must return soon after its context ended: work
// that does not stop is not stopped.
//
// A record that another program wrote does not say how long its lease runs: see
// [ElectionConfig].ForeignTTL.
//
// # The trust window
//
// A leader trusts its lease until sent + TTL × (1 − ClockDrift), where sent is
// the instant before the last acknowledged renewal left: a slow answer does not
// extend it. The others leave the lease alone for TTL × (1 + ClockDrift) from
// the instant at which they received that renewal. Every call compares the
// window with the monotonic and with the wall clock; once closed, it never
// opens again.
//
// # Suspension
//
// The lease of a suspended machine runs out. When the machine runs again,
// IsLeader, Token, Term, and Err of the term's own context are right at the
// first call, unless the wall clock was set back meanwhile. That context and
// those derived from it are cancelled at once on Linux, within 250 ms
// elsewhere. A hypervisor that pauses a guest stops all of its clocks: that is
// no suspension.
//
// # Handing over
//
// A leader that leaves by itself (Stop, Resign, a panic, bad health) offers its
// record to one follower, or writes a vacancy, of which all hear. Priority and
// VersionPolicy say which candidate goes first. A [Control] steps leaders down,
// transfers leadership and pauses groups, from a program that takes no part.
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
// In DEMOTED the work is being stopped and the record released. Every
// transition has a [Reason], the same word in logs, hooks and records.
//
// # Failures
//
// A store that cannot be reached is awaited. A leader that cannot renew is
// demoted when its window closes, or earlier by DisconnectGracePeriod. What a
// person has to mend (a missing bucket, a permission) is returned by Start, or
// logged and retried if it shows up later, with the remedy. A connection that
// is closed for good ends what runs on it ([ErrConnectionClosed]): connect with
// nats.MaxReconnects(-1) and nats.IgnoreAuthErrorAbort.
//
// No panic ends the program. One in a callback, a health check, a hook or a
// store is reported; in OnPromote it ends the term, and in a store the outcome
// is unknown. One in this library ends the election ([ErrPanicked]). Nobody can
// catch what Go calls a fatal error, such as concurrent writes to a map.
//
// For tests of programs that use this package there is package leadertest.
package leader
