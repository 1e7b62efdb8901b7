package lab

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

	"github.com/seed-ff2cb582/leader/test/chaos/internal/candidate"
	"github.com/seed-ff2cb582/leader/test/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/chaos/internal/skew"
)

// A launcher starts processes that are killed when the lab ends, however that
// ends: stopped ones would otherwise stay.
type launcher struct {
	// binary is the program of the candidates: see Build.
	binary string
	work   chan func()
}

func newLauncher(binary string) *launcher {
	l := &launcher{binary, make(chan func())}
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

func (l *launcher) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL} // an interrupt is for the lab to handle
	started := make(chan error)
	l.work <- func() { started <- cmd.Start() }
	return <-started
}

// A process is one process of candidates.
type process struct {
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

// launch starts a process.
func launch(l *launcher, dir string, spec candidate.Spec) (*process, error) {
	spec.Samples = filepath.Join(dir, spec.Name+".samples")
	spec.Events = filepath.Join(dir, spec.Name+".events")
	p := &process{spec: spec, cmd: exec.Command(l.binary), ended: make(chan struct{})}
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

// tell gives an order. A process that has ended hears nothing, which shows
// elsewhere.
func (p *process) tell(o candidate.Order) {
	if o == candidate.Stop {
		p.expect()
	}
	_, _ = fmt.Fprintf(p.orders, "%q\n", o)
}

func (p *process) expect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
}

func (p *process) signal(s unix.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// kill ends the process without a warning.
func (p *process) kill() {
	p.expect()
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// leads returns the term in which a candidate of the process said that it leads
// when it was asked last, and when that was; or 0.
func (p *process) leads() (term uint64, asked int64) {
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
func (p *process) latest(r history.Run, i, n int) bool {
	for i++; i < n; i++ {
		if later := history.At(p.samples, i); later.Who == r.Who && later.Count > 0 {
			return false
		}
	}
	return true
}

// remains returns what the process left behind, when it has ended, and forgets
// its samples.
func (p *process) remains() (history.Process, error) {
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

// died says why the process ended, if the lab did not end it.
func (p *process) died() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.expected && (p.err == nil || p.cmd.ProcessState.ExitCode() == -1) {
		return ""
	}
	return fmt.Sprintf("%v\n%s", p.err, bytes.TrimSpace(p.stderr.Bytes()))
}
