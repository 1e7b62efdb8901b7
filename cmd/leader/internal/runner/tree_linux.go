package runner

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of its orphaned descendants.
func adopt() error {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return errNoProc
	}
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

var errNoProc = errors.New("/proc does not show this process's own namespace, and the program's descendants could not be found: " +
	"mount it (unshare --mount-proc, for example)")

// childAttr has a process end with the thread that starts it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// executable is this program, also after its file was replaced by another version.
func executable() (string, error) { return "/proc/self/exe", nil }

// A process is one entry of /proc. Pid and start, in ticks since the boot, tell it from all others.
type process struct {
	pid, parent, group int
	start              string
}

// descendants returns all processes below root, apart from those below the excepted ones, and these.
func descendants(root int, except func(pid int) bool) []process {
	below := make(map[int][]process)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, path := range stats {
		if p, ok := readStat(path); ok {
			below[p.parent] = append(below[p.parent], p)
		}
	}
	var found []process
	for next := below[root]; len(next) > 0; {
		var further []process
		for _, p := range next {
			if except == nil || !except(p.pid) {
				found = append(found, p)
				further = append(further, below[p.pid]...)
			}
		}
		next = further
	}
	return found
}

// readStat reads proc_pid_stat(5). The command's name, in parentheses, may contain anything.
func readStat(path string) (p process, ok bool) {
	stat, err := os.ReadFile(path)
	if err != nil {
		return p, false // it ended
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	// A zombie may have threads that live on.
	if len(fields) < 20 || fields[0][0] == 'X' {
		return p, false
	}
	p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
	p.parent, _ = strconv.Atoi(string(fields[1]))
	p.group, _ = strconv.Atoi(string(fields[2]))
	p.start = string(fields[19])
	return p, p.pid > 0
}

// signalBelow signals all processes below this one, but not those of the group if it was signalled as a whole.
func signalBelow(sig syscall.Signal, group int, whole bool) {
	for _, p := range descendants(os.Getpid(), nil) {
		if !whole || p.group != group {
			signalExactly(p, sig)
		}
	}
}

// killBelow kills all processes below this one but the excepted ones and those below these. It reports whether it found any.
func killBelow(_ int, except func(pid int) bool) bool {
	found := descendants(os.Getpid(), except)
	for _, p := range found {
		signalExactly(p, syscall.SIGKILL)
	}
	return len(found) > 0
}

// signalExactly signals the process that p was read from, not another one that has its number by now.
func signalExactly(p process, sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) {
			_ = syscall.Kill(p.pid, sig) // before Linux 5.3
		}
		return
	}
	defer func() { _ = unix.Close(fd) }()
	// The descriptor stands for whoever has the number now.
	if now, ok := readStat("/proc/" + strconv.Itoa(p.pid) + "/stat"); ok && now.start == p.start {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // it may have ended
	}
}

// groupGone is not to be asked: a member that lives is a descendant, and those are counted.
func groupGone(int) bool { return true }
