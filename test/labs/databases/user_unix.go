//go:build unix

package databases

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// nobody is the user that root's tests become. Any user except root would do.
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

// family returns a process and its children, as far as the system reports these
// (Linux's /proc).
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
		// The name, in parentheses, may have blanks in it; state and parent
		// follow.
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			pids = append(pids, child)
		}
	}
	return pids
}

// awaitStopped waits, where this is visible (on Linux), until each thread of
// the processes is stopped, which a running thread is a moment after the
// signal.
func awaitStopped(pids ...int) {
	for limit := time.Now().Add(Patience); slices.ContainsFunc(pids, runs) && time.Now().Before(limit); {
		<-time.After(time.Millisecond)
	}
}

// runs reports whether a thread of the process is seen to run.
func runs(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is well-formed
	return slices.ContainsFunc(threads, func(thread string) bool {
		text, err := os.ReadFile(thread)
		_, state, found := strings.Cut(string(text), ") ") // behind its name
		return err == nil && found && len(state) > 0 && !strings.ContainsRune("TtZX", rune(state[0]))
	})
}

// Errors mean that the process has ended.
func stopProcess(pid int) { _ = syscall.Kill(pid, syscall.SIGSTOP) }
func thawProcess(pid int) { _ = syscall.Kill(pid, syscall.SIGCONT) }
func killProcess(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }
