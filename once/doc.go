// Package once starts a piece of work once per period on one of several hosts,
// by the same rule as the command leader run --once: a Go program and hosts of
// the command may share a group, and start one run of a period between them.
//
// [Run] campaigns, notes the run in the store as soon as it leads, and calls a
// function. The other hosts return when they find the note. A [Register] is the
// rule itself, for programs that run their own elections.
//
// # What is guaranteed
//
// The work of a period is started at most once, on hosts whose clocks are apart
// by less than the period:
//
//   - A run is noted by compare-and-swap before it starts. If the acknowledgement
//     is lost, the note is read again until its outcome is known.
//   - A note is never removed. A host that crashes between its note and the end
//     of its work does not cause a second run: the next one is the run of the
//     next period.
//   - If the lease is lost while the work runs, the context of the work ends. The
//     work is not started again in this period, on any host.
//   - A slow clock cannot cause a second run, since a run of a later period
//     counts, too. A host whose clock is so far ahead that its period begins more
//     than a period after the server's present time notes nothing
//     ([ErrClockAhead]), and a note that is so far ahead of when the server
//     stored it does not count. Both need a store that reports when it stored an
//     entry; NATS does.
//
// The work may overlap with the run of an earlier period only after a lease was
// lost, as with every term: see Term.Supersedes in package leader.
//
// # Rights
//
// A run is noted at the keys _ctl._ran.GROUP and _ctl.GROUP, the second for
// hosts of earlier versions. docs/operate/permissions.md has the rights that
// this needs, and leader doctor --role scheduler tries them.
package once
