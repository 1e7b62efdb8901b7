//go:build linux

package run_test

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// patience bounds each wait. None that succeeds takes so long.
const patience = 60 * time.Second

// The lease of the trials: the others may lead 1.1 × TTL after the last
// renewal, the program is to be dead at 0.9 × TTL − 50 ms.
const (
	ttl         = time.Second
	heartbeat   = 150 * time.Millisecond
	stopTimeout = 300 * time.Millisecond
)

// A leadership is what was seen of the programs of one term.
type leadership struct {
	id          string
	kind        kind
	first, last int64
	signs       int
	pids        map[int]string // the part of each
}

// An arena is a group of three hosts.
type arena struct {
	t      *testing.T
	server *natslab.Server // nil on a cluster
	hosts  map[string]*host
	log    string
	read   *bufio.Reader
	part   []byte // of a line
	terms  map[uint64]*leadership
}

func newArena(t *testing.T, kinds []kind) *arena {
	srv := natslab.Start(t)
	proxies := make([]*natslab.Proxy, len(kinds))
	for i := range proxies {
		proxies[i] = natslab.NewProxy(t, srv.Addr())
	}
	a := newArenaOn(t, kinds, func(i int) string { return proxies[i].URL() })
	a.server = srv
	for i, p := range proxies {
		a.hosts[hostID(i)].proxy = p
	}
	return a
}

func hostID(i int) string { return fmt.Sprintf("host%d", i) }

// newArenaOn starts hosts that reach their server by the URLs.
func newArenaOn(t *testing.T, kinds []kind, url func(i int) string) *arena {
	a := newEmptyArena(t)
	for i, k := range kinds {
		a.add(&host{id: hostID(i), kind: k, url: url(i)})
	}
	return a
}

func newEmptyArena(t *testing.T) *arena {
	a := &arena{
		t: t, hosts: make(map[string]*host), terms: make(map[uint64]*leadership), log: filepath.Join(t.TempDir(), "signs"),
	}
	f, err := os.OpenFile(a.log, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	a.read = bufio.NewReaderSize(f, 1<<20)
	return a
}

// add starts a further host.
func (a *arena) add(h *host) {
	a.t.Helper()
	h.a = a
	a.hosts[h.id] = h
	h.start()
	a.t.Cleanup(h.kill)
}

// look takes in what the programs have written since.
func (a *arena) look() {
	a.t.Helper()
	for {
		line, err := a.read.ReadBytes('\n')
		a.part = append(a.part, line...)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			a.t.Fatal(err)
		}
		s, err := parseObservation(string(a.part))
		if err != nil {
			a.t.Fatal(err)
		}
		a.part = a.part[:0]
		a.note(s)
	}
}

func (a *arena) note(s observation) {
	r := a.terms[s.term]
	if r == nil {
		r = &leadership{id: s.id, kind: s.kind, first: s.at, pids: make(map[int]string)}
		a.terms[s.term] = r
	}
	r.first, r.last = min(r.first, s.at), max(r.last, s.at)
	r.pids[s.pid] = s.part
	r.signs++
}

// latest is the highest term of which anything was seen.
func (a *arena) latest() (uint64, *leadership) {
	var latest uint64
	for term := range a.terms {
		latest = max(latest, term)
	}
	return latest, a.terms[latest]
}

// overlaps returns each pair of terms whose programs ran at the same time, and
// the shortest time between two terms.
func (a *arena) overlaps() (found []string, shortest time.Duration) {
	shortest = time.Hour
	terms := slices.Sorted(maps.Keys(a.terms))
	var last int64
	for i, term := range terms {
		r := a.terms[term]
		if i > 0 {
			gap := time.Duration(r.first - last)
			shortest = min(shortest, gap)
			if gap <= 0 {
				found = append(found, fmt.Sprintf("a program of before ran until %v after that of term %d (%s, %s) had begun", -gap, term, r.id, r.kind))
			}
		}
		last = max(last, r.last)
	}
	return found, shortest
}

// await looks until the condition holds.
func (a *arena) await(what string, holds func() bool) {
	a.t.Helper()
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(patience); ; <-pause.C {
		a.look()
		if holds() {
			return
		}
		if time.Now().After(end) {
			a.t.Fatalf("never: %s\n%s", what, a.story())
		}
	}
}

// enough is how many signs of life a program must have given before it counts
// as one that ran.
const enough = 20

// awaitTerm waits until a term after the given one runs its program.
func (a *arena) awaitTerm(after uint64) (term uint64, r *leadership) {
	a.t.Helper()
	a.await(fmt.Sprintf("a program of a term after %d", after), func() bool {
		term, r = a.latest()
		return term > after && r.signs >= enough && a.whole(r)
	})
	return term, r
}

// whole reports whether all the processes that a program consists of have been
// seen.
func (a *arena) whole(r *leadership) bool { return r.kind != forking || len(r.pids) == 3 }

// story is what the hosts said last.
func (a *arena) story() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(a.hosts)) {
		fmt.Fprintf(&b, "--- %s\n%s", id, a.hosts[id].said.tail())
	}
	return b.String()
}

// A host is one leader run, with its own way to the server.
type host struct {
	a     *arena
	id    string
	kind  kind
	url   string
	proxy *natslab.Proxy
	// What it runs with, if not as the others do.
	program string              // that is leader run
	command []string            // for leader run to run
	flags   []string            // of leader run
	lease   time.Duration       // of leader run
	as      *syscall.Credential // of leader run
	cgroup  *os.File            // for leader run to start in

	cmd   *exec.Cmd
	ended chan struct{}
	said  tail
}

func (h *host) start() {
	h.a.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		h.a.t.Fatal(err)
	}
	if h.program == "" {
		h.program, h.command = program, []string{exe}
	}
	lease := cmp.Or(h.lease, ttl)
	args := append([]string{"run", "trials", "--server", h.url, "--id", h.id, "--on-exit", "campaign",
		"--ttl", lease.String(), "--heartbeat", heartbeat.String(), "--stop-timeout", stopTimeout.String()}, h.flags...)
	cmd := exec.Command(h.program, append(append(args, "--"), h.command...)...)
	cmd.Env = append(os.Environ(), kindVariable+"="+string(h.kind), logVariable+"="+h.a.log)
	cmd.Stdout, cmd.Stderr = &h.said, &h.said
	// A stopped process in the test's own group would have the system hang that
	// up if the test's parent ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: h.as}
	if h.cgroup != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(h.cgroup.Fd())
	}
	// Programs that outlived it would hold the pipe open; the checks find
	// those.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		h.a.t.Fatal(err)
	}
	h.cmd, h.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		_ = cmd.Wait() // how it ends is the test's doing
	}(h.ended)
}

// kill ends leader run without a warning.
func (h *host) kill() {
	_ = h.cmd.Process.Kill()
	<-h.ended
}

func (h *host) signal(sig syscall.Signal) {
	h.a.t.Helper()
	if err := h.cmd.Process.Signal(sig); err != nil {
		h.a.t.Fatal(err)
	}
}

// awaitEnd waits until leader run has exited.
func (h *host) awaitEnd() {
	h.a.t.Helper()
	select {
	case <-h.ended:
	case <-time.After(patience):
		h.a.t.Fatalf("%s does not end\n%s", h.id, h.said.tail())
	}
}

// guard returns the process that watches the program, 0 for none.
func (h *host) guard() int {
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", h.cmd.Process.Pid)) // the pattern is right
	for _, path := range children {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for f := range bytes.FieldsSeq(b) {
			var pid int
			if _, err := fmt.Sscan(string(f), &pid); err != nil {
				continue
			}
			if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && bytes.Contains(args, []byte("run-guard")) {
				return pid
			}
		}
	}
	return 0
}

// signalGuard signals the guard, if there is one: without it the term has ended
// by itself, and another follows all the same.
func (h *host) signalGuard(sig syscall.Signal) {
	if pid := h.guard(); pid != 0 {
		_ = syscall.Kill(pid, sig) // as above
	}
}

// alive reports whether a process can still run.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return len(rest) > 0 && rest[0] != 'Z' && rest[0] != 'X'
}

// A tail keeps the last of what was written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, b...)
	if excess := len(w.b) - 4000; excess > 0 {
		w.b = w.b[excess:]
	}
	return len(b), nil
}

func (w *tail) tail() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.b)
}

// finish ends all hosts and checks what was seen.
func (a *arena) finish(seen map[string]int) {
	a.t.Helper()
	for _, h := range a.hosts {
		h.kill()
	}
	a.await("the end of all programs", func() bool {
		for _, r := range a.terms {
			for pid := range r.pids {
				if alive(pid) {
					return false
				}
			}
		}
		return true
	})
	a.look()
	found, shortest := a.overlaps()
	signs := 0
	for _, r := range a.terms {
		signs += r.signs
	}
	for _, f := range found {
		a.t.Error(f)
	}
	a.t.Logf("%d terms, %d signs of life, %d overlaps; the shortest time between two terms %v",
		len(a.terms), signs, len(found), shortest)
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		a.t.Logf("%4d × %s", seen[name], name)
	}
}
