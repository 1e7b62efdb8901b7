package devserver

import "syscall"

// attributes have a server get the signal when this process ends, and keep it
// from the signals of the terminal: the command that uses it ends first.
func attributes(end syscall.Signal, as *user) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: end, Credential: as.credential()}
}
