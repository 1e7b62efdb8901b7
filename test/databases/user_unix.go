//go:build unix

package databases

import (
	"os"
	"syscall"
)

// nobody is the user whom root's tests become. Any but root would do.
const nobody = 65534

func dropsPrivileges() bool { return os.Geteuid() == 0 }

func unprivileged() *syscall.SysProcAttr {
	if !dropsPrivileges() {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// own gives a file or directory to the servers' user.
func own(path string) error {
	if !dropsPrivileges() {
		return nil
	}
	return os.Lchown(path, nobody, nobody)
}
