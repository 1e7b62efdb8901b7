//go:build unix

package databases

import "syscall"

// kill ends a process as a crash does.
func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

// freeze stops a process at its current instruction.
func freeze(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

// thaw lets a frozen process go on.
func thaw(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }
