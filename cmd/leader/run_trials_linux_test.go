package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
)

// The trials of leader run: real processes on a real server, faults of every
// kind, and a record of every few milliseconds in which a program ran. No two
// terms' programs may ever have run at the same time.
//
//	go test ./cmd/leader -run TestNoTwoProgramsEverRun -v -args -trials=240 -arenas=2 -seed=1
var (
	trials = flag.Int("trials", 14, "how many faults each arena goes through")
	arenas = flag.Int("arenas", 1, "how many arenas, side by side")
	only   = flag.String("only", "", "the one fault to go through, by its name")
	sole   = flag.String("kind", "", "the one kind of program on all hosts: plain, stubborn or forking")
	seed   = flag.Uint64("seed", 0, "of the order of the faults and the times between them; 0 for another each time")
)

// A fault strikes the host that leads. It returns what undoes it once another
// leads, or nil if no other need follow.
type fault struct {
	name   string
	strike func(h *host, r *leadership, rng *rand.Rand) (undo func())
}

func nothing() {}

// faults are what the hosts go through.
func faults() []fault {
	return []fault{
		{"candidate stopped", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.signal(syscall.SIGSTOP)
			return func() { h.signal(syscall.SIGCONT) }
		}},
		{"candidate stopped for less than its lease", func(h *host, _ *leadership, rng *rand.Rand) func() {
			h.signal(syscall.SIGSTOP)
			h.a.rest(time.Duration(rng.Int64N(int64(ttl))))
			h.signal(syscall.SIGCONT)
			return nil
		}},
		{"candidate killed", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.kill()
			return h.start
		}},
		{"candidate killed and started again at once", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.kill()
			h.start()
			return nothing
		}},
		{"candidate terminated", func(h *host, r *leadership, _ *rand.Rand) func() {
			h.signal(syscall.SIGTERM)
			if r.kind == stubborn {
				h.kill() // as a supervisor does when it loses patience
			}
			h.awaitEnd()
			return h.start
		}},
		{"program stopped, host cut off", func(h *host, r *leadership, _ *rand.Rand) func() {
			for pid := range r.pids {
				_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
			}
			h.proxy.Hold(devtest.ToServer, devtest.ToClient)
			return h.proxy.Resume
		}},
		{"host cut off", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.proxy.Hold(devtest.ToServer, devtest.ToClient)
			return h.proxy.Resume
		}},
		{"answers lost", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.proxy.Hold(devtest.ToClient)
			return h.proxy.Resume
		}},
		{"connections refused", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.proxy.Cut()
			return h.proxy.Resume
		}},
		{"guard killed", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.signalGuard(syscall.SIGKILL)
			return nothing
		}},
		{"candidate stopped, guard killed", func(h *host, r *leadership, _ *rand.Rand) func() {
			h.signal(syscall.SIGSTOP)
			if r.kind != forking { // nobody is left then who could find what the program has started
				h.signalGuard(syscall.SIGKILL)
			}
			return func() { h.signal(syscall.SIGCONT) }
		}},
		{"guard stopped, host cut off", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.signalGuard(syscall.SIGSTOP)
			h.proxy.Hold(devtest.ToServer, devtest.ToClient)
			return h.proxy.Resume
		}},
		{"record deleted", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.a.deleteRecord()
			return nothing
		}},
		{"server restarted", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.a.server.Restart()
			return nil
		}},
	}
}

// The arenas are parallel, and the other tests are not: short leases are what
// they are about, and a busy machine lets those run out.
func TestNoTwoProgramsEverRun(t *testing.T) {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	for i := range *arenas {
		t.Run(fmt.Sprint("arena", i), func(t *testing.T) {
			t.Parallel()
			t.Logf("replay: go test ./cmd/leader -run %s -args -trials=%d -arenas=%d -seed=%d -only=%q -kind=%q",
				t.Name(), *trials, *arenas, s, *only, *sole)
			tryAll(t, rand.New(rand.NewPCG(s, uint64(i))))
		})
	}
}

func tryAll(t *testing.T, rng *rand.Rand) {
	kinds := []kind{plain, stubborn, forking}
	if k := kind(*sole); k != "" {
		kinds = []kind{k, k, k}
	}
	a := newArena(t, kinds)
	a.awaitTerm(0)
	seen := make(map[string]int)
	all := faults()
	if *only != "" {
		all = slices.DeleteFunc(all, func(f fault) bool { return f.name != *only })
	}
	if len(all) == 0 {
		t.Fatalf("-only=%q: no such fault", *only)
	}
	for i := range *trials {
		if i%len(all) == 0 {
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		f := all[i%len(all)]
		a.rest(time.Duration(rng.Int64N(int64(2 * heartbeat)))) // anywhere between two renewals
		a.look()
		term, r := a.latest()
		before := r.signs
		what := fmt.Sprintf("trial %d: %s, %s program of %s in term %d", i, f.name, r.kind, r.id, term)
		undo := f.strike(a.hosts[r.id], r, rng)
		if undo == nil {
			a.await("signs of life after "+what, func() bool {
				_, now := a.latest()
				return now.signs >= enough && (now != r || now.signs >= before+enough)
			})
		} else {
			a.awaitTerm(term)
			undo()
		}
		seen[f.name+" / "+string(r.kind)]++
		if found, _ := a.overlaps(); len(found) > 0 {
			t.Fatalf("%s:\n%s\n%s", what, strings.Join(found, "\n"), a.story())
		}
	}
	a.finish(seen)
}

func TestProgramsOnAClusterOfThreeMoveWithTheirHosts(t *testing.T) {
	cluster := devtest.StartCluster(t)
	a := newArenaOn(t, []kind{plain, stubborn, forking}, func(int) string { return cluster.URL() })
	term, r := a.awaitTerm(0)

	a.hosts[r.id].signal(syscall.SIGTERM)
	if r.kind == stubborn {
		a.hosts[r.id].kill()
	}
	a.hosts[r.id].awaitEnd()
	_, r = a.awaitTerm(term)

	// Without the server that leads the stream, nothing can be renewed for a
	// while.
	node := cluster.StreamLeader("KV_leaders")
	node.Stop()
	before := r.signs
	a.await("signs of life without a server", func() bool {
		_, now := a.latest()
		return now.signs >= enough && (now != r || now.signs >= before+enough)
	})
	node.Run()
	term, r = a.latest()
	a.hosts[r.id].kill()
	a.awaitTerm(term)
	a.finish(nil)
}

func TestAWrongPasswordIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	url := serveUsers(t, &server.User{Username: "leader", Password: "right"})
	code, _, stderr := execute(t, []string{"NATS_PASSWORD=wrong"}, "run", "jobs", "--server", url, "--user", "leader", "--", "true")
	if code != 5 || !strings.Contains(strings.ToLower(stderr), "authorization") {
		t.Errorf("exit status %d: %s", code, stderr)
	}
}

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
	server *devtest.Server // nil on a cluster
	hosts  map[string]*host
	log    string
	read   *bufio.Reader
	part   []byte // of a line
	terms  map[uint64]*leadership
}

// rest is a fault's own length, not a wait for something.
func (a *arena) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-a.t.Context().Done():
	}
}

// deleteRecord deletes the group's key, as nats kv del does.
func (a *arena) deleteRecord() {
	a.t.Helper()
	nc, js := devtest.Connect(a.t, a.server.URL())
	defer nc.Close()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	kv, err := js.KeyValue(ctx, "leaders")
	if err == nil {
		err = kv.Delete(ctx, "trials")
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

func newArena(t *testing.T, kinds []kind) *arena {
	srv := devtest.Start(t)
	proxies := make([]*devtest.Proxy, len(kinds))
	for i := range proxies {
		proxies[i] = devtest.NewProxy(t, srv.Addr())
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
	proxy *devtest.Proxy
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
	if h.program == "" {
		h.program, h.command = program, []string{program}
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

// The program under leader run is this test's executable, told so by its
// environment. Without arguments it is the program; leader run and its guard
// have some, and the same environment.
const (
	kindVariable = "TRIAL_PROGRAM" // one of the kinds
	logVariable  = "TRIAL_LOG"     // the file that all programs append to
	partVariable = "TRIAL_PART"    // which process of a program it is
)

// A kind is a way in which a program behaves when it is to stop.
type kind string

const (
	plain    kind = "plain"    // ends soon after SIGTERM
	stubborn kind = "stubborn" // ignores SIGTERM
	forking  kind = "forking"  // ends, and leaves two behind that ignore SIGTERM: one in its group, one orphaned in a session of its own
	foreign  kind = "foreign"  // becomes root's, by a file that is setuid, and ignores SIGTERM
)

// beat is the time from one sign of life to the next.
const beat = 3 * time.Millisecond

// sharedNow reads a clock that all processes share.
func sharedNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // Linux has it
	}
	return ts.Nano()
}

// actAsProgram runs as the program if the environment says so, and reports
// whether it does.
func actAsProgram() bool {
	k, part := kind(os.Getenv(kindVariable)), os.Getenv(partVariable)
	if k == "" || len(os.Args) > 1 {
		return false
	}
	switch part {
	case "middle": // ends at once: its child becomes an orphan
		startPart("orphan", true)
		return true
	case "": // the program itself
		part = "main"
		if k == foreign {
			if err := syscall.Setuid(0); err != nil {
				fmt.Fprintln(os.Stderr, "setuid:", err)
				return true
			}
		}
		if k == forking {
			startPart("helper", false)
			startPart("middle", true)
		}
	}
	beatOn(k, part)
	return true
}

func startPart(part string, ownSession bool) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), partVariable+"="+part)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: ownSession}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// beatOn writes signs of life until it is to end.
func beatOn(k kind, part string) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM)
	log, err := os.OpenFile(os.Getenv(logVariable), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	sign := func() {
		// One write for each line, which O_APPEND keeps whole. What counts is
		// when the clock was read: then the process ran.
		fmt.Fprintf(log, "%d %s %s %d %s %s\n", sharedNow(), os.Getenv("LEADER_TERM"), os.Getenv("LEADER_ID"), os.Getpid(), k, part)
	}
	ticks := time.NewTicker(beat)
	var end <-chan time.Time
	for {
		sign()
		select {
		case <-ticks.C:
		case <-end:
			sign()
			return
		case <-signals:
			if k == plain || k == forking && part == "main" {
				end = time.After(20 * time.Millisecond)
			}
		}
	}
}

// An observation is one sign of life.
type observation struct {
	at   int64
	term uint64
	id   string
	pid  int
	kind kind
	part string
}

func parseObservation(line string) (s observation, err error) {
	f := strings.Fields(line)
	if len(f) != 6 {
		return s, fmt.Errorf("%d fields in %q", len(f), line)
	}
	s.id, s.kind, s.part = f[2], kind(f[4]), f[5]
	if s.at, err = strconv.ParseInt(f[0], 10, 64); err == nil {
		s.term, err = strconv.ParseUint(f[1], 10, 64)
	}
	if err == nil {
		s.pid, err = strconv.Atoi(f[3])
	}
	return s, err
}
