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
// to handle. It also has no worker outlive a demo that was killed. If the
// worker is frozen, the system sends SIGHUP and SIGCONT to its stopped process
// group, which has lost its parent (POSIX, _exit). One that runs finds its
// standard input closed.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// freeze stops a worker, and returns when it stands still. If the demo died
// before that, the worker would get neither signal, and stop for ever.
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

// thaw continues a frozen worker.
func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
