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
// that the system made ours, since we are process 1 or a subreaper. It is the
// only one in its process to wait for any. A second one, such as os/exec, would
// take the status of a process that this one started, or lose its own to this
// one's wait for any child.
type Reaper struct {
	// Changed has a token after some process ended, or the last one was found
	// to be gone.
	Changed chan struct{}

	signals  chan os.Signal
	requests chan func()
	mu       sync.Mutex
	running  map[int]chan syscall.WaitStatus
	alone    bool // there was no child left at the last look
}

// NewReaper returns a reaper, which is to be closed.
func NewReaper() *Reaper {
	r := &Reaper{
		Changed: make(chan struct{}, 1), signals: make(chan os.Signal, 1), requests: make(chan func()),
		running: make(map[int]chan syscall.WaitStatus), alone: true,
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

// watch collects whenever a signal says that there may be something, and now
// and then without one. Signals of one kind merge while nobody takes them: so
// one of them stands for any number of ends.
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
	for f := range r.requests {
		f()
	}
}

// Close ends the reaper's goroutines. No Start may follow. What still runs is
// no longer collected.
func (r *Reaper) Close() {
	signal.Stop(r.signals)
	close(r.signals)
	close(r.requests)
}

// Start starts a process. Its status comes on the channel when it ends. The
// channel has room for it, so that nobody need take it.
func (r *Reaper) Start(path string, argv []string, attr *syscall.ProcAttr) (pid int, ended <-chan syscall.WaitStatus, err error) {
	done := make(chan struct{})
	r.requests <- func() {
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
	<-done
	return pid, ended, err
}

// collect takes in all that have ended. Only what it finds is news: otherwise a
// caller that looks because of news would look again, for ever.
func (r *Reaper) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	wasAlone, found := r.alone, false
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			r.alone = errors.Is(err, syscall.ECHILD)
			break
		}
		found = true
		if ended, ok := r.running[pid]; ok {
			delete(r.running, pid)
			ended <- status
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

// Childless reports whether this process has no child left, of its own or by
// adoption. It looks for itself, since the signal for the last one may still be
// on its way.
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

// Runs reports whether a process was started here and has not been collected.
func (r *Reaper) Runs(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.running[pid]
	return ok
}
