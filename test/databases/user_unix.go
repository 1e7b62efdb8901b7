//go:build unix

package databases

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// family returns a process and its children, as far as the system tells of these (Linux's /proc).
func family(pid int) []int {
	if pid == 0 {
		return nil
	}
	pids := []int{pid}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is constant
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may have blanks in it; state and parent follow.
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			pids = append(pids, child)
		}
	}
	return pids
}

// Errors mean that the process has ended.
func stopProcess(pid int) { _ = syscall.Kill(pid, syscall.SIGSTOP) }
func thawProcess(pid int) { _ = syscall.Kill(pid, syscall.SIGCONT) }
func killProcess(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }
