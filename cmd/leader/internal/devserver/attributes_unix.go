//go:build unix && !linux

package devserver

import "syscall"

// attributes have a server run as the user.
func attributes(_ syscall.Signal, as *user) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as.credential()}
}
