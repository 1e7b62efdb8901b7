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
//   - At no instant do two candidates of a group both answer IsLeader() ==
//     true, nor do the contexts of two terms live. Wall clocks are never
//     compared between machines.
//   - The number of a [Term] is larger than that of every earlier term of the
//     group, across release, expiry, deletion and restart.
//   - OnPromote and OnDemote alternate, never overlap, and are never called for
//     a term that is already over. The context given to OnPromote, and every
//     context derived from it, is cancelled at the latest when the trust window
//     closes, even if the election's own goroutine is stuck.
//   - Work stops before the release: the context is cancelled, OnDemote has
//     returned (or DemoteTimeout has passed), and only then another candidate
//     is let in.
//   - After any fault that ends, a live candidate stands again within 2 × TTL,
//     without a restart. An election that cannot ends and says so
//     ([Election].Done).
//   - A write whose acknowledgement was lost is resolved. No record, however
//     malformed, crashes a candidate.
//
// The argument for this, the tests behind each part of it, and the cases in
// which it does not hold are in docs/protocol.md.
//
// # What is left to the caller
//
// No election can stop what was begun. Between an answer of IsLeader and the
// act that follows, the program may be paused for any length; a request that
// left before the demotion arrives after it. Where that matters, give the term
// to the protected resource, and let it refuse a term that does not supersede
// all it has seen ([Term.Supersedes]). OnPromote must return soon after its
// context ended: work that does not stop is not stopped.
//
// What another program wrote over a record does not say how long a lease runs:
// see [ElectionConfig].ForeignTTL.
//
// # The trust window
//
// A leader trusts its lease until sent + TTL × (1 − ClockDrift), where sent is
// the instant before the last acknowledged renewal left: a slow answer does not
// extend it. The others leave the lease alone for TTL × (1 + ClockDrift) from
// the instant at which they received that renewal. IsLeader, Token, Term and
// the term's context compare the window at every call, on the monotonic and on
// the wall clock, the earlier verdict winning. Once closed, a term's window
// never opens again.
//
// # Suspension
//
// While a machine is suspended, the lease runs out. When it runs again,
// IsLeader, Token, Term, and Err of the term's own context are right at the
// first call, unless the wall clock was set back meanwhile. The term's context
// is cancelled, and what is derived from it: on Linux as soon as the machine
// runs again, elsewhere within 250 ms. A hypervisor that pauses a guest is no
// suspension: it stops all of the guest's clocks.
//
// # Handing over
//
// A leader that leaves by itself (Stop, Resign, a panic, bad health) offers its
// record to one of the followers, or else writes a vacancy, of which all hear.
//
// # Preference
//
// Candidates are alike unless they differ by Priority or, with a VersionPolicy,
// by Version. The preferred candidate goes first at a vacancy and when a lease
// has run out; each of the others waits up to 50 ms for every candidate that is
// preferred to it. With AllowPriorityTakeover one that is preferred asks the
// leader, which it never forces, to hand over after MinTenure. It needs the
// right to write the group's control record (key _ctl.<group>).
//
// # Control
//
// An operator's program steps a leader down, hands leadership over and pauses a
// group by a [Control], an election's own program by Resign, Transfer and
// Pause. [LeaderInfo] tells who asked, and why.
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
// In DEMOTED the term is over, its work is being stopped and its record
// released. Every transition has a [Reason], the same word in logs, hooks and
// records.
//
// # Failures
//
// A store that cannot be reached is awaited, as [RetryConfig] says. A leader
// that cannot renew is demoted when its window closes, or earlier by
// DisconnectGracePeriod. What a person has to mend (a missing bucket, a
// permission) is returned by Start with the remedy, and logged and retried if
// it shows up later.
//
// A connection that is closed for good ends what runs on it
// ([ErrConnectionClosed]). nats.go closes one by itself after two minutes
// without a server, and when its credentials are refused twice: connect with
// nats.MaxReconnects(-1) and nats.IgnoreAuthErrorAbort.
//
// No panic ends the program. One in a callback, a health check, a hook or a
// store is reported; in OnPromote it ends the term, and a store's call counts
// as one of unknown outcome. One in this library ends the election: its window
// closes at once, its work stops, its record is left to expire, and
// [Election].Done and Err tell ([ErrPanicked]). What Go calls a fatal error
// (concurrent writes to a map, no memory left) nobody can catch.
//
// # Testing
//
// Package leadertest has elections for the tests of programs that use this one:
// a test promotes them, demotes them, cuts them off and lets them expire.
package leader
