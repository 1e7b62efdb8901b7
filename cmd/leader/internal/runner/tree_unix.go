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

func executable() (string, error) { return os.Executable() }

// signalBelow signals what is left of the group: process groups are all that there is.
func signalBelow(sig syscall.Signal, group int, whole bool) {
	if !whole {
		_ = syscall.Kill(-group, sig) // nobody may be left
	}
}

// killBelow kills the group, 0 for none. It reports whether it found any.
func killBelow(group int, _ func(pid int) bool) bool {
	return group > 0 && syscall.Kill(-group, syscall.SIGKILL) == nil
}

// groupGone reports whether no process of the group is left.
func groupGone(group int) bool { return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) }
