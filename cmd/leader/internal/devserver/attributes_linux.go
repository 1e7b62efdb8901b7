package devserver

import "syscall"

// attributes keep a server no longer than this process, and from the signals of
// the terminal: the command that uses it ends first.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
