// Package runner is leader run: a program that runs only while this host leads.
//
// # Who watches whom
//
// Two processes look after the program, so that either may die or be stopped:
//
//	leader run      the candidate: renews the lease, and tells the guard how long it may be trusted
//	  └ guard       starts the program; ends it, and all that descends from it, by the deadline that it was told last
//	      └ program in a process group of its own
//
// The guard needs no word to act: silence is enough. If the candidate is frozen, cut off or killed, no further deadline
// comes, and the program ends by the last one. If the guard dies, the system kills the program (PR_SET_PDEATHSIG), and what
// the program had started falls to the candidate, which kills it; a guard that is stopped past the deadline is
// killed by the candidate together with all below it.
//
// # Time
//
//	renewal sent                        SIGTERM if silent           SIGKILL    window closes   others may lead
//	───┼─────────────────────────────────────┼─────── stop-timeout ────┼── margin ──┼───────────────┼──▶
//
// The trust window is that of package leader: TTL × (1 − drift) from when the last acknowledged renewal left. Its end
// travels as a reading of the clock that all processes of the host share and that runs on while the host is
// suspended (CLOCK_BOOTTIME on Linux). Every renewal moves the three instants. A program that is being stopped since
// its host fell silent is not saved by a renewal that comes late: it has its SIGTERM, and the term is handed back when it has ended.
//
// # Descendants
//
// On Linux candidate and guard are subreapers (PR_SET_CHILD_SUBREAPER): whatever the program starts, in sessions of
// its own or orphaned on purpose, stays below the guard, which finds it through /proc. The guard has done its work when it has no
// child left, and before that nothing is released.
package runner
