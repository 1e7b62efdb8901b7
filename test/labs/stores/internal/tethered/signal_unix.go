//go:build unix

package tethered

import (
	"os"
	"syscall"
)

// The signals that freeze a process and let it go on.
var (
	freeze os.Signal = syscall.SIGSTOP
	thaw   os.Signal = syscall.SIGCONT
)
