package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/candidate"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/skew"
)

// A Launcher starts processes that are killed when the lab ends, however that
// ends: stopped ones would otherwise stay.
type Launcher struct {
	// binary is the program of the candidates: see Build.
	binary string
	work   chan func()
}

// NewLauncher returns one that starts the program of the candidates: see Build.
func NewLauncher(binary string) *Launcher {
	l := &Launcher{binary, make(chan func())}
	go func() {
		// The kernel sends the signal when the thread ends that started the
		// process (prctl(2)).
		runtime.LockOSThread()
		for f := range l.work {
			f()
		}
	}()
	return l
}

func (l *Launcher) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL} // an interrupt is for the lab to handle
	started := make(chan error)
	l.work <- func() { started <- cmd.Start() }
	return <-started
}

// A Process is one process of candidates.
type Process struct {
	spec    candidate.Spec
	cmd     *exec.Cmd
	orders  io.WriteCloser
	samples []byte // shared with the process
	stderr  bytes.Buffer
	ended   chan struct{}
	err     error // of the end

	mu       sync.Mutex
	expected bool // the lab ends it
}

// Launch starts a process, whose files go into dir.
func Launch(l *Launcher, dir string, spec candidate.Spec) (*Process, error) {
	spec.Samples = filepath.Join(dir, spec.Name+".samples")
	spec.Events = filepath.Join(dir, spec.Name+".events")
	p := &Process{spec: spec, cmd: exec.Command(l.binary), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", skew.Variable, spec.ClockRate))
	var err error
	if p.samples, err = shared(spec.Samples); err != nil {
		return nil, err
	}
	p.cmd.Stderr = &p.stderr
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := l.start(p.cmd); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	return p, json.NewEncoder(p.orders).Encode(spec)
}

// shared makes the file of samples and maps it.
func shared(path string) ([]byte, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the mapping stays
	if err := f.Truncate(history.FileBytes); err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, history.FileBytes, unix.PROT_READ, unix.MAP_SHARED)
}

// Tell gives an order. A process that has ended hears nothing, which shows
// elsewhere.
func (p *Process) Tell(o candidate.Order) {
	if o == candidate.Stop {
		p.expect()
	}
	_, _ = fmt.Fprintf(p.orders, "%q\n", o)
}

func (p *Process) expect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
}

// Signal sends the process a signal.
func (p *Process) Signal(s unix.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// Kill ends the process without a warning.
func (p *Process) Kill() {
	p.expect()
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Alive reports whether the process has not ended.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Name returns the process's name.
func (p *Process) Name() string { return p.spec.Name }

// Events returns the path of the file to which the process appends its events.
func (p *Process) Events() string { return p.spec.Events }

// Leads returns the term in which a candidate of the process reported that it
// leads when it was last asked, and the time of that question; or 0.
func (p *Process) Leads() (term uint64, asked int64) {
	n := min(history.Begun(p.samples), history.MaxRuns)
	seen := 0
	for i := n - 1; i >= 0 && seen < 2*len(p.spec.IDs); i-- {
		r := history.At(p.samples, i)
		seen++
		if r.Count > 0 && r.Answer.Leader != 0 && p.latest(r, i, n) {
			return r.Answer.Leader, r.Last.T0
		}
	}
	return 0, 0
}

// latest reports whether a run is the last of its candidate.
func (p *Process) latest(r history.Run, i, n int) bool {
	for i++; i < n; i++ {
		if later := history.At(p.samples, i); later.Who == r.Who && later.Count > 0 {
			return false
		}
	}
	return true
}

// Remains returns what the process left behind, when it has ended, and forgets
// its samples.
func (p *Process) Remains() (history.Process, error) {
	<-p.ended
	h := history.Process{Name: p.spec.Name, IDs: p.spec.IDs, ClockRate: p.spec.ClockRate, Died: p.died()}
	var err error
	if h.Runs, err = history.Runs(p.samples); err != nil {
		return h, fmt.Errorf("%s: %w", p.spec.Name, err)
	}
	err = unix.Munmap(p.samples)
	p.samples = nil
	f, openErr := os.Open(p.spec.Events)
	if errors.Is(openErr, os.ErrNotExist) {
		return h, err // killed before it began
	}
	if err := errors.Join(err, openErr); err != nil {
		return h, err
	}
	defer f.Close() //nolint:errcheck // it was read
	if h.Events, err = history.Events(f); err != nil {
		return h, fmt.Errorf("%s: %w", p.spec.Name, err)
	}
	return h, errors.Join(os.Remove(p.spec.Samples), os.Remove(p.spec.Events))
}

// died returns why the process ended, if the lab did not end it.
func (p *Process) died() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.expected && (p.err == nil || p.cmd.ProcessState.ExitCode() == -1) {
		return ""
	}
	return fmt.Sprintf("%v\n%s", p.err, bytes.TrimSpace(p.stderr.Bytes()))
}
