package main

import (
	"fmt"
	"os"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// A usage is what each kind of process has used of the processors.
type usage struct{ server, leader, workers, here time.Duration }

// used returns the resources that the lab's processes have used since they
// began, and whether this system reports them.
func (l *lab) used() (u usage, ok bool) {
	u.server, ok = harness.ProcessorOf(l.server.PID())
	for _, c := range l.candidates {
		t, _ := harness.ProcessorOf(c.PID())
		u.leader += t
	}
	for _, c := range l.workers {
		t, _ := harness.ProcessorOf(c.PID())
		u.workers += t
	}
	u.here, _ = harness.ProcessorOf(os.Getpid())
	return u, ok
}

// since describes how much each of n tasks has taken since an earlier look.
func (u usage) since(before usage, n int) string {
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	server, leader := each(u.server-before.server), each(u.leader-before.leader)
	workers, here := each(u.workers-before.workers), each(u.here-before.here)
	return fmt.Sprintf("processor time of a task: server %.0f µs, leader %.0f µs, workers %.0f µs, submitter %.0f µs: %.0f µs",
		server, leader, workers, here, server+leader+workers+here)
}
