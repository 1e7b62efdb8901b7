package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/demo"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
)

// patience bounds each run of the command. None that passes takes so long.
const patience = 2 * time.Minute

// asCommand is a variable by which this test binary runs as the command. It is
// set for all that the tests start.
const asCommand = "LEADER_TEST_COMMAND"

// program is the file of the command: the test binary itself.
var program string

// atOnce is how many tests run in parallel. They wait for leases and programs
// most of the time, so that there may be more of them than processors.
const atOnce = "6"

func TestMain(m *testing.M) {
	if actAsProgram() { // under leader run, which has the variable, too
		return
	}
	if os.Getenv(asCommand) != "" {
		os.Exit(runProcess())
	}
	os.Exit(test(m))
}

func test(m *testing.M) int {
	// Where the tests are run by nohup, or in the background of a script, what
	// they start would ignore these, too.
	for _, s := range []os.Signal{syscall.SIGHUP, os.Interrupt} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	config, err := os.MkdirTemp("", "leader-test-")
	if err == nil {
		defer func() { _ = os.RemoveAll(config) }()
		program, err = os.Executable()
	}
	// Neither the machine's NATS contexts nor its terminal concern the tests.
	if err = errors.Join(err, os.Setenv(asCommand, "1"), os.Setenv("XDG_CONFIG_HOME", config), os.Unsetenv("COLUMNS")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = flag.Set("test.parallel", atOnce) // which the command line, parsed later, overrides
	return m.Run()
}

// repository returns the path of a file of the repository, by its path there.
//
// testdata/repository is a link to the repository: Go's test cache sees what a
// test opens below its own module, and no other file. Where a system has made a
// file of the link, it is not seen.
func repository(path string) string {
	const link = "testdata/repository"
	if info, err := os.Stat(link); err != nil || !info.IsDir() {
		return filepath.Join("..", "..", path)
	}
	return filepath.Join(link, path)
}

// environment is what a command of the tests finds in its environment. The
// buckets are the tests' own, in which nobody led before.
func environment(env []string) environ.Env {
	values := map[string]string{"LEADER_GRACE": "off"}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		values[name] = value
	}
	return func(name string) (string, bool) {
		value, set := values[name]
		return value, set
	}
}

// A text is an output that several goroutines may write.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(b)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// runProgram runs a command in this process, to its end.
func runProgram(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runWithInput(t, "", env, args...)
}

// runWithInput is runProgram with a standard input.
func runWithInput(t *testing.T, in string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errs text
	code = run(ctx, args, environment(env), strings.NewReader(in), &out, &errs)
	return code, out.String(), errs.String()
}

// A call is a command under way in this process.
type call struct {
	t     *testing.T
	out   *os.File // of which the command writes the other end
	lines *bufio.Scanner
	end   context.CancelCauseFunc
	ended chan struct{}
	code  int // once it has ended
}

// begin begins a command in this process. It ends with the test at the latest.
func begin(t *testing.T, stderr io.Writer, env []string, args ...string) *call {
	t.Helper()
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithTimeout(t.Context(), patience)
	ctx, end := context.WithCancelCause(limited)
	c := &call{t: t, out: out, lines: bufio.NewScanner(out), end: end, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		defer func() { _ = w.Close() }()
		c.code = run(ctx, args, environment(env), strings.NewReader(""), w, stderr)
	}()
	t.Cleanup(func() {
		cancel()
		_ = out.Close() // so that no write blocks
		<-c.ended
	})
	return c
}

// signal ends the command as a signal does.
func (c *call) signal(s syscall.Signal) { c.end(app.SignalError{Signal: s}) }

// wait returns the exit status, once it has ended.
func (c *call) wait() int {
	<-c.ended
	return c.code
}

// next reads another line, which must be there, and decodes it.
func (c *call) next(v any) {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatal("no line:", c.lines.Err())
	}
	decodeStrictly(c.t, c.lines.Text(), v)
}

// interrupt ends the command, which must end with 0 and print nothing more.
func (c *call) interrupt() {
	c.t.Helper()
	c.signal(syscall.SIGINT)
	if c.lines.Scan() {
		c.t.Errorf("one more line: %s", c.lines.Text())
	}
	if code := c.wait(); code != 0 {
		c.t.Errorf("exit status %d after an interrupt", code)
	}
}

// command returns a command that is to run in a process of its own, in an
// environment that names no server.
func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	for _, e := range os.Environ() {
		switch name, _, _ := strings.Cut(e, "="); name {
		case "NATS_URL", "NATS_CONTEXT", "CONTEXT", "WORKERS", "KEY", "NOSPLAY":
		default:
			cmd.Env = append(cmd.Env, e)
		}
	}
	// What a killed demo leaves behind goes away with the test, and the buckets
	// are the tests' own: there was none before.
	cmd.Env = append(append(cmd.Env, "TMPDIR="+t.TempDir(), "LEADER_GRACE=off"), env...)
	return cmd
}

// execute runs a command in a process of its own, to its end.
func execute(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := command(t, env, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
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
	case demo.Restart:
	}
}

// checkStory checks that the events tell the same as the summary.
func checkStory(t *testing.T, events []demo.Event, sum *demo.Summary) {
	t.Helper()
	told := len(pick(events, demo.EventFailover)) + len(pick(events, demo.EventKept))
	if told != len(sum.Outcomes) || len(pick(events, demo.EventFault)) != len(sum.Outcomes) {
		t.Errorf("%d faults end in the events, and %d in the summary", told, len(sum.Outcomes))
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
	if runtime.GOOS != "windows" {
		frozen := sum.Outcomes[1].Worker
		for _, e := range pick(events, demo.EventWoke) {
			if e.Worker == frozen && e.Took > 2000 && strings.Contains(e.Text, "says no") {
				return
			}
		}
		t.Errorf("%s did not wake as a follower", frozen)
	}
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

func TestWrongUsageIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		say  string
	}{
		"command":   {[]string{"dmeo"}, 2, "dmeo"},
		"flag":      {[]string{"demo", "--wrkers", "3"}, 2, "--wrkers"},
		"workers":   {[]string{"demo", "--workers", "0"}, 2, "--workers 0"},
		"ttl":       {[]string{"demo", "--ttl", "1ms"}, 2, "--ttl 1ms"},
		"output":    {[]string{"demo", "--plain", "--json"}, 2, "--json"},
		"script":    {[]string{"demo", "--script", "2s crash; 3s burn"}, 2, `"3s burn"`},
		"too late":  {[]string{"demo", "--script", "5s crash", "--for", "4s"}, 2, `"5s crash"`},
		"bucket":    {[]string{"demo", "--bucket", "a b"}, 2, `--bucket "a b"`},
		"context":   {[]string{"demo", "--context", "no-such"}, 2, `"no-such"`},
		"no server": {[]string{"demo", "--server", "nats://u:secret@127.0.0.1:1"}, 1, "127.0.0.1:1"},
		"worker":    {[]string{"demo-worker"}, 1, "leader demo"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, stderr := runProgram(t, nil, c.args...)
			if code != c.code || !strings.Contains(stderr, c.say) || out != "" {
				t.Errorf("exit status %d, want %d; stdout %q, stderr %q, want %q in it", code, c.code, out, stderr, c.say)
			}
			if strings.Contains(stderr, "secret") {
				t.Errorf("a password is shown: %q", stderr)
			}
		})
	}
}
