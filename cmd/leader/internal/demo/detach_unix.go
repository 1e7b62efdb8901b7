//go:build unix && !linux

package demo

import (
	"os/exec"
	"syscall"
)

// detach keeps the terminal's signals from a worker: the demo handles an
// interrupt. It also has no worker outlive a demo that was killed. If the
// worker is frozen, the system sends SIGHUP and SIGCONT to its stopped process
// group, which has lost its parent (POSIX, _exit). A running worker finds its
// standard input closed.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// pinned has nothing to keep here.
func pinned() (unpin func()) { return func() {} }
