//go:build unix

package demo

import (
	"errors"
	"os"
	"syscall"
)

// canFreeze: a process can be stopped and continued here.
const canFreeze = true

// freeze stops a worker, and returns when it has stopped.
func freeze(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if !awaitStopped(p.Pid) {
		return errRuns
	}
	return nil
}

// errRuns: the worker was sent a stop, and was not seen to stop.
var errRuns = errors.New("the process was not seen to stop")

// thaw continues a frozen worker.
func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
