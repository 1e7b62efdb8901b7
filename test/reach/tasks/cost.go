package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// A usage is what each kind of process has used of the processors.
type usage struct{ server, leader, workers, here time.Duration }

// used returns what the lab's processes have used since they began, and
// whether this system tells.
func (l *lab) used() (u usage, ok bool) {
	u.server, ok = processor(l.server.PID())
	for _, c := range l.candidates {
		t, _ := processor(c.PID())
		u.leader += t
	}
	for _, c := range l.workers {
		t, _ := processor(c.PID())
		u.workers += t
	}
	u.here, _ = processor(os.Getpid())
	return u, ok
}

// tick is the unit of /proc/PID/stat.
const tick = 10 * time.Millisecond

// processor returns what a process has used, in user mode and in the kernel.
func processor(pid int) (time.Duration, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The second field is a name in parentheses, which may have spaces in it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.Atoi(fields[11])
	kernel, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+kernel) * tick, err1 == nil && err2 == nil
}

// since says how much each of n tasks has taken since an earlier look.
func (u usage) since(before usage, n int) string {
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	server, leader := each(u.server-before.server), each(u.leader-before.leader)
	workers, here := each(u.workers-before.workers), each(u.here-before.here)
	return fmt.Sprintf("processor time of a task: server %.0f µs, leader %.0f µs, workers %.0f µs, submitter %.0f µs: %.0f µs",
		server, leader, workers, here, server+leader+workers+here)
}
