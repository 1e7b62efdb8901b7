//go:build unix && !linux

package runner

import (
	"errors"
	"os"
	"syscall"
)

// adopt does nothing: there are no subreapers here, and what leaves the process group is out of reach.
func adopt() error { return nil }

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// maySignalAll reports whether this process may signal those of all users.
func maySignalAll() bool { return os.Geteuid() == 0 }

func executable() (string, error) { return os.Executable() }

// signalBelow signals what is left of the group: process groups are all that
// there is.
func signalBelow(sig syscall.Signal, group int, whole bool) round {
	if whole {
		sig = 0
	}
	return signalGroup(sig, group)
}

// killBelow kills the group, 0 for none.
func killBelow(group int, _ func(pid int) bool) round { return signalGroup(syscall.SIGKILL, group) }

// signalGroup is denied only if no member of the group may be signalled: who
// else is out of reach is not told here.
func signalGroup(sig syscall.Signal, group int) (r round) {
	if group <= 0 || groupGone(group) {
		return r
	}
	r.found = []process{{pid: -group}}
	if errors.Is(syscall.Kill(-group, sig), syscall.EPERM) {
		r.denied = []survivor{{PID: -group}}
	}
	return r
}

// groupGone reports whether no process of the group is left.
func groupGone(group int) bool { return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) }
