package process

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// nobody is a user who may not signal the processes of others.
const nobody = 65534

// A process that may not be signalled lives. Taken for one that has ended, it
// would run on while another host starts the program.
func TestAProcessThatMayNotBeSignalledIsNotTakenForGone(t *testing.T) {
	first, ok := readStat("/proc/1/stat")
	if !ok || os.Getuid() != 0 && realUser(first.pid) == os.Getuid() {
		t.Skip("SKIPPED: there is no process of another user to be seen here")
	}
	rounds := make(chan Round, 1)
	go func() {
		defer close(rounds)
		// The thread ends with the goroutine, and no other one loses its
		// rights.
		runtime.LockOSThread()
		if os.Getuid() == 0 {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
				t.Errorf("setresuid: %v", errno)
				return
			}
		}
		var r Round
		r.signal(first, 0)
		rounds <- r
	}()
	if r := <-rounds; len(r.Denied) != 1 || r.Denied[0].PID != first.pid {
		t.Errorf("denied: %v, want process %d", r.Denied, first.pid)
	}
}
