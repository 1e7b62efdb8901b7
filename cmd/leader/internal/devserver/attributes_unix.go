//go:build unix && !linux

package devserver

import "syscall"

// attributes keep a server from the signals of the terminal: the command that
// uses it ends first. Nothing ends it when this process is killed.
func attributes(_ syscall.Signal, as *user) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as.credential()}
}
