//go:build unix

package harness

import (
	"time"

	"golang.org/x/sys/unix"
)

// Processor is the processor time that this process has used, in user mode and
// in the kernel.
func Processor() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // it fails for unknown processes only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
