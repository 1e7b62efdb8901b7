// Package runner is leader run: a program that runs only while this host leads.
//
// # Processes and their supervisors
//
// Two processes look after the program, so that either may die or be stopped:
//
//	leader run      the candidate: renews the lease, and sends the guard deadlines
//	  └ guard       starts the program; ends it, with all that descends from it,
//	                by the last deadline that it received
//	      └ program in its own process group
//
// The guard needs no word to act: silence is enough. If the candidate is
// frozen, cut off or killed, no further deadline comes, and the program ends by
// the last one. If the guard dies, the system kills the program
// (PR_SET_PDEATHSIG). The candidate becomes the parent of what the program had
// started, and kills it. It also kills a guard that is stopped past the
// deadline, with all below it.
//
// # Time
//
//	renewal sent                        SIGTERM if silent           SIGKILL    window closes   others may lead
//	───┼─────────────────────────────────────┼─────── stop-timeout ────┼── margin ──┼───────────────┼──▶
//
// The trust window is package leader's: TTL × (1 − drift) from when the last
// acknowledged renewal left. Its end travels as a reading of the clock that all
// processes of the host share and that runs on while the host is suspended
// (CLOCK_BOOTTIME on Linux). Every renewal moves the three instants. A late
// renewal does not save a program that is being stopped: it has had its
// SIGTERM. The term is released when the program has ended.
//
// # Descendants
//
// On Linux candidate and guard are subreapers (PR_SET_CHILD_SUBREAPER):
// whatever the program starts, in other sessions or orphaned on purpose, stays
// below the guard, which finds it through /proc. The guard has done its work
// when it has no child left, and before that nothing is released. A process
// that forks and exits again and again may outrun the rounds of SIGKILL, each
// of which reads /proc before it kills: only a cgroup surely ends it.
//
// # Processes that may not be signalled
//
// A descendant that changes its credentials (sudo, a file that is setuid) is
// out of reach of processes without CAP_KILL: kill(2) fails with EPERM. It may
// also escape the death signal, which the system clears when credentials
// change. The remedies:
//
//   - A program whose file shows it is refused (process.BecomesAnother), and a
//     guard that lacks the right looks for such descendants while the term
//     lasts (look).
//   - A separate cgroup (version 2) takes in each run where one can be made.
//     Writing to its cgroup.kill needs no right over its processes. A process
//     that has become root can leave it, so descendants are still looked for.
//   - A process that neither reaches is named to the user. SIGKILL is tried
//     again with a backoff that doubles up to a second (process.Retry).
//     OnPromote does not return before it has ended, and DemoteTimeout has no
//     end: nothing is released, the candidate does not campaign, and a term
//     that ended by anybody's will goes on being renewed.
//
// A lease is lost all the same when its host cannot renew it. Then another host
// may run the program beside what lives here; the user is warned, and only a
// check of the term's number by what both write to makes that harmless.
package runner
