//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/demo"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/runner/process"
)

// A live is a demo under way.
type live struct {
	t      *testing.T
	cmd    *exec.Cmd
	events chan demo.Event
	seen   []demo.Event
}

// start starts a demo that prints JSON.
func start(t *testing.T, env []string, args ...string) *live {
	t.Helper()
	l := &live{t: t, cmd: command(t, env, append([]string{"demo", "--json"}, args...)...), events: make(chan demo.Event)}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.cmd.Stderr = os.Stderr
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(l.events)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e demo.Event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				l.events <- e
			}
		}
	}()
	t.Cleanup(func() {
		_ = l.cmd.Process.Kill()
		for range l.events {
		}
		_ = l.cmd.Wait()
	})
	return l
}

// await returns the next event that fits.
func (l *live) await(what string, fits func(demo.Event) bool) demo.Event {
	l.t.Helper()
	for e := range l.events {
		l.seen = append(l.seen, e)
		if fits(e) {
			return e
		}
	}
	l.t.Fatalf("the demo ended before: %s", what)
	return demo.Event{}
}

func (l *live) awaitKind(kind demo.EventKind) demo.Event {
	l.t.Helper()
	return l.await(string(kind), func(e demo.Event) bool { return e.Kind == kind })
}

func (l *live) awaitPromotion() demo.Event {
	l.t.Helper()
	return l.await("promotion", func(e demo.Event) bool { return e.Kind == demo.EventTransition && e.To == "LEADER" })
}

// signal sends a signal to a worker that has joined.
func (l *live) signal(worker string, sig syscall.Signal) {
	l.t.Helper()
	for _, e := range pick(l.seen, demo.EventJoin) {
		if e.Worker == worker {
			if err := syscall.Kill(e.PID, sig); err != nil {
				l.t.Fatal(err)
			}
			return
		}
	}
	l.t.Fatalf("no worker %s", worker)
}

// end reads the rest and returns the exit status.
func (l *live) end() int {
	l.t.Helper()
	for e := range l.events {
		l.seen = append(l.seen, e)
	}
	_ = l.cmd.Wait() // see the exit status
	return l.cmd.ProcessState.ExitCode()
}

// endsItsScript reads the rest, and checks that the demo has come to its end
// after the one fault.
func (l *live) endsItsScript() {
	l.t.Helper()
	if code := l.end(); code != 0 {
		l.t.Errorf("exit status %d", code)
	}
	last := l.seen[len(l.seen)-1]
	if last.Kind != demo.EventEnd || len(last.Summary.Outcomes) != 1 || last.Summary.Outcomes[0].NextTerm == 0 {
		l.t.Errorf("the last event is %+v", last)
	}
	checkGone(l.t, l.seen)
}

func decode(t *testing.T, out string) (events []demo.Event) {
	t.Helper()
	for line := range strings.Lines(out) {
		var e demo.Event
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		events = append(events, e)
	}
	return events
}

func pick(events []demo.Event, kind demo.EventKind) (found []demo.Event) {
	for _, e := range events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// checkGone checks that no worker outlived the demo.
func checkGone(t *testing.T, events []demo.Event) {
	t.Helper()
	joined := pick(events, demo.EventJoin)
	if len(joined) == 0 {
		t.Error("no worker joined")
	}
	for _, e := range joined {
		awaitGone(t, e.PID)
	}
}

// awaitGone waits until no process has the id.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-pause.C {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) {
			return
		}
	}
	t.Errorf("process %d lives on", pid)
}

// zombie reports whether a process is dead and only its parent, who is not us,
// has not noticed.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// It runs alone: its leases are short, and each is to end for the reason that
// the fault gives.
func TestEachFaultEndsWithOneLeader(t *testing.T) {
	const script = "1s crash; 1s freeze; 1s cut; 1s resign; 1s delete; 1s restart"
	code, out, stderr := runProgram(t, nil, "demo", "--json", "--workers", "4", "--no-splay", "--script", script)
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d, stderr %q\n%s", code, stderr, out)
	}
	events := decode(t, out)
	end := events[len(events)-1]
	if end.Kind != demo.EventEnd || end.Summary == nil {
		t.Fatalf("the last event is %+v", end)
	}
	sum := end.Summary
	if sum.TwoLeaders != 0 || sum.Samples == 0 {
		t.Errorf("%d instants with two leaders, of %d samples", sum.TwoLeaders, sum.Samples)
	}
	want := []demo.Fault{demo.Crash, demo.Freeze, demo.Cut, demo.Resign, demo.Delete, demo.Restart}
	if len(sum.Outcomes) != len(want) {
		t.Fatalf("%d outcomes: %+v", len(sum.Outcomes), sum.Outcomes)
	}
	for i, o := range sum.Outcomes {
		checkOutcome(t, o, want[i])
	}
	checkStory(t, events, sum)
	checkGone(t, events)
}

// checkOutcome checks what became of one fault.
func checkOutcome(t *testing.T, o demo.Outcome, want demo.Fault) {
	t.Helper()
	if o.Fault != want {
		t.Errorf("fault %s, want %s", o.Fault, want)
	}
	if o.Kept && o.Fault == demo.Restart {
		return // the server was back in time
	}
	if o.NextTerm <= o.Term || o.Leader == "" || o.Took <= 0 {
		t.Errorf("%s: no new term followed: %+v", want, o)
	}
	switch reason := o.Reason; want {
	case demo.Crash, demo.Freeze, demo.Cut:
		if reason != "expired" || o.Leader == o.Worker {
			t.Errorf("%s: %s leads for the reason %s, want another than %s after an expiry", want, o.Leader, reason, o.Worker)
		}
	case demo.Resign:
		// On a machine so slow that the lease ran out meanwhile, it may be
		// another reason.
		if reason != "offered" && reason != "vacant" && o.Took < 2000 {
			t.Errorf("%s: a new leader for the reason %s, want offered, or vacant if an offer took too long: %+v", want, reason, o)
		}
	case demo.Delete:
		if reason != "vacant" && o.Took < 2000 {
			t.Errorf("%s: a new leader for the reason %s, want vacant: %+v", want, reason, o)
		}
	case demo.Restart, demo.Kill, demo.Return:
	}
}

// checkStory checks that the events agree with the summary.
func checkStory(t *testing.T, events []demo.Event, sum *demo.Summary) {
	t.Helper()
	ended := len(pick(events, demo.EventFailover)) + len(pick(events, demo.EventKept))
	if ended != len(sum.Outcomes) || len(pick(events, demo.EventFault)) != len(sum.Outcomes) {
		t.Errorf("%d faults end in the events, and %d in the summary", ended, len(sum.Outcomes))
	}
	var last uint64
	terms := 0
	for _, e := range pick(events, demo.EventTransition) {
		if e.To != "LEADER" {
			continue
		}
		terms++
		if e.Term <= last {
			t.Errorf("term %d after term %d", e.Term, last)
		}
		last = e.Term
	}
	if terms != sum.Terms {
		t.Errorf("%d promotions, and %d terms in the summary", terms, sum.Terms)
	}
	frozen := sum.Outcomes[1].Worker
	for _, e := range pick(events, demo.EventWoke) {
		if e.Worker == frozen && e.Took > 2000 && strings.Contains(e.Text, "says no") {
			return
		}
	}
	t.Errorf("%s did not wake as a follower: %+v", frozen, events)
}

// The second kill leaves no majority, and the script goes on by the returns.
func TestDemoKillsAndReturnsMembersOfItsQuorum(t *testing.T) {
	t.Parallel()
	code, out, stderr := runProgram(t, nil, "demo", "--json", "--workers", "2", "--no-splay", "--ttl", "5s", "--store", "quorum",
		"--script", "0s kill; 0s kill; 0s return; 0s return")
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d, stderr %q\n%s", code, stderr, out)
	}
	events := decode(t, out)
	sum := events[len(events)-1].Summary
	if sum == nil || len(sum.Outcomes) != 2 || sum.TwoLeaders != 0 {
		t.Fatalf("%s", out)
	}
	for _, o := range sum.Outcomes {
		if o.Fault != demo.Kill || !o.Kept && o.NextTerm <= o.Term {
			t.Errorf("a kill has neither been outlived nor been followed by a term: %+v", o)
		}
	}
	if back := pick(events, demo.EventHealed); len(back) != 2 || back[0].Text != "member a is back" || back[1].Text != "member b is back" {
		t.Errorf("the members have returned: %+v", back)
	}
	checkGone(t, events)
}

func TestPlainLinesAreForPeople(t *testing.T) {
	t.Parallel()
	var code int
	var out, stderr string
	for _, length := range []string{"4s", "20s", "60s"} { // a busy machine elects nobody in the first
		code, out, stderr = runProgram(t, []string{"WORKERS=2", "KEY=mine", "NOSPLAY=1"},
			"demo", "--for", length, "--script", "0s resign")
		if !strings.Contains(stderr, "were not played") {
			break
		}
	}
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d, stderr %q\n%s", code, stderr, out)
	}
	for _, want := range []string{
		"2 workers, group mine,", "nats://127.0.0.1:", "→ LEADER (absent) term", "resign: w", "after the resign",
		"instants with two leaders: 0 (of ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// The demo stops and kills what it finds. A user who has exported NATS_URL
// permanently wants to try things out, and not on that server.
func TestTheDemoBringsItsOwnServerWhateverTheEnvironmentNames(t *testing.T) {
	t.Parallel()
	args := []string{"demo", "--plain", "--workers", "1", "--for", "1s"}
	for _, name := range []string{"NATS_URL=nats://127.0.0.1:1", "NATS_CONTEXT=nowhere"} {
		code, out, stderr := runProgram(t, []string{name}, args...)
		variable, value, _ := strings.Cut(name, "=")
		if code != 0 || strings.Contains(out, value) || !strings.Contains(stderr, variable+" is not used") {
			t.Errorf("%s: exit status %d, stderr %q\n%s", name, code, stderr, out)
		}
		// The command line is obeyed, even if it has the same value.
		flag := map[string]string{"NATS_URL": "--server", "NATS_CONTEXT": "--context"}[variable]
		if code, _, stderr := runProgram(t, []string{name}, append(args, flag, value)...); code == 0 || strings.Contains(stderr, "is not used") {
			t.Errorf("%s with %s: exit status %d, stderr %q", name, flag, code, stderr)
		}
	}
}

func TestAnInterruptEndsTheDemoWithItsSummary(t *testing.T) {
	t.Parallel()
	l := start(t, nil, "--workers", "3", "--no-splay")
	l.awaitPromotion()
	if err := l.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := l.end(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	last := l.seen[len(l.seen)-1]
	if last.Kind != demo.EventEnd || last.Summary.Terms != 1 {
		t.Errorf("the last event is %+v, want the end of one term: the followers stop first", last)
	}
	checkGone(t, l.seen)
}

// In a container, process 1 adopts orphans. In a session, a subreaper does: on
// Linux this process becomes one before the second round. If the adopting parent
// is in the workers' own session, the kernel does not continue a stopped worker.
func TestNoWorkerOutlivesADemoThatIsKilled(t *testing.T) {
	t.Parallel()
	for _, adopts := range []bool{false, true} {
		if adopts {
			if err := process.Adopt(); err != nil {
				t.Fatal(err)
			}
		}
		l := start(t, nil, "--workers", "3", "--no-splay", "--script", "0s freeze", "--ttl", "30s", "--heartbeat", "1s")
		l.awaitKind(demo.EventFault) // one is frozen from here on
		if err := l.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		l.end()
		checkGone(t, l.seen)
	}
}

func TestAWorkerKilledFromOutsideIsReplaced(t *testing.T) {
	t.Parallel()
	l := start(t, nil, "--workers", "2", "--no-splay", "--ttl", "1s")
	leads := l.awaitPromotion()
	l.signal(leads.Worker, syscall.SIGKILL)
	l.awaitKind(demo.EventExit)
	if next := l.awaitPromotion(); next.Worker == leads.Worker || next.Term <= leads.Term {
		t.Errorf("%+v follows %+v", next, leads)
	}
	// It may have come before the promotion.
	replaces := func(e demo.Event) bool { return e.Kind == demo.EventJoin && e.Worker == "w3" }
	if !slices.ContainsFunc(l.seen, replaces) {
		l.await("a replacement", replaces)
	}
}

// A write to a connection that the server has closed raises SIGPIPE, as one to
// a closed output does. It ends nobody.
func TestASignalOfABrokenConnectionEndsNobody(t *testing.T) {
	t.Parallel()
	l := start(t, nil, "--workers", "3", "--no-splay", "--ttl", "1s", "--script", "1s crash")
	l.awaitPromotion()
	for _, worker := range []string{"w1", "w2", "w3"} {
		l.signal(worker, syscall.SIGPIPE)
	}
	if err := l.cmd.Process.Signal(syscall.SIGPIPE); err != nil {
		t.Fatal(err)
	}
	l.endsItsScript()
	if exits := pick(l.seen, demo.EventExit); len(exits) > 0 {
		t.Errorf("%+v", exits)
	}
}

// A user who ends a worker, so that it leaves in order, ends that worker alone,
// and the script goes on without it.
func TestAScriptEndsWithoutAWorkerThatHasLeft(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"crash", "cut"} {
		t.Run(fault, func(t *testing.T) {
			// The worker has to leave before another takes over, a lease after the
			// fault: that ends the script.
			l := start(t, nil, "--workers", "3", "--no-splay", "--ttl", "5s", "--script", "1s "+fault)
			leads := l.awaitPromotion().Worker
			leaves := leads // cut off
			if fault == "crash" {
				leaves = map[string]string{"w1": "w2", "w2": "w3", "w3": "w1"}[leads]
			}
			l.awaitKind(demo.EventFault)
			l.signal(leaves, syscall.SIGTERM)
			if e := l.awaitKind(demo.EventExit); e.Worker != leaves {
				t.Errorf("%s has left, not %s", e.Worker, leaves)
			}
			l.endsItsScript()
		})
	}
}

// A demo whose reader has left ends at its next output.
func TestADemoThatNobodyReadsClearsAway(t *testing.T) {
	t.Parallel()
	cmd := command(t, nil, "demo", "--json", "--workers", "2", "--no-splay")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen []demo.Event
	for lines := bufio.NewScanner(out); len(pick(seen, demo.EventTransition)) < 2 && lines.Scan(); {
		var e demo.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, e)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	// So that there is something to print.
	if err := syscall.Kill(pick(seen, demo.EventJoin)[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // see the exit status
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("%v", cmd.ProcessState)
	}
	checkGone(t, seen)
}

func TestADemoVisitsTheServerOfAnother(t *testing.T) {
	t.Parallel()
	host := start(t, nil, "--workers", "1", "--no-splay")
	url := host.awaitKind(demo.EventBegin).URL
	go func() {
		for range host.events { // nothing else of it matters
		}
	}()

	t.Run("by context", func(t *testing.T) {
		home := t.TempDir()
		writeContext(t, home, "there", url)
		code, out, stderr := execute(t, []string{"XDG_CONFIG_HOME=" + home, "CONTEXT=there"},
			"demo", "--json", "--workers", "2", "--no-splay", "--key", "other", "--script", "0s crash")
		checkVisit(t, code, out, stderr, url)
	})
	t.Run("by URL", func(t *testing.T) {
		code, out, stderr := runProgram(t, nil,
			"demo", "--json", "--server", url, "--workers", "2", "--no-splay", "--key", "another", "--script", "0s delete")
		checkVisit(t, code, out, stderr, url)
	})
	t.Run("no restart", func(t *testing.T) {
		code, _, stderr := runProgram(t, nil, "demo", "--json", "--server", url, "--script", "1s restart")
		if code != 2 || !strings.Contains(stderr, `"1s restart"`) {
			t.Errorf("exit status %d, stderr %q", code, stderr)
		}
	})
}

func checkVisit(t *testing.T, code int, out, stderr, url string) {
	t.Helper()
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d, stderr %q\n%s", code, stderr, out)
	}
	events := decode(t, out)
	if events[0].URL != url {
		t.Errorf("played on %s, want %s", events[0].URL, url)
	}
	sum := events[len(events)-1].Summary
	if len(sum.Outcomes) != 1 || sum.Outcomes[0].NextTerm == 0 || sum.TwoLeaders != 0 {
		t.Errorf("summary %+v", sum)
	}
	checkGone(t, events)
}

// writeContext writes a context as nats context add does.
func writeContext(t *testing.T, home, name, url string) {
	t.Helper()
	dir := filepath.Join(home, "nats", "context")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]string{"description": "a test", "url": url})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
}
