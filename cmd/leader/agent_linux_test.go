package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
)

// agentTTL is long enough that a busy machine seldom costs a term, which the
// tests would not mind.
const agentTTL = 2 * time.Second

// seconds reads a clock of the system.
func seconds(t *testing.T, clock int32) float64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		t.Fatal(err)
	}
	return float64(ts.Nano()) / 1e9
}

// A belief is a candidate's or client's report on one term, in seconds of
// CLOCK_BOOTTIME: it was trusted from At until Until, or until it stopped.
type belief struct {
	Name    string
	Term    uint64
	At      float64
	Until   float64
	Stopped float64
	Stands  string
}

// beliefs are the beliefs of all candidates of a group.
type beliefs struct {
	mu      sync.Mutex
	all     []belief
	changed chan struct{} // has a token after a change
}

func (b *beliefs) add(one belief) {
	b.mu.Lock()
	b.all = append(b.all, one)
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// A tenure is what one candidate believed of one term.
type tenure struct {
	name     string
	term     uint64
	from, to float64
}

func (b *beliefs) tenures() (all []tenure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	type key struct {
		name string
		term uint64
	}
	found := map[key]*tenure{}
	for _, one := range b.all {
		k := key{one.Name, one.Term}
		t := found[k]
		switch {
		case one.Term == 0:
		case t == nil && one.Stopped == 0:
			found[k] = &tenure{one.Name, one.Term, one.At, one.Until}
		case t != nil && one.Stopped > 0:
			t.to = min(t.to, one.Stopped)
		case t != nil:
			t.to = max(t.to, one.Until)
		}
	}
	for _, t := range found {
		all = append(all, *t)
	}
	slices.SortFunc(all, func(a, b tenure) int { return int(a.term) - int(b.term) })
	return all
}

// An agentLab has a server, two agents with a client each, and a candidate of
// this process, all for one group.
type agentLab struct {
	*readLab

	group string
	*beliefs

	agents  map[string]*exec.Cmd // by the sides of their clients
	clients map[string]*exec.Cmd
	names   map[string]string // of the clients, which begin with the side
	own     leader.Election
	serial  int
}

// languages are those that the agent has a client for, by the programs that run
// it.
func languages() []string { return []string{"python3", "node"} }

// spoken skips the test if the machine does not have a language. It does so
// even if CI=true, since the tests need a Go toolchain alone, and nothing
// installs more; make test lists what it leaves out.
func spoken(t *testing.T, language string) {
	t.Helper()
	_, err := exec.LookPath(language)
	switch {
	case err == nil:
	case os.Getenv("LEADER_CLIENTS") == "required":
		t.Fatal(err)
	default:
		t.Skipf("SKIPPED, NOT TESTED: the client of leader agent for %s: %v", language, err)
	}
}

// clients returns the directory of the clients in a language. It is read, so
// that Go's test cache sees what the programs that run them open.
func clients(t *testing.T, language string) string {
	t.Helper()
	dir := repository("examples/agent/" + language)
	if _, err := os.ReadDir(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func newAgentLab(t *testing.T) *agentLab {
	t.Helper()
	return &agentLab{
		readLab: newReadLab(t), group: "shared", beliefs: &beliefs{changed: make(chan struct{}, 1)},
		agents: map[string]*exec.Cmd{}, clients: map[string]*exec.Cmd{}, names: map[string]string{},
	}
}

func (l *agentLab) socket(side string) string { return filepath.Join(l.dir(), side+".sock") }

// dir is short, since the path of a socket may have no more than 107 bytes.
func (l *agentLab) dir() string {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("leader-%d-%s", os.Getpid(), filepath.Base(l.t.Name())))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// agent starts the agent of a side, and returns when it listens.
func (l *agentLab) agent(side string) {
	l.t.Helper()
	l.agents[side], _ = l.serve("unix://" + l.socket(side))
}

// serve starts an agent, and returns when it has printed where it listens.
func (l *agentLab) serve(listen string, args ...string) (cmd *exec.Cmd, url string) {
	l.t.Helper()
	cmd = command(l.t, []string{"NATS_URL=" + l.url}, append([]string{
		"agent", "--listen", listen, "--ttl", agentTTL.String(),
	}, args...)...)
	cmd.Stderr = l.t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { finish(cmd) })
	lines := bufio.NewScanner(out)
	lines.Scan()
	url, ok := strings.CutPrefix(lines.Text(), "agent ")
	if !ok {
		l.t.Fatalf("the agent does not print its address: %q, %v", lines.Text(), lines.Err())
	}
	return cmd, url
}

// finish kills what may be frozen.
func finish(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
}

// client starts the client of a side's agent, in a language.
func (l *agentLab) client(side, language string) {
	l.t.Helper()
	l.serial++
	name := fmt.Sprintf("%s%d", side, l.serial)
	l.clients[side] = l.begin(l.worker("unix://"+l.socket(side), language, name, ""), language, name)
	l.names[side] = name
}

// worker is a client that was not started yet.
func (l *agentLab) worker(agent, language, name, token string) *exec.Cmd {
	l.t.Helper()
	program := filepath.Join(clients(l.t, "python"), "worker.py")
	if language == "node" {
		program = filepath.Join(clients(l.t, "node"), "worker.mjs")
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	l.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, language, program, agent, l.group, name)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "LEADER_AGENT_TOKEN="+token)
	return cmd
}

// begin starts a client, and returns when its candidate campaigns.
func (l *agentLab) begin(cmd *exec.Cmd, language, name string) *exec.Cmd {
	l.t.Helper()
	shift := 0.0
	if language == "node" {
		shift = seconds(l.t, unix.CLOCK_BOOTTIME) - seconds(l.t, unix.CLOCK_MONOTONIC)
	}
	cmd.Stderr = l.t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	read := make(chan struct{})
	l.t.Cleanup(func() { _ = cmd.Process.Kill(); <-read; _ = cmd.Wait() })
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var b belief
			if err := json.Unmarshal(lines.Bytes(), &b); err != nil {
				l.t.Errorf("%s prints %q: %v", name, lines.Text(), err)
				return
			}
			for _, at := range []*float64{&b.At, &b.Until, &b.Stopped} {
				if *at > 0 {
					*at += shift
				}
			}
			l.add(b)
		}
	}()
	l.await(name+" does not start", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.ContainsFunc(l.all, func(b belief) bool { return b.Name == name && b.Stands != "" })
	})
	return cmd
}

// stand starts a candidate in this process, too.
func (l *agentLab) stand() {
	l.t.Helper()
	var mu sync.Mutex
	var term uint64
	boot := func(at time.Time) float64 {
		return seconds(l.t, unix.CLOCK_BOOTTIME) - time.Since(at).Seconds()
	}
	window := time.Duration(float64(agentTTL) * (1 - leader.DefaultClockDrift))
	e, err := leader.NewElection(l.nc, leader.ElectionConfig{
		Bucket: labBucket, Group: l.group, InstanceID: "own", TTL: agentTTL, HeartbeatInterval: agentTTL / 5, DeleteOnStop: true,
		AcquireGrace: leader.GraceOff,
		Hooks: leader.Hooks{Call: func(c leader.Call) {
			mu.Lock()
			defer mu.Unlock()
			if term != 0 && c.Kind == "renew" && c.Outcome == store.OK {
				l.add(belief{Name: "own", Term: term, At: boot(c.Sent), Until: boot(c.Sent.Add(window))})
			}
		}},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	e.OnTerm(func(ctx context.Context, t leader.Term) {
		mu.Lock()
		term = t.Number
		l.add(belief{Name: "own", Term: term, At: boot(time.Now()), Until: boot(e.TrustUntil())})
		mu.Unlock()
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		l.add(belief{Name: "own", Term: term, Stopped: boot(time.Now())})
		term = 0
	})
	if err := e.Start(context.WithoutCancel(l.within())); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = e.Stop() })
	l.own = e
}

// await waits until the beliefs fulfil a condition.
func (l *agentLab) await(what string, done func() bool) {
	l.t.Helper()
	ctx := l.within()
	for !done() {
		select {
		case <-l.changed:
		case <-ctx.Done():
			l.t.Fatalf("%s: %+v", what, l.tenures())
		}
	}
}

// leads waits for a term after the given one that is trusted now, and returns
// it.
func (l *agentLab) leads(after uint64) (latest tenure) {
	l.t.Helper()
	l.await(fmt.Sprintf("nobody leads after term %d", after), func() bool {
		all := l.tenures()
		if len(all) == 0 {
			return false
		}
		latest = all[len(all)-1]
		return latest.term > after && latest.to > seconds(l.t, unix.CLOCK_BOOTTIME)
	})
	return latest
}

// checkApart checks that no two terms were trusted at the same time.
func (l *agentLab) checkApart() {
	l.t.Helper()
	end := math.Inf(-1)
	for _, one := range l.tenures() {
		if one.from < end {
			l.t.Errorf("%s is trusted with term %d %.1f ms before the trust in the term before ended", one.name, one.term, (end-one.from)*1e3)
		}
		end = max(end, one.to)
	}
	if l.t.Failed() {
		l.t.Logf("%+v", l.tenures())
	}
}

func sendTo(t *testing.T, cmd *exec.Cmd, s os.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// ledBy has a side's client lead in a term after the given one, and returns
// that.
func (l *agentLab) ledBy(side string, after uint64) (led tenure) {
	l.t.Helper()
	l.until("the client of "+side+" leads", func() error {
		if led = l.leads(after); led.name[:1] == side {
			return nil
		}
		// A candidate whose agent or client has just come back may not campaign
		// yet.
		code, _, stderr := runProgram(l.t, []string{"NATS_URL=" + l.url}, "transfer", l.group, "--to", l.names[side], "--yes")
		return fmt.Errorf("%s leads, and transfer ends with %d: %s", led.name, code, stderr)
	})
	return led
}

// Two agents and a candidate of this process campaign for one group. Whatever
// happens to an agent or a client, nobody leads before the previous leader's
// trust has ended by its own clock and report. Each fault strikes a leader, and
// each a client of each language.
func TestClientsOfAgentsAreNeverTrustedAtOnce(t *testing.T) {
	t.Parallel()
	for i, victim := range languages() {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			spoken(t, victim)
			other := languages()[1-i]
			if _, err := exec.LookPath(other); err != nil {
				other = victim
			}
			neverTrustedAtOnce(t, victim, other)
		})
	}
}

// neverTrustedAtOnce strikes the client of side a, and its agent.
func neverTrustedAtOnce(t *testing.T, victims, others string) {
	t.Helper()
	l := newAgentLab(t)
	l.agent("a")
	l.agent("b")
	l.client("a", victims)
	l.client("b", others)
	l.stand()
	var term uint64
	for _, fault := range []struct {
		name           string
		strike, repair func()
	}{
		{name: "the agent is frozen", strike: func() { sendTo(t, l.agents["a"], syscall.SIGSTOP) },
			repair: func() { sendTo(t, l.agents["a"], syscall.SIGCONT) }},
		{name: "the client is frozen", strike: func() { sendTo(t, l.clients["a"], syscall.SIGSTOP) },
			repair: func() { sendTo(t, l.clients["a"], syscall.SIGCONT) }},
		{name: "the client is killed", strike: func() { sendTo(t, l.clients["a"], syscall.SIGKILL) },
			repair: func() { l.client("a", victims) }},
		{name: "the agent is killed", strike: func() { finish(l.agents["a"]) },
			repair: func() { l.agent("a") }},
		{name: "the agent ends", strike: func() { l.end("a") },
			repair: func() { l.agent("a") }},
		{name: "the client ends", strike: func() { sendTo(t, l.clients["a"], syscall.SIGTERM) },
			repair: func() { l.client("a", victims) }},
	} {
		victim := l.ledBy("a", term)
		fault.strike()
		next := l.leads(victim.term)
		t.Logf("%s (of %s, %s): the next, %s, is trusted %.0f ms after the trust in it ended",
			fault.name, victims, victim.name, next.name, (next.from-l.endOf(victim))*1e3)
		fault.repair()
		term = victim.term
	}
	l.ledBy("a", term) // it campaigns again when all is back
	l.checkApart()
}

// Over loopback every user of the machine reaches an agent. Its token decides
// which users may campaign.
func TestClientsOfAgentsSendTheTokenOverLoopback(t *testing.T) {
	t.Parallel()
	for _, language := range languages() {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			spoken(t, language)
			const token = "correct-horse-battery"
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			l := newAgentLab(t)
			_, url := l.serve("127.0.0.1:0", "--token-file", file)
			if !strings.HasPrefix(url, "http://127.0.0.1:") {
				t.Fatalf("the agent listens on %s", url)
			}
			for name, wrong := range map[string]string{"none": "", "another": token + "-staple"} {
				said, err := l.worker(url, language, name, wrong).CombinedOutput()
				if exit := new(exec.ExitError); !errors.As(err, &exit) || !strings.Contains(string(said), "a token is needed") {
					t.Errorf("with %s token it ends with %v and prints %q", name, err, said)
				}
			}
			first := l.begin(l.worker(url, language, "a", token), language, "a")
			led := l.leads(0)
			l.begin(l.worker(url, language, "b", token), language, "b")
			sendTo(t, first, syscall.SIGTERM)
			for led.name == "a" { // which may have lost a term on a busy machine
				led = l.leads(led.term)
			}
			l.checkApart()
		})
	}
}

// clockless runs a client in Python with clocks that a test moves, on a system
// without a clock that runs on while it is suspended, such as macOS.
const clockless = `
import os, sys, time
sys.path.insert(0, sys.argv[2])
from leader_agent import Candidate

clocks = {"monotonic": 100.0, "time": 1e9}
vars(time).pop("CLOCK_BOOTTIME", None)
time.monotonic, time.time = lambda: clocks["monotonic"], lambda: clocks["time"]

candidate = Candidate(sys.argv[1], "reports", "a").__enter__()
terms = candidate.terms()
trusted = next(terms).trusted
for moved in "neither", "monotonic", "time":
    if moved in clocks:
        clocks[moved] += 60
    print(moved, trusted(), flush=True)
    clocks.update(monotonic=100.0, time=1e9)
os._exit(0)  # the agent would answer no farewell
`

// A monotonic clock stops while such a system is suspended, and others set its
// wall clock: the earlier verdict counts.
func TestTheClientInPythonGoesByTwoClocksWhereNoneRunsOn(t *testing.T) {
	t.Parallel()
	spoken(t, "python3")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/candidates") {
			fmt.Fprint(w, `{"candidate":"c","term":7,"token":"t","trust_for_ms":10000,"keepalive_after_ms":1000}`)
			return
		}
		<-ctx.Done() // nothing renews the trust
	}))
	defer agent.Close()
	defer cancel() // what waits for it
	cmd := exec.CommandContext(ctx, "python3", "-c", clockless, agent.URL, clients(t, "python"))
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = t.Output()
	said, err := cmd.Output()
	if want := "neither True\nmonotonic False\ntime False\n"; err != nil || string(said) != want {
		t.Errorf("%v: %q, want %q", err, said, want)
	}
}

// end ends an agent, whose client stops in time.
func (l *agentLab) end(side string) {
	l.t.Helper()
	cmd := l.agents[side]
	sendTo(l.t, cmd, syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		l.t.Errorf("the agent of %s ends with %v", side, err)
	}
}

// endOf returns when the trust in a term ended.
func (l *agentLab) endOf(of tenure) float64 {
	for _, one := range l.tenures() {
		if one.name == of.name && one.term == of.term {
			return one.to
		}
	}
	return of.to
}
