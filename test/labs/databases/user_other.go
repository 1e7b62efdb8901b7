//go:build !unix

package databases

import (
	"os"
	"syscall"
)

func dropsPrivileges() bool { return false }

func unprivileged() *syscall.SysProcAttr { return nil }

func own(string) error { return nil }

// family returns the process: its children are not known here.
func family(pid int) []int {
	if pid == 0 {
		return nil
	}
	return []int{pid}
}

func stopProcess(int)     {}
func awaitStopped(...int) {}
func thawProcess(int)     {}

func killProcess(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // it may have ended
	}
}
