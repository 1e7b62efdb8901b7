package demo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"sync"
	"time"
)

// A process is a worker as the demo sees it. Only the stage's goroutine touches
// its fields, apart from what reads its output.
type process struct {
	id     string
	cmd    *exec.Cmd
	in     io.WriteCloser
	orders *json.Encoder

	last    status
	told    int64 // when its latest report was made, or it first could make one
	joined  bool  // a status arrived
	fault   Fault // Crash, Freeze or Cut while it is under that
	gone    bool
	leaving bool // it was ordered to stop, or killed
	// complaint is the last line of its standard error.
	complaint string
}

// A message is what comes from a worker: a report, a line of its standard
// error, or its end.
type message struct {
	from   *process
	report report
	stderr string
	ended  bool
	err    error // of the process, with ended
}

// launch starts a worker's process. deliver is called for each message, from
// other goroutines; the last one reports that the process ended. It may return
// both a process and an error: the process has not taken its spec, and its end
// will be delivered.
func launch(command []string, s spec, deliver func(message)) (*process, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // it ends with its input, and is awaited
	detach(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr lines
	cmd.Stderr = &stderr
	p := &process{id: s.ID, cmd: cmd, in: in, orders: json.NewEncoder(in)}
	stderr.line = func(l string) { deliver(message{from: p, stderr: l}) }
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		// All output is read before Wait, which closes the pipe.
		readReports(out, func(r report) { deliver(message{from: p, report: r}) })
		deliver(message{from: p, ended: true, err: cmd.Wait()})
	}()
	return p, p.orders.Encode(s)
}

// readReports reads until the end of the output. A line that is not a report
// ends it too: the demo cannot understand such a worker, and only waits for its
// end. The rest of the output is discarded, since a worker whose pipe is full
// would not end.
func readReports(out io.Reader, deliver func(report)) {
	in := json.NewDecoder(bufio.NewReader(out))
	for {
		var r report
		if err := in.Decode(&r); err != nil {
			_, _ = io.Copy(io.Discard, out)
			return
		}
		deliver(r)
	}
}

// tell gives an order. A worker that can take no further order is let go: it
// ends with its input. It may be called for a frozen worker: the order waits in
// the pipe.
func (p *process) tell(o order) {
	if err := p.orders.Encode(o); err != nil {
		_ = p.in.Close()
	}
}

// alive reports whether the process runs and takes part.
func (p *process) alive() bool { return !p.gone && !p.leaving }

// leads reports whether it led at its last word, and nothing is known against
// it. A window that has closed is such a thing: a frozen leader cannot take its
// word back.
func (p *process) leads(now int64) bool { return p.alive() && p.last.Leading && now < p.last.Until }

// impaired reports whether a fault of the process is not over, or its successor
// is due. A worker that ended by its own decision has no successor, and its
// faults ended with it.
func (p *process) impaired() bool {
	if p.gone {
		return !p.failed()
	}
	return p.fault != ""
}

// failed reports whether the process ended by its own decision, not by a
// signal.
func (p *process) failed() bool { return p.cmd.ProcessState.Exited() }

// stop orders the worker to release and exit. It counts as gone from then on,
// except for the end of its process.
func (p *process) stop() {
	if !p.gone && !p.leaving {
		p.leaving = true
		p.tell(orderStop)
	}
}

// kill ends the process at once, also a frozen one.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// lines calls line for each line that is written. exec.Cmd writes in pieces of
// any length, from its goroutine.
type lines struct {
	line func(string)
	mu   sync.Mutex
	part []byte
}

// Write never fails.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, b...)
	for {
		i := bytes.IndexByte(l.part, '\n')
		if i < 0 {
			return len(b), nil
		}
		l.line(string(bytes.TrimRight(l.part[:i], "\r")))
		l.part = l.part[i+1:]
	}
}

// exitPatience is how long the demo waits for workers that were ordered to
// stop, before it kills them.
const exitPatience = stopPatience + time.Second
