package process

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Adopt makes this process the parent of its orphaned descendants. It fails
// where descendants could not be found afterwards: nothing could be promised
// about the program's end, and it is better not to start it.
func Adopt() error {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return errNoProc
	}
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

var errNoProc = errors.New("/proc does not show this process's own namespace, and the program's descendants could not be found: " +
	"mount it (unshare --mount-proc, for example)")

// ChildAttr has a process end with the thread that starts it. It leads a group,
// so that one signal reaches it together with what it starts.
func ChildAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// MaySignalAll reports whether this process may signal the processes of all
// users. Root without the capability may not, and another user with it may.
func MaySignalAll() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_KILL) != 0
}

// Executable is this program, also after its file was replaced by another
// version. Guard and candidate speak a protocol that may differ between
// versions, and an update must not part them.
func Executable() (string, error) { return "/proc/self/exe", nil }

// strangePatience is how long a shared reaper leaves an ended process to the
// library that started it. A library waits at once, and the rest is for a busy
// machine. A process that nobody waits for was there before this program: a
// script that starts something and becomes leader run is an example.
const strangePatience = 10 * time.Second

// strays returns the children that have ended and that nobody else waits for:
// orphans that the system made ours. r.mu is held.
func (r *Reaper) strays() (pids []int) {
	// Most looks find nobody, and need not go through all processes.
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil || info.Signo == 0 {
		clear(r.strange)
		return nil
	}
	self, now := os.Getpid(), time.Now()
	for _, p := range descendants(self, nil) {
		_, own := r.running[p.pid]
		if own || p.parent != self || !p.dead {
			continue
		}
		first, seen := r.strange[p.key()]
		if !seen {
			first = now
			r.strange[p.key()] = now
		}
		if !InOwnGroup(p.pid) || now.Sub(first) >= strangePatience {
			pids = append(pids, p.pid)
			delete(r.strange, p.key())
		}
	}
	return pids
}

// descendants returns all processes below root, apart from those below the
// excepted ones, and these. The processes come and go while they are read, so
// that one that forks now may have a child that is missed: a caller that kills
// calls it again until none is left.
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

func statFile(pid int) string { return "/proc/" + strconv.Itoa(pid) + "/stat" }

// lives reports whether the process has not ended. Of another that has its
// number by now it reports nothing.
func (s Survivor) lives() bool {
	now, ok := readStat(statFile(s.PID))
	return ok && now.start == s.Start && !now.dead
}

// readStat reads proc_pid_stat(5). The command's name, in parentheses, may
// contain anything.
func readStat(path string) (p process, ok bool) {
	stat, err := os.ReadFile(path)
	if err != nil {
		return p, false // it ended
	}
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[end+1:])
	if open < 0 || len(fields) < 20 || fields[0][0] == 'X' {
		return p, false
	}
	p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
	p.parent, _ = strconv.Atoi(string(fields[1]))
	p.group, _ = strconv.Atoi(string(fields[2]))
	p.start, p.comm = string(fields[19]), string(stat[open+1:end])
	// A zombie may have threads that live on; it counts as one itself.
	threads, _ := strconv.Atoi(string(fields[17]))
	p.dead = fields[0][0] == 'Z' && threads <= 1
	return p, p.pid > 0
}

// SignalBelow signals all processes below this one. Those of the group are only
// asked whether they could be, if it was signalled as a whole: that succeeds
// even if a single one of its members may be signalled. Signal 0 asks.
func SignalBelow(sig syscall.Signal, group int, whole bool) Round {
	r := Round{Found: descendants(os.Getpid(), nil)}
	for _, p := range r.Found {
		if whole && p.group == group {
			r.signal(p, 0)
		} else {
			r.signal(p, sig)
		}
	}
	return r
}

// KillBelow kills all processes below this one but the excepted ones and those
// below these. The candidate calls it when a guard is gone, however that ended.
func KillBelow(_ int, except func(pid int) bool) Round {
	r := Round{Found: descendants(os.Getpid(), except)}
	for _, p := range r.Found {
		r.signal(p, syscall.SIGKILL)
	}
	return r
}

// signal signals one process, and notes it as denied if it lives and may not be
// signalled. Any other error means that it has ended.
func (r *Round) signal(p process, sig syscall.Signal) {
	if err := signalExactly(p, sig); errors.Is(err, unix.EPERM) && !p.dead {
		r.Denied = append(r.Denied, Survivor{PID: p.pid, UID: realUser(p.pid), Comm: p.comm, Start: p.start})
	}
}

// realUser returns the real user of a process, -1 if it has ended.
func realUser(pid int) int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return -1
	}
	_, rest, _ := bytes.Cut(status, []byte("\nUid:"))
	if f := bytes.Fields(rest); len(f) > 0 {
		if uid, err := strconv.Atoi(string(f[0])); err == nil {
			return uid
		}
	}
	return -1
}

// signalExactly signals the process that p was read from, not another one that
// has its number by now. A process that has ended is not an error. A number is
// given again, and the wrong process would be killed, perhaps as root.
func signalExactly(p process, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) {
			return syscall.Kill(p.pid, sig) // before Linux 5.3
		}
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	// The descriptor refers to the process that has the number now.
	if now, ok := readStat(statFile(p.pid)); ok && now.start == p.start {
		return unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	return nil
}

// GroupGone is not to be asked: a member that lives is a descendant, and those
// are counted.
func GroupGone(int) bool { return true }
