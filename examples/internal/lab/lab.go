// Package lab runs the examples as their users do: as processes that are
// started, killed, stopped and continued.
package lab

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Patience bounds every wait. It is generous, since a passing test never waits
// that long.
const Patience = 3 * time.Minute

// Build builds the command in the test's directory.
func Build(t *testing.T) (program string) {
	t.Helper()
	return BuildIn(t, ".")
}

// BuildIn builds the command in a directory.
func BuildIn(t *testing.T, dir string) (program string) {
	t.Helper()
	path, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(t.TempDir(), filepath.Base(path))
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	cmd.Dir = path
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// Server starts a NATS server with JetStream, and returns its URL.
func Server(t *testing.T) (url string) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(Patience) {
		t.Fatal("the server is not ready")
	}
	return srv.ClientURL()
}

// FreeAddress returns an address of the loopback interface at which nobody
// listens. Its port lies below the ports that systems give to callers that ask
// for any, so that nobody else gets it before its use.
func FreeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.IntN(22_000)))
		if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("there are no free ports")
	return ""
}

// A Line is what app.Say writes.
type Line struct {
	At   time.Time
	ID   string
	Term uint64
	Text string
}

// Role returns the role that a line is about, or "" if the program has one
// only.
func (l Line) Role() string {
	for word := range strings.FieldsSeq(l.Text) {
		if role, ok := strings.CutPrefix(word, "role="); ok {
			return role
		}
	}
	return ""
}

func parse(text string) (l Line, ok bool) {
	at, rest, _ := strings.Cut(text, " ")
	id, rest, _ := strings.Cut(rest, " ")
	term, said, _ := strings.Cut(rest, " ")
	number, found := strings.CutPrefix(term, "term=")
	when, err := time.Parse(time.RFC3339Nano, at)
	n, numErr := strconv.ParseUint(number, 10, 64)
	return Line{At: when, ID: id, Term: n, Text: said}, found && err == nil && numErr == nil
}

// A Crew is the copies of one program, and what they have written.
type Crew struct {
	t       *testing.T
	program string
	common  []string

	mu    sync.Mutex
	lines []Line
	more  chan struct{} // closed and replaced with each line
	procs map[string]*Process
}

// NewCrew returns a crew without members.
func NewCrew(t *testing.T, program string, args ...string) *Crew {
	return &Crew{t: t, program: program, common: args, more: make(chan struct{}), procs: make(map[string]*Process)}
}

// A Process is a copy of the program.
type Process struct {
	t      *testing.T
	id     string
	cmd    *exec.Cmd
	ended  chan struct{} // closed when it has ended and all its output was read
	stderr strings.Builder
}

// Start starts a copy of that name. It is killed when the test ends.
func (c *Crew) Start(id string, args ...string) *Process {
	c.t.Helper()
	return c.start(id, nil, slices.Concat(c.common, []string{"-id", id}, args)...)
}

// StartBare starts a copy without arguments, and with these variables in
// addition to the test's.
func (c *Crew) StartBare(env []string) *Process {
	c.t.Helper()
	return c.start("", env)
}

func (c *Crew) start(id string, env []string, args ...string) *Process {
	c.t.Helper()
	p := &Process{t: c.t, id: id, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(c.t.Context(), c.program, args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.hear(s.Text())
		}
		_ = p.cmd.Wait() // see ProcessState
	}()
	c.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if c.t.Failed() {
			c.t.Logf("%s said:\n%s", id, p.stderr.String())
		}
	})
	c.procs[id] = p
	return p
}

func (c *Crew) hear(text string) {
	l, ok := parse(text)
	if !ok {
		c.t.Errorf("a line of another form: %q", text)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, l)
	close(c.more)
	c.more = make(chan struct{})
}

// Process returns the copy of that name.
func (c *Crew) Process(id string) *Process { return c.procs[id] }

// Lines returns what was written so far.
func (c *Crew) Lines() []Line {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lines)
}

// Await waits for the first line, of all that are written at any time, that
// fits.
func (c *Crew) Await(what string, fits func(Line) bool) Line {
	c.t.Helper()
	l, ok := c.AwaitFor(Patience, fits)
	if !ok {
		c.t.Fatalf("%v without: %s; the last lines were\n%s", Patience, what, c.tail())
	}
	return l
}

// AwaitFor is Await that gives up.
func (c *Crew) AwaitFor(patience time.Duration, fits func(Line) bool) (l Line, ok bool) {
	seen := 0
	c.await(patience, func(lines []Line) bool {
		for ; seen < len(lines) && !ok; seen++ {
			l, ok = lines[seen], fits(lines[seen])
		}
		return ok
	})
	return l, ok
}

// AwaitLines waits until all lines together fit.
func (c *Crew) AwaitLines(what string, fit func([]Line) bool) {
	c.t.Helper()
	if !c.await(Patience, fit) {
		c.t.Fatalf("%v without: %s; the last lines were\n%s", Patience, what, c.tail())
	}
}

func (c *Crew) await(patience time.Duration, fit func([]Line) bool) bool {
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		c.mu.Lock()
		lines, more := c.lines, c.more
		c.mu.Unlock()
		if fit(lines) {
			return true
		}
		select {
		case <-more:
		case <-end.C:
			return false
		}
	}
}

func (c *Crew) tail() string {
	lines := c.Lines()
	var b strings.Builder
	for _, l := range lines[max(0, len(lines)-20):] {
		fmt.Fprintf(&b, "%v\n", l)
	}
	return b.String()
}

// AwaitAct waits for an act of a later term than the given one.
func (c *Crew) AwaitAct(after uint64) Line {
	c.t.Helper()
	return c.Await(fmt.Sprintf("an act after term %d", after), func(l Line) bool { return l.Term > after })
}

// CheckOneAtATime checks, for each role, that each term's acts are from one
// copy, and that no act of an earlier term came after an act of a later term.
// All copies have the clock of one machine.
func (c *Crew) CheckOneAtATime() {
	c.t.Helper()
	tenures := make(map[string]map[uint64]tenure)
	for _, l := range c.Lines() {
		if l.Term == 0 {
			continue
		}
		of := tenures[l.Role()]
		if of == nil {
			of = make(map[uint64]tenure)
			tenures[l.Role()] = of
		}
		r, known := of[l.Term]
		if known && r.id != l.ID {
			c.t.Errorf("%s and %s acted in term %d", r.id, l.ID, l.Term)
		}
		of[l.Term] = r.with(l, known)
	}
	for _, of := range tenures {
		c.checkOrder(of)
	}
}

// A tenure is who acted in a term, and when.
type tenure struct {
	id          string
	first, last time.Time
}

func (r tenure) with(l Line, known bool) tenure {
	if !known {
		return tenure{l.ID, l.At, l.At}
	}
	if l.At.Before(r.first) {
		r.first = l.At
	}
	if l.At.After(r.last) {
		r.last = l.At
	}
	return r
}

func (c *Crew) checkOrder(tenures map[uint64]tenure) {
	c.t.Helper()
	terms := slices.Sorted(maps.Keys(tenures))
	for i := 1; i < len(terms); i++ {
		before, after := tenures[terms[i-1]], tenures[terms[i]]
		if !before.last.Before(after.first) {
			c.t.Errorf("%s acted in term %d until %v, when %s had started term %d at %v",
				before.id, terms[i-1], before.last, after.id, terms[i], after.first)
		}
	}
}

// Kill ends the process without giving it a chance to do anything.
func (p *Process) Kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	p.await()
}

func (p *Process) await() {
	p.t.Helper()
	end := time.NewTimer(Patience)
	defer end.Stop()
	select {
	case <-p.ended:
	case <-end.C:
		p.t.Fatalf("%s lives on", p.id)
	}
}
