//go:build unix

package campaign

import (
	"os"
	"syscall"
)

// toggleSignal is what turns a healthy candidate into an unhealthy one, and
// back.
func toggleSignal() os.Signal { return syscall.SIGUSR1 }
