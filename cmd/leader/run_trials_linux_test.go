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
	"iter"
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

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/relay"
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
			h.proxy.Hold(relay.ToServer, relay.ToClient)
			return h.proxy.Resume
		}},
		{"host cut off", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.proxy.Hold(relay.ToServer, relay.ToClient)
			return h.proxy.Resume
		}},
		{"answers lost", func(h *host, _ *leadership, _ *rand.Rand) func() {
			h.proxy.Hold(relay.ToClient)
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
			h.proxy.Hold(relay.ToServer, relay.ToClient)
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
	proxies := make([]*relay.Relay, len(kinds))
	for i := range proxies {
		proxies[i] = relay.New(t, srv.Addr())
	}
	a := newArenaOn(t, kinds, func(i int) string { return "nats://" + proxies[i].Addr() })
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
				found = append(found, fmt.Sprintf("an earlier program ran until %v after the program of term %d (%s, %s) had started", -gap, term, r.id, r.kind))
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

// story is the hosts' last output.
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
	proxy *relay.Relay
	// How it runs, if not as the others do.
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

// The program under leader run is this test's executable, as its environment
// requests. Without arguments it is the program; leader run and its guard have
// some, and the same environment.
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
	forking  kind = "forking"  // ends, and leaves two behind that ignore SIGTERM: one in its group, one orphaned in a new session
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

// actAsProgram runs as the program if the environment requests that, and
// reports whether it does.
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
		// Write each line in a single call, which O_APPEND keeps whole. The
		// time of reading the clock counts: then the process ran.
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

// nobody is a user without rights.
const nobody = 65534

const (
	// unending is the lease of a leader that is to keep it however busy the
	// machine is.
	unending = time.Minute
	// ending is the TTL of a leader whose lease is to run out, and not before
	// it is cut off.
	ending = 3 * time.Second
)

// A stage is a directory that nobody can read, with the command, and with this
// test as a file that is root's and setuid.
type stage struct{ command, setuid string }

// newStage skips the test where no such file can be had.
func newStage(t *testing.T) stage {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: a file that is setuid for root is for root to make; run this test as root")
	}
	dir, err := os.MkdirTemp("", "leader-credentials-") //nolint:usetesting // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Flags&unix.ST_NOSUID != 0 {
		t.Skipf("SKIPPED: %s is mounted nosuid, and no file in it can be setuid; set TMPDIR", dir)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := stage{command: filepath.Join(dir, "leader"), setuid: filepath.Join(dir, "setuid-helper")}
	copyFile(t, s.command, program, 0o755)
	copyFile(t, s.setuid, program, 0o755|os.ModeSetuid)
	return s
}

func copyFile(t *testing.T, to, from string, mode os.FileMode) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(out, in)
		err = errors.Join(err, out.Close(), os.Chmod(to, mode))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// host is a leader run as the user nobody, whose program starts the setuid
// file. A shell runs between them, so that the file cannot be examined
// beforehand.
func (s stage) host(t *testing.T, srv *devtest.Server) *host {
	t.Helper()
	proxy := relay.New(t, srv.Addr())
	return &host{
		id: "foreign", kind: foreign, url: "nats://" + proxy.Addr(), proxy: proxy, program: s.command,
		command: []string{"/bin/sh", "-c", s.setuid + " & wait"}, as: &syscall.Credential{Uid: nobody, Gid: nobody},
	}
}

// newForeign returns an arena in which nobody's leader run leads, by leases of
// that length and in a cgroup or in none, and a host that waits.
func newForeign(t *testing.T, cgroup *os.File, lease time.Duration) (a *arena, leads, waits *host, r *leadership) {
	t.Helper()
	s := newStage(t)
	a = newEmptyArena(t)
	a.server = devtest.Start(t)
	leads = s.host(t, a.server)
	leads.cgroup, leads.lease = cgroup, lease
	// The bucket is the test's own: nobody led in one of its name before. A
	// host that waits for a lease because of that would hide a host that waits
	// for one without success.
	leads.flags = []string{"--grace", "off"}
	if cgroup == nil {
		leads.flags = append(leads.flags, "--cgroup", "off")
	}
	a.add(leads)
	t.Cleanup(func() {
		for _, r := range a.terms {
			r.kill()
		}
	})
	waits, r = a.addWaiting(leads)
	return a, leads, waits, r
}

// addWaiting adds a host that waits while the other runs the program of the
// latest term. It begins again, with another one that waits, if the machine
// stalled for a lease and the program has ended.
func (a *arena) addWaiting(leads *host) (waits *host, r *leadership) {
	a.t.Helper()
	for {
		a.await(leads.id+" runs its program", func() bool {
			_, r = a.latest()
			return r != nil && r.id == leads.id && r.signs >= enough && alive(r.helper())
		})
		waits = &host{id: "waits", kind: plain, url: a.server.URL(), lease: leads.lease, flags: []string{"--grace", "off"}}
		a.add(waits)
		follows := func() bool { return strings.Contains(waits.said.tail(), strconv.Quote(leads.id)+" leads") }
		a.await(waits.id+" follows "+leads.id, func() bool { return follows() || !alive(r.helper()) })
		if alive(r.helper()) {
			return waits, r
		}
		waits.kill()
	}
}

// helper is the one process of a term.
func (r *leadership) helper() int { return slices.Collect(maps.Keys(r.pids))[0] }

// kill kills a term's processes, by root's right.
func (r *leadership) kill() {
	for pid := range r.pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

func (h *host) awaitSaid(what string) {
	h.a.t.Helper()
	h.a.await(h.id+" prints "+what, func() bool { return strings.Contains(h.said.tail(), what) })
}

// stepDown asks the leader to leave, and does not wait for it.
func (a *arena) stepDown() {
	a.t.Helper()
	cmd := exec.Command(program, "step-down", "trials", "--server", a.server.URL(), "--yes", "--no-wait")
	if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() != nobodyLeads {
		a.t.Fatalf("%v: %s", err, out)
	}
}

// nobodyLeads is the exit status of step-down where the term is over already.
const nobodyLeads = 4

// revision is the revision of the group's record.
func (a *arena) revision() uint64 {
	a.t.Helper()
	nc, js := devtest.Connect(a.t, a.server.URL())
	defer nc.Close()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	kv, err := js.KeyValue(ctx, "leaders")
	if err != nil {
		a.t.Fatal(err)
	}
	e, err := kv.Get(ctx, "trials")
	if err != nil {
		a.t.Fatal(err)
	}
	return e.Revision()
}

// writes yields what is written to the group's record from now on, in the order
// of the stream. (Who hears the writes before they are stored may hear what
// answers one of them first.)
func (a *arena) writes() iter.Seq[inspect.Record] {
	a.t.Helper()
	nc, _ := devtest.Connect(a.t, a.server.URL())
	sub, err := nc.SubscribeSync("leader.leaders.trials")
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(nc.Close)
	return func(yield func(inspect.Record) bool) {
		for {
			m, err := sub.NextMsg(patience)
			if err != nil {
				a.t.Fatalf("no write: %v\n%s", err, a.story())
			}
			if !yield(inspect.ReadRecord(store.Entry{Value: m.Data, Revision: 1})) {
				return
			}
		}
	}
}

func TestAProcessOfAnotherUserIsNamedWhileTheTermLasts(t *testing.T) {
	a, leads, _, r := newForeign(t, nil, unending)
	leads.awaitSaid(fmt.Sprintf(`process %d ("setuid-helper", uid 0) could not be ended when the term is over`, r.helper()))
	// The user who asks it to end also learns why it does not.
	leads.signal(syscall.SIGTERM)
	leads.awaitSaid(fmt.Sprintf(`process %d ("setuid-helper", uid 0) cannot be ended: uid 65534`, r.helper()))
	r.kill()
	leads.awaitEnd()
	a.finish(nil)
}

func TestNothingIsReleasedWhileAProcessOfAnotherUserLives(t *testing.T) {
	a, leads, _, r := newForeign(t, nil, unending)
	a.stepDown()
	leads.awaitSaid(fmt.Sprintf(`process %d ("setuid-helper", uid 0) cannot be ended: uid 65534`, r.helper()))
	// A release would be seen by the other host at once, and lead to its
	// program.
	first := a.revision()
	a.await("twenty renewals", func() bool { return a.revision() >= first+20 })
	if _, now := a.latest(); now != r {
		t.Fatalf("%s runs its program beside one that lives\n%s", now.id, a.story())
	}
	// Once it has ended nobody has to wait for the lease any more.
	writes := a.writes()
	r.kill()
	for rec := range writes {
		if rec.ID == "waits" {
			t.Fatalf("the record was not released, and its lease ran out\n%s", a.story())
		}
		if rec.ID == "" {
			break
		}
	}
	a.await("the program of the other host", func() bool { _, now := a.latest(); return now.id == "waits" })
	a.finish(nil)
}

func TestAHookOfAnotherUserIsWaitedForAndNamed(t *testing.T) {
	s := newStage(t)
	a := newEmptyArena(t)
	a.server = devtest.Start(t)
	h := s.host(t, a.server)
	h.lease = unending
	h.flags, h.command = []string{"--grace", "off", "--on-promote", "exec " + s.setuid, "--timeout", "2s"}, []string{"/bin/sleep", "600"}
	a.add(h)
	_, r := a.awaitTerm(0)
	t.Cleanup(r.kill)
	h.awaitSaid(fmt.Sprintf(`setuid-helper" cannot be ended: uid 65534 may not signal process %d`, r.helper()))
	r.kill()
	h.awaitSaid("started /bin/sleep")
	h.signal(syscall.SIGTERM)
	h.awaitEnd()
}

// Of a host that is cut off the lease runs out, whatever it does. It can only
// report that, and must not start again beside the leftovers of the last term.
func TestAHostWhoseProgramLivesOnDoesNotLeadAgain(t *testing.T) {
	a, leads, waits, r := newForeign(t, nil, ending)
	term, _ := a.latest()
	leads.proxy.Hold(relay.ToServer, relay.ToClient)
	leads.awaitSaid("THE LEASE HAS RUN OUT while process " + strconv.Itoa(r.helper()))
	term, _ = a.awaitTerm(term)
	leads.proxy.Resume()
	waits.kill()
	// No other host is there, and its lease runs out; twice that is the trial's
	// own length.
	a.rest(2 * ending)
	a.look()
	if now, by := a.latest(); now != term {
		t.Fatalf("%s leads in term %d while its last program lives\n%s", by.id, now, a.story())
	}
	r.kill()
	if _, by := a.awaitTerm(term); by.id != "foreign" {
		t.Errorf("%s leads", by.id)
	}
	leads.awaitSaid("processes that could not be ended have ended by themselves")
}

func TestAProgramThatCouldNotBeEndedIsRefused(t *testing.T) {
	s := newStage(t)
	srv := devtest.Start(t)
	// Not by its rights, which only the true one has, but by its name.
	sudo := filepath.Join(filepath.Dir(s.command), "sudo")
	copyFile(t, sudo, "/bin/true", 0o755)
	for name, c := range map[string]struct {
		as    uint32
		flags []string
		runs  string
		code  int
		says  string
	}{
		"by its name":          {nobody, []string{"--cgroup", "off"}, sudo, 126, "sudo starts programs as another user, and uid 65534"},
		"by its file":          {nobody, []string{"--cgroup", "off"}, s.setuid, 126, "setuid-helper is setuid, and may become uid 0"},
		"not if that is meant": {nobody, []string{"--cgroup", "off", "--allow-setuid"}, sudo, 0, "may not be able to end it"},
		"not with the right":   {0, []string{"--cgroup", "off"}, sudo, 0, "ended with status 0"},
		"nor without a cgroup": {nobody, []string{"--cgroup", "require"}, "/bin/true", 1, "--cgroup require: "},
		"nor in no cgroup":     {nobody, []string{"--cgroup", "/no/such/place"}, "/bin/true", 1, "/no/such/place"},
	} {
		t.Run(name, func(t *testing.T) {
			// The bucket is the test's own: nobody led in one of its name
			// before.
			args := append([]string{"run", "refused", "--server", srv.URL(), "--grace", "off"}, c.flags...)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, s.command, append(args, "--", c.runs)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.as, Gid: c.as}}
			said, _ := cmd.CombinedOutput() // see the exit status
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(said), c.says) {
				t.Errorf("exit status %d, want %d and the output %q:\n%s", code, c.code, c.says, said)
			}
		})
	}
}

// newCgroup returns a cgroup of nobody's, for a leader run of nobody's to start
// in. It skips the test where none can be made.
func newCgroup(t *testing.T) (dir string, open *os.File) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); strings.Contains(line, " - cgroup2 ") && len(f) > 4 {
			dir, err = os.MkdirTemp(f[4], "leader-test-") //nolint:usetesting // this makes a cgroup
		}
	}
	if err != nil || dir == "" {
		t.Skipf("SKIPPED: --cgroup is not tested here, since this machine lets nobody make a cgroup of version 2 (%v)", err)
	}
	t.Cleanup(func() { removeCgroup(t, dir) })
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil {
		t.Skipf("SKIPPED: --cgroup is not tested here: %v", err)
	}
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(dir, name), nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	open, err = os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = open.Close() })
	return dir, open
}

// removeCgroup ends what is left in a cgroup, and removes it.
func removeCgroup(t *testing.T, dir string) {
	t.Helper()
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // it may be empty
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for end := time.Now().Add(patience); ; <-retry.C {
		for _, below := range runsIn(t, dir) {
			_ = unix.Rmdir(below) // as above
		}
		err := unix.Rmdir(dir)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", dir, err)
		}
	}
}

// runsIn returns the cgroups of runs.
func runsIn(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "leader-run-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestACgroupEndsWhatMayNotBeSignalled(t *testing.T) {
	for name, strike := range map[string]func(a *arena, leads *host){
		"the term is over":              func(a *arena, _ *host) { a.stepDown() },
		"the host is cut off":           func(_ *arena, leads *host) { leads.proxy.Hold(relay.ToServer, relay.ToClient) },
		"the guard is killed":           func(_ *arena, leads *host) { leads.signalGuard(syscall.SIGKILL) },
		"the candidate is killed":       func(_ *arena, leads *host) { leads.kill() },
		"the guard hangs, all are gone": func(_ *arena, leads *host) { leads.signalGuard(syscall.SIGSTOP); leads.proxy.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			dir, open := newCgroup(t)
			a, leads, waits, r := newForeign(t, open, ttl)
			runs := runsIn(t, dir)
			for ; len(runs) != 1; runs = runsIn(t, dir) {
				// The cgroup is there for as long as the program is.
				if alive(r.helper()) {
					t.Fatalf("cgroups of runs: %q\n%s", runs, a.story())
				}
				waits.kill() // the machine stalled for a lease
				waits, r = a.addWaiting(leads)
			}
			term, _ := a.latest()
			helper := r.helper()
			strike(a, leads)
			a.awaitTerm(term)
			if alive(helper) {
				t.Error("the program of before lives")
			}
			if said := leads.said.tail(); strings.Contains(said, "cannot be ended") {
				t.Error(said)
			}
			// If the machine stalls for the next lease, the host leads and runs its
			// program again, in a cgroup of another name.
			a.await("the cgroup of the run is gone", func() bool { return !slices.Contains(runsIn(t, dir), runs[0]) })
			leads.kill()
			a.finish(nil)
		})
	}
}
