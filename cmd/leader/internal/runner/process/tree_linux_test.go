package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nobody is a user who may not signal the processes of others.
const nobody = 65534

// A process that may not be signalled lives. Taken for one that has ended, it
// would run on while another host starts the program.
func TestAProcessThatMayNotBeSignalledIsNotTakenForGone(t *testing.T) {
	first, ok := readStat("/proc/1/stat")
	if !ok || os.Getuid() != 0 && realUser(first.pid) == os.Getuid() {
		t.Skip("SKIPPED: there is no process of another user to be seen here")
	}
	rounds := make(chan Round, 1)
	go func() {
		defer close(rounds)
		// The thread ends with the goroutine, and no other one loses its
		// rights.
		runtime.LockOSThread()
		if os.Getuid() == 0 {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
				t.Errorf("setresuid: %v", errno)
				return
			}
		}
		var r Round
		r.signal(first, 0)
		rounds <- r
	}()
	if r := <-rounds; len(r.Denied) != 1 || r.Denied[0].PID != first.pid {
		t.Errorf("denied: %v, want process %d", r.Denied, first.pid)
	}
}

// The client of a store may have a program fetch its credentials, as the
// Kubernetes client does. Taking the status of such a process makes the client
// believe that it failed.
func TestASharedReaperLeavesOthersTheirProcesses(t *testing.T) {
	r := NewSharedReaper()
	t.Cleanup(r.Close)
	for i := range 500 {
		if err := exec.Command("true").Run(); err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
	}
	if err := Adopt(); err != nil {
		t.Skip(err)
	}
	// It still collects its own, and what these leave behind.
	file := filepath.Join(t.TempDir(), "orphan")
	_, ended, err := r.Start("/bin/sh", []string{"sh", "-c", "sleep 0 & echo $! > " + file + "; exit 7"}, &syscall.ProcAttr{Sys: ChildAttr()})
	if err != nil {
		t.Fatal(err)
	}
	if status := <-ended; status.ExitStatus() != 7 {
		t.Errorf("status %v", status)
	}
	orphan, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(orphan)))
	if err != nil {
		t.Fatal(err)
	}
	awaitProcess(t, pid, "be collected", func(_ process, there bool) bool { return !there })
}

// A library waits for its processes. Processes that a script started before it
// became leader run are in the same group, and nobody waits for that.
func TestASharedReaperLeavesItsGroupToOthersForAWhile(t *testing.T) {
	r := newReaper(true)
	r.Close() // it would collect meanwhile
	var pids []int
	for _, attr := range []*syscall.SysProcAttr{nil, {Setpgid: true}} {
		pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exit 7"}, &syscall.ProcAttr{Sys: attr})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = syscall.Wait4(pid, nil, 0, nil) })
		awaitProcess(t, pid, "end", func(p process, there bool) bool { return there && p.dead })
		pids = append(pids, pid)
	}
	ours := func() []int {
		return slices.DeleteFunc(r.strays(), func(pid int) bool { return !slices.Contains(pids, pid) })
	}
	if got := ours(); !slices.Equal(got, pids[1:]) {
		t.Errorf("%v of %v are collected at once, want the last one", got, pids)
	}
	p, _ := readStat("/proc/" + strconv.Itoa(pids[0]) + "/stat")
	r.strange[p.key()] = time.Now().Add(-strangePatience)
	if got := ours(); !slices.Contains(got, pids[0]) {
		t.Errorf("%v of %v are collected at last, want the first one, too", got, pids)
	}
}

// awaitProcess waits until what is known of a process fits.
func awaitProcess(t *testing.T, pid int, what string, fits func(p process, there bool) bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(patience); !fits(readStat("/proc/" + strconv.Itoa(pid) + "/stat")); <-look.C {
		if time.Now().After(end) {
			t.Fatalf("process %d does not %s", pid, what)
		}
	}
}
