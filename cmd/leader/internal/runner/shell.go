//go:build unix

package runner

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/process"
)

// The roles that hooks are given.
const (
	roleLeader   = "leader"
	roleFollower = "follower"
)

// hook runs a shell command of the user's. A failure is reported and changes
// nothing. A label that cannot be set must not keep a program from running, nor
// a lease from being released: hence also the timeout.
func (r *runner) hook(ctx context.Context, command, role string, term leader.Term) {
	if command == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.c.Timeout)
	defer cancel()
	told := []string{"LEADER_ROLE=" + role, "LEADER_GROUP=" + r.group(), "LEADER_ID=" + r.cfg.InstanceID}
	if !term.IsZero() {
		told = append(told, "LEADER_TERM="+strconv.FormatUint(term.Number, 10))
	}
	if err := r.shell(ctx, command, r.environ(told)); err != nil {
		r.say("%q: %v", command, err)
	}
}

// check runs the health check. It is the candidate.Shell of --check, which the
// election calls on a separate goroutine and bounds by ctx.
func (r *runner) check(ctx context.Context, command string) error {
	return r.shell(ctx, command, r.c.Environ())
}

// shell runs a command by the reaper, since nobody else may wait for a process
// here. Its output is prose. So it goes to standard error, where it does not
// mix with the program's data. The command leads a process group, and the whole
// group is killed at the end of ctx: the shell alone would leave what it waits
// for. Of a candidate that is killed the system ends the shell, where it can:
// no guard watches a hook, and another host may lead next.
func (r *runner) shell(ctx context.Context, command string, env []string) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	// Held until it is known, so that it is not taken for something that the
	// program left.
	r.mu.Lock()
	pid, ended, err := r.parent.Reaper.Start("/bin/sh", []string{"sh", "-c", command}, &syscall.ProcAttr{
		Env: env, Files: []uintptr{null.Fd(), 2, 2}, Sys: process.ChildAttr(),
	})
	if err == nil {
		r.shells[pid] = struct{}{}
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.shells, pid)
	}()
	select {
	case status := <-ended:
		return failure(status)
	case <-ctx.Done():
		if !r.parent.Reaper.Signal(pid, syscall.SIGKILL, true) && r.parent.Reaper.Runs(pid) {
			r.say("%q cannot be ended: uid %d may not signal process %d. It is waited for", command, os.Geteuid(), pid)
		}
		// It holds the term up while it lives, as the program would: what a
		// hook does belongs to the term, and another host may do the same next.
		<-ended
		return ctx.Err()
	}
}

// failure is how a shell command failed, nil if it did not.
func failure(status syscall.WaitStatus) error {
	switch {
	case status.Signaled():
		return fmt.Errorf("ended by signal %d", status.Signal())
	case status.ExitStatus() != 0:
		return fmt.Errorf("exit status %d", status.ExitStatus())
	default:
		return nil
	}
}

// aside reports whether a process belongs to a hook or a check, or one that a
// library has started, such as the program by which the client of a store gets
// its credentials. The candidate is a subreaper and kills every process below
// it that no guard has ended. A health check that happens to run then must
// live, and so must processes that the term's release needs.
func (r *runner) aside(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.shells[pid]
	return ok || process.InOwnGroup(pid)
}
