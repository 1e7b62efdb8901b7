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
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/stores"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/version"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// patience bounds each run of the command. A run that passes is much shorter.
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
// buckets are the tests' own, in which nobody led before. A busy machine may
// take longer than the command's default to start a server and to answer.
func environment(env []string) environ.Env {
	values := map[string]string{"LEADER_GRACE": "off", "NATS_TIMEOUT": "60s"}
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

// command returns a command that is to run in a separate process, in an
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
	// The leftovers of a killed demo go away with the test, and the buckets
	// belong to the tests: they did not exist before.
	cmd.Env = append(append(cmd.Env, "TMPDIR="+t.TempDir(), "LEADER_GRACE=off"), env...)
	return cmd
}

// execute runs a command in a separate process, to its end.
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

// A readLab is a server with a bucket, whose elections the commands read.
type readLab struct {
	t   *testing.T
	url string
	nc  *nats.Conn
	js  jetstream.JetStream
}

const labBucket = "leaders"

func newReadLab(t *testing.T) *readLab {
	t.Helper()
	return enter(t, devtest.Serve(t))
}

// enter makes the bucket on a server.
func enter(t *testing.T, url string, options ...nats.Option) *readLab {
	t.Helper()
	nc, js := devtest.Connect(t, url, options...)
	l := &readLab{t, url, nc, js}
	if err := natsstore.EnsureBucket(l.within(), js, natsstore.BucketConfig{Bucket: labBucket}); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *readLab) within() context.Context {
	l.t.Helper()
	return within(l.t)
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// stand starts a candidate, whose TTL no test waits for, and returns when it
// leads or follows.
func (l *readLab) stand(group, id string, hooks ...leader.Hooks) leader.Election {
	l.t.Helper()
	return l.standIn(labBucket, group, id, hooks...)
}

// standIn starts a candidate like stand, in another bucket.
func (l *readLab) standIn(bucket, group, id string, hooks ...leader.Hooks) leader.Election {
	l.t.Helper()
	e, err := leader.NewElection(l.nc, leader.ElectionConfig{
		Bucket: bucket, Group: group, InstanceID: id, TTL: 20 * time.Second, HeartbeatInterval: time.Second,
		Priority: 7, Version: "1.2.3", Address: id + ":80", Meta: map[string]string{"zone": "z"}, DeleteOnStop: true,
		ConnectionParams: []byte("{}\xff"),
		Hooks:            leader.JoinHooks(hooks...), AcquireGrace: leader.GraceOff,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if err := e.Start(context.WithoutCancel(l.within())); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = e.Stop() })
	for info := range e.Observe(l.within()) {
		if info.ID != "" {
			return e
		}
	}
	l.t.Fatal("nobody leads")
	return nil
}

// answering are the hooks of a candidate that answers the roll call and
// publishes advisories.
func (l *readLab) answering() leader.Hooks {
	return leader.JoinHooks(rollcall.Hooks(l.nc), advisory.Hooks(l.nc, advisory.Options{}))
}

// run runs a command on the server. It must have the exit status.
func (l *readLab) run(want int, args ...string) (stdout, stderr string) {
	l.t.Helper()
	code, out, errs := runProgram(l.t, []string{"NATS_URL=" + l.url}, args...)
	if code != want {
		l.t.Fatalf("%v: exit status %d, want %d\n%s%s", args, code, want, out, errs)
	}
	return out, errs
}

func (l *readLab) mustRun(args ...string) string {
	l.t.Helper()
	out, stderr := l.run(0, args...)
	if stderr != "" {
		l.t.Errorf("%v: %q", args, stderr)
	}
	return out
}

// follow starts a command in this process that prints until it is stopped.
func (l *readLab) follow(args ...string) *call {
	l.t.Helper()
	return begin(l.t, l.t.Output(), []string{"NATS_URL=" + l.url}, args...)
}

// A follower is such a command in a separate process.
type follower struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   io.Closer
	lines *bufio.Scanner
}

// start starts a command in a separate process.
func (l *readLab) start(args ...string) *follower {
	l.t.Helper()
	f := &follower{t: l.t, cmd: command(l.t, []string{"NATS_URL=" + l.url}, args...)}
	f.cmd.Stderr = os.Stderr
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := f.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = f.cmd.Process.Kill(); _ = f.cmd.Wait() })
	f.out, f.lines = out, bufio.NewScanner(out)
	return f
}

func (f *follower) next(v any) {
	f.t.Helper()
	if !f.lines.Scan() {
		f.t.Fatal("no line:", f.lines.Err())
	}
	decodeStrictly(f.t, f.lines.Text(), v)
}

func decodeStrictly(t *testing.T, data string, v any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		t.Fatalf("%v in:\n%s", err, data)
	}
}

// cells returns a table with what differs from run to run named.
func cells(out string) (rows [][]string) {
	for line := range strings.Lines(out) {
		line = regexp.MustCompile(`\b\d{16}\b`).ReplaceAllString(strings.TrimRight(line, "\n"), "TERM")
		line = regexp.MustCompile(`\b[0-9a-f]{8}\b`).ReplaceAllString(line, "HASH")
		line = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[-+]\d\d:\d\d)?`).ReplaceAllString(line, "TIME")
		line = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b`).ReplaceAllString(line, "LENGTH")
		rows = append(rows, regexp.MustCompile(` {2,}`).Split(line, -1))
	}
	return rows
}

func checkCells(t *testing.T, out string, want [][]string) {
	t.Helper()
	if got := cells(out); !reflect.DeepEqual(got, want) {
		t.Errorf("%q\nwant %q\n%s", got, want, out)
	}
}

func runsOnUnix() bool { return os.PathSeparator == '/' }

// needsUnix skips a test whose programs or shells the system does not have.
func needsUnix(t *testing.T) {
	t.Helper()
	if !runsOnUnix() {
		t.Skip("it needs a system of the Unix kind")
	}
}

// natsOnly reports whether the tests, and with them the program, are built with
// the tag natsonly.
func natsOnly() bool { return len(stores.Drivers()) == 2 } // NATS, and its quorum

func needsOtherStores(t *testing.T) {
	t.Helper()
	if natsOnly() {
		t.Skip("built with the tag natsonly, the program opens no other store")
	}
}

// put writes over a group's record, as another program does.
func (l *readLab) put(group, value string) {
	l.t.Helper()
	kv, err := l.js.KeyValue(l.within(), labBucket)
	if err == nil {
		_, err = kv.Put(l.within(), group, []byte(value))
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// listed are the groups that ls shows.
func (l *readLab) listed(args ...string) (groups []read.Group) {
	l.t.Helper()
	out, _ := l.run(0, append([]string{"ls", "-o", "json"}, args...)...)
	decodeStrictly(l.t, out, &groups)
	return groups
}

// until tries again what a server may refuse for a moment: it is still clearing
// away what it has reported as gone.
func (l *readLab) until(what string, try func() error) {
	l.t.Helper()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(patience); ; <-pause.C {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			l.t.Fatalf("never: %s: %v", what, err)
		}
	}
}

// serveUsers starts a server for the users, and for admin, who may do all. It
// returns its address.
func serveUsers(t *testing.T, users ...*server.User) (url string) {
	t.Helper()
	return devtest.Start(t, devtest.Users(append(users, devtest.Admin())...)).URL()
}

// startServing starts a command that serves HTTP and returns the address that
// it prints.
func startServing(t *testing.T, env []string, args ...string) (address string, stop func() (code int)) {
	t.Helper()
	c := begin(t, t.Output(), env, args...)
	if !c.lines.Scan() {
		t.Fatalf("%v printed nothing: %v", args, c.lines.Err())
	}
	return strings.TrimSpace(c.lines.Text()), func() int {
		c.signal(syscall.SIGINT)
		return c.wait()
	}
}

// get returns the body of a page.
func get(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", url, resp.Status, err, body)
	}
	return string(body)
}

// awaitPage reads a page until it fits.
func awaitPage(t *testing.T, url, what string, fits func(page string) bool) string {
	t.Helper()
	pause := time.NewTicker(30 * time.Millisecond)
	defer pause.Stop()
	page := ""
	for end := time.Now().Add(patience); time.Now().Before(end); <-pause.C {
		if page = get(t, url); fits(page) {
			return page
		}
	}
	t.Fatalf("%s did not come true in:\n%s", what, page)
	return ""
}

// has returns a function that reports whether a page has a line that begins so.
func has(starts ...string) func(string) bool {
	return func(page string) bool {
		for _, start := range starts {
			if !strings.Contains("\n"+page, "\n"+start) {
				return false
			}
		}
		return true
	}
}

// A user is the command in the hands of a user, whose credentials the flags
// name.
type user struct {
	t     *testing.T
	flags []string
}

// userOf is a user of a server, whose password is the name.
func userOf(t *testing.T, url, name string) user {
	t.Helper()
	return user{t, []string{"--server", url, "--user", name, "--password", name, "--inbox-prefix", "_INBOX_" + name, "--timeout", "30s"}}
}

func (u user) try(args ...string) (code int, stdout, stderr string) {
	u.t.Helper()
	return runProgram(u.t, nil, append(args, u.flags...)...)
}

// run is try of what must have the exit status.
func (u user) run(want int, args ...string) (stdout, stderr string) {
	u.t.Helper()
	code, out, errs := u.try(args...)
	if code != want {
		u.t.Fatalf("%v: exit status %d, want %d\n%s%s", args, code, want, out, errs)
	}
	return out, errs
}

// json is run of what prints JSON, of which no field may be unknown.
func (u user) json(want int, v any, args ...string) {
	u.t.Helper()
	out, _ := u.run(want, append(args, "-o", "json")...)
	decodeStrictly(u.t, out, v)
}

func TestErrorsHaveTheirExitStatus(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{
		app.ExitOK:         nil,
		app.ExitFailure:    errors.New("anything"),
		app.ExitUsage:      errors.Join(errors.New("so"), leader.ErrInvalidConfig),
		app.ExitTwoLeaders: errors.Join(app.ErrTwoLeaders, errors.New("and more")),
	} {
		var stderr bytes.Buffer
		if got := complain(&stderr, err); got != want {
			t.Errorf("%v: exit status %d, want %d", err, got, want)
		}
		if (stderr.Len() == 0) != (err == nil) {
			t.Errorf("%v: stderr %q", err, stderr.String())
		}
	}
}

// leader ls | head -1
func TestReaderThatLeavesGetsNoError(t *testing.T) {
	needsUnix(t) // elsewhere what a write to a closed pipe answers is the system's own
	t.Parallel()
	for line, want := range map[string]int{
		"--help": 0, "ls --help": 0, "version": 0, "man": 0, "completion bash": 0,
		"ls --dev": 0, "ls --dev -o json": 0, "ls --dev -o name": 0, "ls --dev -w": 0, "get reports --dev": 0, "watch --dev": 0,
		"history reports --dev": 0, "doctor --dev --timeout 60s": 0, "bucket create new --dev": 0,
		// The status is what was found out, and not that nobody reads it.
		"token verify reports --dev --term 1": 1, "bucket check --dev --strict --timeout 60s": 0, "ls --dev nosuch": 4,
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		var stderr text
		got := run(t.Context(), strings.Fields(line), environment(nil), strings.NewReader(""), w, &stderr)
		_ = w.Close()
		if got != want || strings.Contains(stderr.String(), "pipe") {
			t.Errorf("leader %s: exit status %d, want %d; stderr %q", line, got, want, stderr.String())
		}
	}
}

// The README has its reader export NATS_URL and try --dev afterwards.
func TestDevBringsItsOwnServerWhateverTheEnvironmentNames(t *testing.T) {
	t.Parallel()
	env := []string{"NATS_URL=nats://127.0.0.1:1"}
	for _, line := range []string{"ls --dev", "get reports --dev", "pause jobs.eu --dev -y --timeout 60s"} {
		code, out, stderr := runProgram(t, env, strings.Fields(line)...)
		if code != 0 || out == "" || !strings.HasPrefix(stderr, "leader: --dev: ") || !strings.Contains(stderr, "NATS_URL is not used\n") {
			t.Errorf("leader %s: exit status %d, stdout %q, stderr %q", line, code, out, stderr)
		}
	}
	// Nor is a context looked for.
	env = append(env, "NATS_CONTEXT=nowhere")
	if code, out, stderr := runProgram(t, env, "ls", "--dev"); code != 0 || out == "" || !strings.Contains(stderr, "NATS_URL and NATS_CONTEXT are not used\n") {
		t.Errorf("leader ls --dev with a context: exit status %d, stdout %q, stderr %q", code, out, stderr)
	}
	if code, _, stderr := runProgram(t, env, "ls", "--dev", "-s", "nats://127.0.0.1:2"); code != 2 || !strings.Contains(stderr, "--server") {
		t.Errorf("with --server: exit status %d, stderr %q", code, stderr)
	}
}

// mostAtInit is how much a package of this project may allocate while a program
// that imports it starts: a few regular expressions. An expression with a long
// counted repetition, such as {1,255}, takes thousands of allocations and
// milliseconds.
const mostAtInit = 100

// A library costs every program that imports it what its packages do before
// main, whether or not it is used.
func TestOurPackagesDoNextToNothingBeforeMain(t *testing.T) {
	t.Parallel()
	code, _, stderr := execute(t, []string{"GODEBUG=inittrace=1"}, "version")
	seen := 0
	for line := range strings.Lines(stderr) {
		var pkg string
		var at, took float64
		var size, allocs int
		if n, _ := fmt.Sscanf(line, "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &pkg, &at, &took, &size, &allocs); n != 5 {
			continue
		}
		seen++
		// The command's own package has the variables of these tests.
		ours := strings.HasPrefix(pkg, "github.com/seed-ff2cb582/leader") && pkg != "github.com/seed-ff2cb582/leader/cmd/leader"
		if ours && allocs > mostAtInit {
			t.Errorf("%s allocates %d times, %d bytes, in %v ms", pkg, allocs, size, took)
		}
	}
	if code != 0 || seen == 0 {
		t.Errorf("exit status %d, and nothing is known of %d packages: %s", code, seen, stderr)
	}
}

func TestVersionIsWhatTheGoCommandRecorded(t *testing.T) {
	t.Parallel()
	code, out, stderr := runProgram(t, nil, "version", "-o", "json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", code, stderr)
	}
	var info version.Info
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&info); err != nil {
		t.Fatal(err)
	}
	if info.Version == "" || info.Library == "" || info.Go != runtime.Version() || info.Platform != runtime.GOOS+"/"+runtime.GOARCH ||
		!strings.HasPrefix(info.NATS, "v1.") || !strings.HasPrefix(info.Server, "v2.") {
		t.Errorf("%+v", info)
	}
	for _, args := range [][]string{{"--version"}, {"ls", "--version"}, {"--version", "ls"}} {
		code, out, stderr := runProgram(t, nil, args...)
		if code != 0 || stderr != "" || out != info.String()+"\n" {
			t.Errorf("leader %q: exit status %d, stdout %q, stderr %q", args, code, out, stderr)
		}
	}
	if _, out, _ := runProgram(t, nil, "version", "-o", "name"); out != info.Version+"\n" {
		t.Errorf("-o name: %q", out)
	}
}
