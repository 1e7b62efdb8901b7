//go:build unix

package lab

import "syscall"

// Terminate asks the process to end, and checks that it does so in peace.
func (p *Process) Terminate() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.await()
	if !p.cmd.ProcessState.Success() {
		p.t.Errorf("%s: %v, and printed\n%s", p.id, p.cmd.ProcessState, p.stderr.String())
	}
}

// TerminateAll terminates all that still run.
func (c *Crew) TerminateAll() {
	c.t.Helper()
	for _, p := range c.procs {
		if p.runs() {
			p.Terminate()
		}
	}
}

func (p *Process) runs() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Freeze stops the process where it is.
func (p *Process) Freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
}

// Thaw lets a frozen process go on.
func (p *Process) Thaw() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
}

func (p *Process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}
