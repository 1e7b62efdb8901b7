package demo

import (
	"os/exec"
	"runtime"
	"syscall"
)

// detach keeps the terminal's signals from a worker: the demo handles an
// interrupt. It also has no worker outlive a demo that was killed: each finds
// its standard input closed, and leaves. A frozen one is continued for that
// (PR_SET_PDEATHSIG), also where it has not stopped yet. The system continues a
// group that has lost its parent by itself (POSIX, _exit), but only a stopped
// group, and not where the new parent belongs to the same session, as process 1
// of a container may, and any subreaper.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGCONT}
}

// pinned keeps the goroutine on one thread until unpin is called, since
// PR_SET_PDEATHSIG goes by the thread that started a process. Otherwise a
// thread's end would continue a worker that is meant to stay stopped.
func pinned() (unpin func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
