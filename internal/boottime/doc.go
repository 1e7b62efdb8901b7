// Package boottime has timers that a suspension of the machine does not hold
// up.
//
// Go's timers run on the monotonic clock, which on Linux and macOS stops while
// the machine is suspended: a lease runs out meanwhile, and a timer that was
// set to its end fires that much too late. A [Timer] of this package fires
//
//   - on Linux, by a timerfd on CLOCK_BOOTTIME: as soon as the machine runs
//     again, whatever became of the wall clock;
//   - elsewhere, and where the kernel refuses a timerfd, within [Tick] after
//     the machine runs again: an ordinary ticker compares the clock of [Now].
//     That is the wall clock on every system but Linux.
//
// All timers of a process share one descriptor and one goroutine, which are
// there while a timer is set: the goroutine ends right after the last timer has
// fired or was stopped.
//
// Under testing/synctest time is virtual, no machine is suspended, and a
// goroutine that is shared by the process must be no bubble's. There [New]
// returns nil, and an ordinary timer has to do.
package boottime
