//go:build unix

package process

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A Reaper starts processes and collects those that end: its own, and orphans
// that the system made ours, since we are process 1 or a subreaper. Unless it
// is shared, it is the only one in its process to wait for any. A second one,
// such as os/exec, would lose its own to this one's wait for any child.
type Reaper struct {
	// Changed has a token after some process ended, or the last one was found
	// to be gone.
	Changed chan struct{}

	shared   bool
	signals  chan os.Signal
	requests chan func()
	closed   chan struct{}
	mu       sync.Mutex
	running  map[int]chan syscall.WaitStatus
	strange  map[string]time.Time // when it was first seen that nobody has waited for it, by process.key
	alone    bool                 // there was no child left at the last look; not known if shared
}

// NewReaper returns a reaper, which is to be closed.
func NewReaper() *Reaper { return newReaper(false) }

// NewSharedReaper returns a reaper for a process in which libraries start
// processes, too: the client of a store, for example, that has a program fetch
// its credentials. Such processes are in the process group of this one. The
// library waits for them itself.
func NewSharedReaper() *Reaper { return newReaper(true) }

func newReaper(shared bool) *Reaper {
	r := &Reaper{
		Changed: make(chan struct{}, 1), shared: shared, signals: make(chan os.Signal, 1), requests: make(chan func()),
		closed: make(chan struct{}), running: make(map[int]chan syscall.WaitStatus), strange: make(map[string]time.Time), alone: true,
	}
	signal.Notify(r.signals, syscall.SIGCHLD)
	go r.fork()
	go r.watch()
	return r
}

// lookInterval bounds the cost of a signal that never comes. Without looking
// for itself, a candidate that waits for an ended process would wait for ever,
// and keep the lease for that long.
const lookInterval = time.Second

// watch collects whenever a signal shows that a child may have ended, and now
// and then without one. Signals of one kind merge while nobody takes them: so
// one of them represents any number of ends.
func (r *Reaper) watch() {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		select {
		case _, ok := <-r.signals:
			if !ok {
				return
			}
		case <-look.C:
		}
		r.collect()
	}
}

// fork starts the processes, on one thread that never ends: PR_SET_PDEATHSIG
// goes by the thread that started a process. Go moves goroutines between
// threads, and ends some of these: the program would be killed with one.
func (r *Reaper) fork() {
	runtime.LockOSThread()
	for {
		select {
		case f := <-r.requests:
			f()
		case <-r.closed:
			return
		}
	}
}

// Close ends the reaper's goroutines. A later Start fails. Remaining processes
// are no longer collected.
func (r *Reaper) Close() {
	signal.Stop(r.signals)
	close(r.signals)
	close(r.closed)
}

// Start starts a process. Its status comes on the channel when it ends. The
// channel has room for it, so that nobody need take it.
func (r *Reaper) Start(path string, argv []string, attr *syscall.ProcAttr) (pid int, ended <-chan syscall.WaitStatus, err error) {
	done := make(chan struct{})
	request := func() {
		defer close(done)
		// Held until the process is known: it may end at once.
		r.mu.Lock()
		defer r.mu.Unlock()
		if pid, err = syscall.ForkExec(path, argv, attr); err != nil {
			return
		}
		status := make(chan syscall.WaitStatus, 1)
		r.running[pid], r.alone = status, false
		ended = status
	}
	select {
	case r.requests <- request:
		<-done
		return pid, ended, err
	case <-r.closed:
		return 0, nil, os.ErrClosed
	}
}

// collect takes in all that have ended. Only what it finds is news: otherwise a
// caller that looks because of news would look again, for ever.
func (r *Reaper) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	wasAlone, found := r.alone, false
	if !r.shared {
		for r.wait(anyChild) {
			found = true
		}
	} else {
		for pid := range r.running {
			found = r.wait(pid) || found
		}
		for _, pid := range r.strays() {
			found = r.wait(pid) || found
		}
	}
	if !found && r.alone == wasAlone {
		return
	}
	select {
	case r.Changed <- struct{}{}:
	default:
	}
}

// anyChild makes wait4(2) wait for any child.
const anyChild = -1

// wait takes in the end of a child, and reports whether it has ended. r.mu is
// held.
func (r *Reaper) wait(child int) bool {
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(child, &status, syscall.WNOHANG, nil)
	for errors.Is(err, syscall.EINTR) {
		pid, err = syscall.Wait4(child, &status, syscall.WNOHANG, nil)
	}
	if child == anyChild && (err != nil || pid <= 0) {
		r.alone = errors.Is(err, syscall.ECHILD)
	}
	if err != nil || pid <= 0 {
		return false
	}
	if ended, ok := r.running[pid]; ok {
		delete(r.running, pid)
		ended <- status
	}
	return true
}

// Childless reports whether this process has no child left, started or adopted.
// It looks for itself, since the signal for the last one may still be on its
// way. A shared reaper does not know.
func (r *Reaper) Childless() bool {
	r.collect()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alone
}

// Signal signals a process that was started here, and its group if it leads
// one, unless it has been collected: then its number may be another's. It
// reports whether it did. Under the lock of collect the number cannot be given
// away between the check and the signal.
func (r *Reaper) Signal(pid int, sig syscall.Signal, group bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.running[pid]; !ok {
		return false
	}
	if group {
		pid = -pid
	}
	return syscall.Kill(pid, sig) == nil
}

// InOwnGroup reports whether a process is in the process group of this one, as
// processes are that a library starts here. The program's processes are not:
// its guard leads a separate session, and hooks and checks lead groups.
func InOwnGroup(pid int) bool {
	group, err := syscall.Getpgid(pid)
	return err == nil && group == syscall.Getpgrp()
}

// Runs reports whether a process was started here and has not been collected.
func (r *Reaper) Runs(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.running[pid]
	return ok
}
