//go:build unix && !linux

package process

import (
	"errors"
	"os"
	"syscall"
)

// Adopt does nothing: there are no subreapers here, and what leaves the process
// group is out of reach.
func Adopt() error { return nil }

// ChildAttr makes a process lead a new group.
func ChildAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// MaySignalAll reports whether this process may signal the processes of all
// users.
func MaySignalAll() bool { return os.Geteuid() == 0 }

// Executable is the file of this program. Here an update between two runs does
// start a guard of the new version.
func Executable() (string, error) { return os.Executable() }

// SignalBelow signals what is left of the group: process groups are all that
// there is.
func SignalBelow(sig syscall.Signal, group int, whole bool) Round {
	if whole {
		sig = 0
	}
	return signalGroup(sig, group)
}

// KillBelow kills the group, 0 for none.
func KillBelow(group int, _ func(pid int) bool) Round { return signalGroup(syscall.SIGKILL, group) }

// strays returns nothing: nobody's orphans become ours here.
func (r *Reaper) strays() []int { return nil }

// signalGroup is denied only if no member of the group may be signalled: other
// unreachable processes are not reported here.
func signalGroup(sig syscall.Signal, group int) (r Round) {
	if group <= 0 || GroupGone(group) {
		return r
	}
	r.Found = []process{{pid: -group}}
	if errors.Is(syscall.Kill(-group, sig), syscall.EPERM) {
		r.Denied = []Survivor{{PID: -group}}
	}
	return r
}

// GroupGone reports whether no process of the group is left. A member that may
// not be signalled (EPERM) lives.
func GroupGone(group int) bool { return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) }
