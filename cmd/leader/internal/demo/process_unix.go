//go:build unix

package demo

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// canFreeze: a process can be stopped and continued here.
const canFreeze = true

// detach keeps the terminal's signals from a worker: an interrupt is the demo's
// to handle. It also sees to it that no worker outlives a demo that was killed,
// not even a frozen one: the system sends SIGHUP and SIGCONT to a stopped
// process group that has lost its parent (POSIX, _exit), and one that runs
// finds its standard input closed.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// freeze stops a worker, and returns when it stands still: one that is still to
// stop when the demo dies would get neither signal, and stop for ever.
func freeze(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if !awaitStopped(p.Pid) {
		return errRuns
	}
	return nil
}

// errRuns: the worker was told to stop, and was not seen to.
var errRuns = errors.New("the process was not seen to stop")

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
