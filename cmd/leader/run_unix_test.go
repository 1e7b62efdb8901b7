//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/proof"
)

// A running is leader run under way, with what its program prints.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  chan string
	stderr *os.File
}

// startRun starts leader run with a shell script as the program.
func startRun(t *testing.T, url string, flags []string, script string) *running {
	t.Helper()
	return startRunOn(t, append([]string{"--server", url}, flags...), script)
}

// startRunOn is startRun with flags that name where the elections are.
func startRunOn(t *testing.T, flags []string, script string) *running {
	t.Helper()
	args := append([]string{"run", "jobs"}, flags...)
	return follow(t, append(args, "--", "sh", "-c", script))
}

// follow starts the command.
func follow(t *testing.T, args []string) *running {
	t.Helper()
	return followIn(t, nil, args)
}

// followIn is follow with more variables.
func followIn(t *testing.T, env, args []string) *running {
	t.Helper()
	return followCommand(t, command(t, env, args...))
}

// cmdVia has another program start the command's.
func cmdVia(cmd *exec.Cmd, argv ...string) *exec.Cmd {
	cmd.Args = append(slices.Clone(argv), cmd.Args...)
	if path, err := exec.LookPath(argv[0]); err == nil {
		cmd.Path = path
	}
	return cmd
}

// followCommand starts a command of leader run.
func followCommand(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{t: t, cmd: cmd, lines: make(chan string)}
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		r.stderr, err = os.Create(filepath.Join(t.TempDir(), "stderr"))
	}
	if err != nil {
		t.Fatal(err)
	}
	r.cmd.Stderr = r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			r.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		for range r.lines { // until the program has ended, too
		}
		_ = r.cmd.Wait()
		_ = r.stderr.Close()
	})
	return r
}

// line returns the next line that the program prints.
func (r *running) line() string {
	r.t.Helper()
	select {
	case l, ok := <-r.lines:
		if !ok {
			r.t.Fatalf("no further line; stderr:\n%s", r.said())
		}
		return l
	case <-time.After(patience):
		r.t.Fatalf("no line; stderr:\n%s", r.said())
	}
	return ""
}

func (r *running) said() string {
	b, _ := os.ReadFile(r.stderr.Name()) // what there is
	return string(b)
}

func (r *running) signal(sig os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

// end returns the rest of the lines and the exit status.
func (r *running) end() (rest []string, code int) {
	r.t.Helper()
	for l := range r.lines {
		rest = append(rest, l)
	}
	_ = r.cmd.Wait() // see the exit status
	return rest, r.cmd.ProcessState.ExitCode()
}

// awaitSaid waits until leader run has printed something.
func (r *running) awaitSaid(what string) {
	r.t.Helper()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(patience); !strings.Contains(r.said(), what); <-pause.C {
		if time.Now().After(end) {
			r.t.Fatalf("leader run never prints %q:\n%s", what, r.said())
		}
	}
}

// get asks leader run over HTTP.
func (r *running) get(path string) (code int, body string) {
	r.t.Helper()
	r.awaitSaid("http://")
	_, rest, _ := strings.Cut(r.said(), "http://")
	host, _, _ := strings.Cut(rest, "/")
	res, err := http.Get("http://" + host + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestRunExitsWithTheStatusOfItsProgram(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, program := range map[int][]string{
		0: {"true"}, 7: {"sh", "-c", "exit 7"}, 128 + 9: {"sh", "-c", "kill -9 $$"},
		126: {plain}, 127: {"no-such-program-anywhere"},
	} {
		code, out, stderr := execute(t, nil, append([]string{"run", "g" + strconv.Itoa(want), "--server", url, "--"}, program...)...)
		if code != want || out != "" {
			t.Errorf("%q: exit status %d, want %d; stdout %q, stderr:\n%s", program, code, want, out, stderr)
		}
	}
	for what, path := range map[string]string{
		"without its interpreter": script, "a directory": dir, "below a file": filepath.Join(plain, "x"),
	} {
		if code, _, stderr := execute(t, nil, "run", "g", "--server", url, "--", path); code != 126 {
			t.Errorf("%s: exit status %d\n%s", what, code, stderr)
		}
	}
	if code, _, stderr := execute(t, nil, "run", "g", "--server", url, "--", filepath.Join(dir, "none")); code != 127 {
		t.Errorf("a path at which nothing is: exit status %d\n%s", code, stderr)
	}
}

// A leader run below another one has the variables of the outer term in its own
// environment. A program that was given both would fence with the outer
// group's number: C and Go take the first of two values.
func TestTheProgramOfANestedRunKnowsItsOwnTerm(t *testing.T) {
	t.Parallel()
	var outer []string
	for _, name := range []string{"GROUP", "BUCKET", "ID", "TERM", "TOKEN", "SLOT", "SLOTS", "PROOF_FILE", "ROLE"} {
		outer = append(outer, "LEADER_"+name+"=outer")
	}
	url := devtest.Serve(t)
	// Not by a shell, which would have taken one of the two already.
	code, out, stderr := execute(t, outer, "run", "jobs", "--server", url, "--id", "b", "--bucket", "mine", "--create", "--", "env")
	if code != 0 {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	given := make(map[string]string)
	for l := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(l), "=")
		if _, twice := given[name]; twice || value == "outer" {
			t.Errorf("%s: %q, and before that %q", name, value, given[name])
		}
		if strings.HasPrefix(name, "LEADER_") {
			given[name] = value
		}
	}
	if term, err := strconv.ParseUint(given["LEADER_TERM"], 10, 64); err != nil || term == 0 {
		t.Errorf("term %q", given["LEADER_TERM"])
	}
	if given["LEADER_GROUP"] != "jobs" || given["LEADER_BUCKET"] != "mine" || given["LEADER_ID"] != "b" || len(given["LEADER_TOKEN"]) != 36 {
		t.Errorf("environment %q", given)
	}
	// The label of a follower has no term, and so no number either.
	const hook = `echo "hook $LEADER_ROLE $LEADER_GROUP $LEADER_ID $LEADER_TERM$LEADER_TOKEN$LEADER_SLOT$LEADER_PROOF_FILE."`
	_, _, stderr = execute(t, outer, "run", "jobs", "--server", url, "--id", "b", "--bucket", "mine",
		"--on-promote", hook, "--on-demote", hook, "--label", hook, "--", "true")
	if !strings.Contains(stderr, "hook follower jobs b .\n") || !strings.Contains(stderr, "hook leader jobs b ") || strings.Contains(stderr, "outer") {
		t.Errorf("the hooks printed:\n%s", stderr)
	}
}

func TestTheProgramInheritsNoFilesOfRun(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("they are listed in /proc")
	}
	// The program may have the files that this test itself has inherited. It
	// need not: a guard has its own files where the files of the lowest numbers
	// were.
	const script = "ls -l /proc/self/fd"
	out, err := exec.Command("sh", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	inherited := openFiles(strings.Split(string(out), "\n"))
	lines, _ := startRun(t, devtest.Serve(t), nil, script).end()
	for _, file := range openFiles(lines) {
		if !slices.Contains(inherited, file) {
			t.Errorf("%s is open, which this test did not inherit: %q", file, inherited)
		}
	}
	if len(lines) < 4 { // the first line, and the standard files
		t.Errorf("the program printed %q", lines)
	}
}

// Names of files may be of any bytes. The parser of the command line does not
// keep the bytes of arguments by itself.
func TestTheProgramGetsItsArgumentsAndVariablesAsTheyAre(t *testing.T) {
	t.Parallel()
	const raw = "a\xff\xc3b" // which is no UTF-8
	args := []string{"a\xffb", "", "é", `a,b\`}
	code, out, stderr := execute(t, []string{"NATS_URL=" + devtest.Serve(t), "OF_HOST=" + raw},
		append([]string{"run", "jobs", "--on-promote", "printf %s 'c\xffd' >&2", "--", "sh", "-c", `printf '%s\n' "$OF_HOST" "$@"`, "sh"}, args...)...)
	if code != 0 || out != raw+"\n"+strings.Join(args, "\n")+"\n" || !strings.Contains(stderr, "c\xffd") {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, out, stderr)
	}
}

// openFiles returns the output of ls on each open file but the standard ones
// and the directory that it reads: its number and what it is.
func openFiles(lines []string) (files []string) {
	for _, l := range lines {
		before, target, ok := strings.Cut(l, " -> ")
		number, err := strconv.Atoi(before[strings.LastIndexByte(before, ' ')+1:])
		if ok && err == nil && number > 2 && !strings.HasPrefix(target, "/proc/") {
			files = append(files, fmt.Sprintf("%d: %s", number, target))
		}
	}
	return files
}

func TestAGuardThatWaitsLeavesTheProcessorAlone(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what a process has used is listed in /proc")
	}
	// The program's parent is its guard. Fields 14 and 15 are what it has used,
	// in hundredths of a second.
	const used = `sed 's/.*) //' /proc/$PPID/stat | cut -d ' ' -f 12,13`
	r := startRun(t, devtest.Serve(t), nil, used+"; sleep 3; "+used)
	var ticks [2]int
	for i := range ticks {
		for f := range strings.FieldsSeq(r.line()) {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			ticks[i] += n
		}
	}
	// It hears of a renewal every few seconds, which takes less than one tick.
	if got := ticks[1] - ticks[0]; got > 60 {
		t.Errorf("%d hundredths of a second in 3 s", got)
	}
}

func TestTheNextHostRunsTheProgramOnlyWhenAllOfItHasEnded(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what leaves the process group is found on Linux alone")
	}
	url := devtest.Serve(t)
	// The orphan holds the standard output, so that end waits for it; its
	// parent has gone long before, though not before the orphan ignores
	// SIGTERM.
	deaf := filepath.Join(t.TempDir(), "deaf")
	r := startRun(t, url, nil, fmt.Sprintf(
		`setsid sh -c 'trap "" TERM; echo $$; : > %[1]s; while :; do sleep 1; done' & echo $!; until [ -e %[1]s ]; do sleep 0.02; done; exit 3`, deaf))
	r.line()
	orphan, err := strconv.Atoi(r.line())
	if err != nil {
		t.Fatal(err)
	}
	if _, code := r.end(); code != 3 {
		t.Errorf("exit status %d\n%s", code, r.said())
	}
	awaitGone(t, orphan)
	if said := r.said(); !strings.Contains(said, "left processes behind") {
		t.Errorf("stderr %q", said)
	}
}

func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	r := startRun(t, devtest.Serve(t), nil,
		`trap 'echo one' USR1; trap 'echo hup' HUP; trap 'echo over; exit 5' TERM; echo up; while :; do sleep 0.05; done`)
	if l := r.line(); l != "up" {
		t.Fatal(l)
	}
	for _, c := range []struct {
		sig  os.Signal
		want string
	}{{syscall.SIGUSR1, "one"}, {syscall.SIGHUP, "hup"}, {syscall.SIGTERM, "over"}} {
		r.signal(c.sig)
		if l := r.line(); l != c.want {
			t.Errorf("%v: the program prints %q", c.sig, l)
		}
	}
	if _, code := r.end(); code != 5 {
		t.Errorf("exit status %d", code)
	}
}

// A user who starts leader run by nohup, or in the background of a script,
// wants it to live on, and its program, too.
func TestASignalThatWasIgnoredAtTheStartIsLeftAlone(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	start := func(id string) *running {
		cmd := command(t, nil, "run", "jobs", "--server", url, "--id", id, "--",
			"sh", "-c", `trap 'echo one' USR1; echo up; sh -c 'kill -HUP $$; kill -INT $$; echo ignored'; while :; do sleep 0.05; done`)
		return followCommand(t, cmdVia(cmd, "sh", "-c", `trap "" HUP INT; exec "$0" "$@"`))
	}
	r := start("a")
	for _, want := range []string{"up", "ignored"} { // by what the program starts, too
		if l := r.line(); l != want {
			t.Fatalf("the program prints %q", l)
		}
	}
	standby := start("b")
	standby.awaitSaid("waiting: ")
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		standby.signal(sig)
		r.signal(sig)
		r.signal(syscall.SIGUSR1)
		if l := r.line(); l != "one" {
			t.Errorf("after %v the program prints %q", sig, l)
		}
	}
	r.signal(syscall.SIGTERM)
	if l := standby.line(); l != "up" {
		t.Errorf("the program of the standby prints %q", l)
	}
}

// A broken connection's signal means nothing to the program, nor to leader run.
func TestASignalOfABrokenConnectionIsNotPassedOn(t *testing.T) {
	t.Parallel()
	r := startRun(t, devtest.Serve(t), nil, `trap 'echo on' USR1; trap 'echo pipe' PIPE; echo up; while :; do sleep 0.05; done`)
	if l := r.line(); l != "up" {
		t.Fatal(l)
	}
	r.signal(syscall.SIGPIPE)
	for range 5 {
		r.signal(syscall.SIGUSR1)
		if l := r.line(); l != "on" {
			t.Fatalf("the program prints %q", l)
		}
	}
}

func TestProgramThatIsAskedToEndHasTheTimeItNeeds(t *testing.T) {
	t.Parallel()
	// 5 s, which is longer than the lease and the stop-timeout. The lease is that
	// long, since a stalled machine renews none.
	r := startRun(t, devtest.Serve(t), []string{"--ttl", "4s", "--heartbeat", "400ms"},
		`trap 'sleep 5; echo done; exit 0' TERM; echo up; while :; do sleep 0.05; done`)
	r.line()
	r.signal(syscall.SIGTERM)
	r.awaitSaid("leader: waiting for sh, process ")
	if l := r.line(); l != "done" {
		t.Error(l)
	}
	if _, code := r.end(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

func TestAHostThatDoesNotLeadEndsAtOnce(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	first := startRun(t, url, []string{"--id", "a"}, "echo up; sleep 600")
	first.line()
	second := startRun(t, url, []string{"--id", "b"}, "echo up; sleep 600")
	// A user who looks at a host on which nothing runs can read why.
	second.awaitSaid(`leader: campaigning for jobs as "b"`)
	second.awaitSaid(`leader: waiting: "a" leads jobs in term `)
	second.signal(syscall.SIGTERM)
	if rest, code := second.end(); code != 128+15 || len(rest) > 0 {
		t.Errorf("exit status %d, output %q", code, rest)
	}
	first.signal(syscall.SIGINT)
	if _, code := first.end(); code != 128+2 {
		t.Errorf("exit status %d\n%s", code, first.said())
	}
}

// Nothing watches a hook but leader run, and another host may lead next.
func TestNoHookOutlivesALeaderRunThatIsKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the system does not end it")
	}
	r := startRun(t, devtest.Serve(t), []string{"--timeout", "10m", "--on-promote", "echo hook $$.; exec tail -f /dev/null"}, "echo up")
	r.awaitSaid("hook ")
	_, said, _ := strings.Cut(r.said(), "hook ")
	number, _, _ := strings.Cut(said, ".")
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	r.signal(syscall.SIGKILL)
	r.end()
	awaitGone(t, pid)
}

// The credentials of leader run are not for its program.
func TestProgramsDoNotInheritCredentials(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	env := []string{
		"NATS_URL=" + strings.Replace(url, "://", "://leader:secret-1@", 1),
		"NATS_USER=leader", "NATS_PASSWORD=secret-2", "LEADER_DASH_TOKEN=secret-3-and-then-some", "OWN=kept",
	}
	args := []string{"run", "jobs", "--check", "env | sed s/^/check:/ >&2", "--on-promote", "env | sed s/^/hook:/ >&2"}
	program := []string{"--", "env"}

	code, out, said := execute(t, env, append(args, program...)...)
	if code != 0 || strings.Contains(out, "secret") || strings.Contains(said, "secret") {
		t.Errorf("exit status %d; the program has\n%s\nand the hooks\n%s", code, out, said)
	}
	for _, in := range []string{out, said} {
		if !strings.Contains(in, "OWN=kept") {
			t.Errorf("there is nothing left: %s", in)
		}
	}
	if !strings.Contains(out, "LEADER_TERM=") {
		t.Errorf("the program does not get its term: %s", out)
	}

	code, out, said = execute(t, env, append(append(args, "--pass-credentials"), program...)...)
	for _, secret := range []string{"secret-1", "secret-2", "secret-3"} {
		if code != 0 || !strings.Contains(out, secret) || !strings.Contains(said, "hook:") || strings.Count(said, secret) < 2 {
			t.Errorf("exit status %d; %s is not passed on: %s\n%s", code, secret, out, said)
		}
	}
}

func TestStandbyIsReadyAndNamesTheLeader(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	first := startRun(t, url, []string{"--id", "a", "--address", "10.0.0.1:80"}, "echo up; sleep 600")
	first.line()
	second := startRun(t, url, []string{"--id", "b", "--verbose", "--http", "127.0.0.1:0"}, "echo up; sleep 600")
	second.awaitSaid("following")
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusOK, "/leader": http.StatusServiceUnavailable} {
		code, body := second.get(path)
		if code != want || path == "/leader" && !strings.Contains(body, `"address":"10.0.0.1:80"`) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

func TestTheSuccessorWaitsForTheLastProgramToEnd(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	log := filepath.Join(t.TempDir(), "log")
	// A program that takes its time after SIGTERM, and its helper that has to
	// be killed. The time for it is eighteen times what it takes.
	first := startRun(t, url, []string{"--id", "a", "--stop-timeout", "9s"},
		`(trap "" TERM; while :; do echo helper >> `+log+`; sleep 0.01; done) & trap 'sleep 0.5; echo over >> `+log+`; exit 0' TERM; echo up; while :; do sleep 0.05; done`)
	first.line()
	second := startRun(t, url, []string{"--id", "b", "--verbose"}, `echo successor >> `+log+`; echo up; sleep 600`)
	second.awaitSaid("following")
	if code, _, stderr := runProgram(t, []string{"NATS_URL=" + url}, "step-down", "jobs", "--yes", "--timeout", "60s"); code != 0 {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	second.line()
	story, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if lines := slices.Compact(strings.Fields(string(story))); !slices.Contains(lines, "over") || lines[len(lines)-1] != "successor" {
		t.Errorf("what ran: %q", lines)
	}
}

func TestLeadershipMovesOnWhenTheProgramEnds(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	for onExit, again := range map[string]bool{"release": false, "campaign": true} {
		a := startRun(t, url, []string{"--id", "a", "--on-exit", onExit}, `echo $LEADER_TERM; read line`)
		first := a.line()
		b := startRun(t, url, []string{"--id", "b"}, `echo $LEADER_TERM; sleep 600`)
		b2 := make(chan string, 1)
		go func() { b2 <- b.line() }()
		a.awaitSaid("ended with status 1") // its input is empty
		select {
		case second := <-b2:
			if second <= first {
				t.Errorf("%s: term %s follows %s", onExit, second, first)
			}
		case <-time.After(patience):
			t.Fatalf("%s: b does not lead\n%s", onExit, b.said())
		}
		if again {
			b.signal(syscall.SIGTERM)
			if third := a.line(); third <= first {
				t.Errorf("term %s follows %s", third, first)
			}
			a.signal(syscall.SIGTERM)
		}
		b.signal(syscall.SIGTERM)
		b.end()
		a.end()
	}
}

func TestAProgramIsStartedAgainInTheSameTerm(t *testing.T) {
	t.Parallel()
	r := startRun(t, devtest.Serve(t), []string{"--on-exit", "restart"}, `echo $LEADER_TERM; exit 1`)
	first, second := r.line(), r.line()
	if first != second {
		t.Errorf("terms %s and %s", first, second)
	}
	r.signal(syscall.SIGTERM)
	if _, code := r.end(); code != 128+15 && code != 1 {
		t.Errorf("exit status %d", code)
	}
}

func TestALeaderMayStayWithoutItsProgram(t *testing.T) {
	t.Parallel()
	r := startRun(t, devtest.Serve(t), []string{"--on-exit", "stay", "--http", "127.0.0.1:0"}, `echo up`)
	r.line()
	r.awaitSaid("ended with status 0")
	if code, body := r.get("/leader"); code != http.StatusOK {
		t.Errorf("/leader: %d %s", code, body)
	}
	r.signal(syscall.SIGTERM)
	if _, code := r.end(); code != 128+15 {
		t.Errorf("exit status %d", code)
	}
}

func TestRunServesProbesAndMetrics(t *testing.T) {
	t.Parallel()
	r := startRun(t, devtest.Serve(t), []string{"--http", "127.0.0.1:0", "--address", "10.0.0.1:80"}, `echo up; sleep 600`)
	r.line()
	for path, want := range map[string]string{
		"/livez": "ok", "/readyz": "ok", "/leader": `"address":"10.0.0.1:80"`,
		"/metrics": `election_is_leader{`,
	} {
		if code, body := r.get(path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// told prints where the program runs.
const told = `echo "$LEADER_SLOT $LEADER_SLOTS $LEADER_GROUP $LEADER_ID"; `

func TestSlotsRunTheProgramOnSoManyHosts(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	lines := make(chan string, 8)
	hosts := map[string]*running{}
	for _, id := range []string{"a", "b", "c"} {
		h := startRun(t, url, []string{"-n", "2", "--id", id}, told+"sleep 600")
		hosts[id] = h
		go func() {
			if l, ok := <-h.lines; ok {
				lines <- l
			}
		}()
	}
	next := func() (slot, id string) {
		t.Helper()
		select {
		case l := <-lines:
			f := strings.Fields(l)
			if len(f) != 4 || f[1] != "2" || f[2] != "jobs."+f[0] {
				t.Fatalf("the program prints %q", l)
			}
			return f[0], f[3]
		case <-time.After(patience):
			t.Fatal("the program does not run on another host")
		}
		return "", ""
	}
	slots, ids := []string{"", ""}, []string{"", ""}
	for i := range 2 {
		slots[i], ids[i] = next()
	}
	if ids[0] == ids[1] || slots[0] == slots[1] {
		t.Fatalf("slots %q on hosts %q", slots, ids)
	}
	// A host that leaves makes room for the third, in its slot.
	hosts[ids[0]].signal(syscall.SIGTERM)
	slot, id := next()
	if slot != slots[0] || slices.Contains(ids, id) {
		t.Errorf("host %s runs it in slot %s after %s did in %s", id, slot, ids[0], slots[0])
	}
}

// A second process of the host finds a free slot, and leaves it.
func TestAHostHasOneSlotAtTheMost(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	first := startRun(t, url, []string{"-n", "3", "--id", "a", "--ttl", "3s", "--heartbeat", "500ms"}, told+"sleep 600")
	first.line()
	second := startRun(t, url, []string{"-n", "3", "--id", "a", "--ttl", "3s", "--heartbeat", "500ms"}, told+"sleep 600")
	rest, code := second.end()
	if said := second.said(); code != 1 || len(rest) > 0 || !strings.Contains(said, `another process named "a"`) {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, said)
	}
}

// The leftover record of a killed process is not a second host: its lease ends.
func TestAHostThatComesBackTakesAnotherSlot(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	flags := []string{"-n", "3", "--id", "a", "--ttl", "1s", "--heartbeat", "200ms"}
	first := startRun(t, url, flags, told+"sleep 600")
	first.line()
	first.signal(syscall.SIGKILL)
	second := startRun(t, url, flags, told+"sleep 600")
	if f := strings.Fields(second.line()); len(f) != 4 {
		t.Errorf("the program prints %q", f)
	}
}

func TestHooksFrameTheProgram(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	say := func(what string) string { return fmt.Sprintf("echo %s >> %s", what, log) }
	r := startRun(t, devtest.Serve(t), []string{
		"--on-promote", say("promote $LEADER_ROLE"), "--on-demote", say("demote $LEADER_ROLE $LEADER_TERM"), "--label", say("label $LEADER_ROLE"),
	}, say("program")+"; echo $LEADER_TERM; sleep 600")
	term := r.line()
	r.signal(syscall.SIGTERM)
	r.end()
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	want := "label follower\npromote leader\nlabel leader\nprogram\ndemote follower " + term + "\nlabel follower\n"
	if string(got) != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// The hooks of a demotion come before the release, and have their time each.
func TestHooksThatHangAtTheEndDoNotKeepTheLease(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	over := filepath.Join(t.TempDir(), "over")
	r := startRun(t, l.url, []string{
		"--ttl", "5m", "--heartbeat", "1s", "--timeout", "1s",
		"--on-demote", ": > " + over + "; sleep 600", "--label", "[ ! -e " + over + " ] || sleep 600",
	}, "echo up; sleep 600")
	r.line()
	r.signal(syscall.SIGTERM)
	if _, code := r.end(); code != 128+15 {
		t.Errorf("exit status %d\n%s", code, r.said())
	}
	if out, _ := l.run(0, "get", "jobs"); !strings.Contains(out, "stopped by") {
		t.Errorf("%s\nstderr:\n%s", out, r.said())
	}
}

func TestAHookThatHangsHoldsNothingUpForLong(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	hook := "sleep 600 & echo $! > " + log + "; wait"
	r := startRun(t, devtest.Serve(t), []string{"--timeout", "1s", "--on-promote", hook}, `echo up; sleep 600`)
	if l := r.line(); l != "up" {
		t.Error(l)
	}
	if said := r.said(); !strings.Contains(said, "sleep 600") || !strings.Contains(said, "timeout") {
		t.Errorf("stderr %q", said)
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	// The hook's processes end with it, and not with the program, whose
	// leftovers are cleared away.
	awaitGone(t, pid)
	r.signal(syscall.SIGTERM)
	if _, code := r.end(); code != 128+15 {
		t.Errorf("exit status %d\n%s", code, r.said())
	}
}

// A term may be over before its program is to start: while a hook runs.
func TestNoProgramBeginsInATermThatIsOver(t *testing.T) {
	t.Parallel()
	// The hook's parent is leader run.
	r := startRun(t, devtest.Serve(t), []string{"--timeout", "10m", "--on-promote", "kill -TERM $PPID; sleep 600"}, "echo up")
	if rest, code := r.end(); code != 128+15 || len(rest) > 0 || strings.Contains(r.said(), "started") {
		t.Errorf("exit status %d, output %q\n%s", code, rest, r.said())
	}
}

func TestACheckThatFailsHandsOver(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	fit := filepath.Join(t.TempDir(), "fit")
	if err := os.WriteFile(fit, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Its own failover is far away: what hands over is the check.
	a := startRun(t, url, []string{"--id", "a", "--ttl", "60s", "--heartbeat", "200ms", "--check", "test -e " + fit}, "echo up; sleep 600")
	a.line()
	b := startRun(t, url, []string{"--id", "b"}, "echo up; sleep 600")
	if err := os.Remove(fit); err != nil {
		t.Fatal(err)
	}
	b.line()
	if said := a.said(); !strings.Contains(said, "unhealthy") {
		t.Errorf("stderr %q", said)
	}
}

// Three failures in a row bar a host, and the first of them may come when the
// program has long been running.
func TestHostWaitsForItsFirstPassedCheck(t *testing.T) {
	t.Parallel()
	for _, slots := range []string{"1", "2"} {
		log := filepath.Join(t.TempDir(), "log")
		r := startRun(t, devtest.Serve(t), []string{"-n", slots, "--ttl", "60s", "--check", fitLater(log), "--check-interval", "1s"}, "wc -l < "+log)
		rest, code := r.end()
		if code != 0 || len(rest) != 1 {
			t.Fatalf("exit status %d, stdout %q, stderr %s", code, rest, r.said())
		}
		if asked, err := strconv.Atoi(strings.TrimSpace(rest[0])); err != nil || asked < 3 {
			t.Errorf("it ran after %d checks (%v)", asked, err)
		}
		if said := r.said(); strings.Count(said, "leader: waiting: this host is not fit to lead: the check failed\n") != 1 {
			t.Errorf("stderr %q", said)
		}
	}
}

// The second check is far away, and the first one ends by the signal alone.
func TestASignalEndsTheWaitForACheck(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	for _, check := range []string{"kill -TERM $PPID; false", "kill -TERM $PPID; sleep 600"} {
		r := startRun(t, url, []string{"--check", check, "--check-interval", "10m"}, "echo up")
		if rest, code := r.end(); code != 128+15 || len(rest) > 0 {
			t.Errorf("%s: exit status %d, stdout %q, stderr %s", check, code, rest, r.said())
		}
	}
}

func TestProcess1LeavesNoZombies(t *testing.T) {
	t.Parallel()
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip(err)
	}
	space := []string{"--pid", "--fork", "--mount-proc", "--kill-child"}
	if out, err := exec.Command(unshare, append(space, "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespace of processes to be had: %v: %s", err, out)
	}
	// Orphans of a hook belong to leader run, orphans of the program to its
	// guard.
	const orphans = `(sleep 0.01 &) ; (sleep 0.01 &)`
	cmd := command(t, nil, "run", "jobs", "--server", devtest.Serve(t), "--on-promote", orphans, "--",
		"sh", "-c", orphans+`; sleep 0.5; grep -l ') Z ' /proc/[0-9]*/stat; readlink /proc/1/exe; exit 9`)
	cmd.Args = append(append([]string{unshare}, space...), cmd.Args...)
	cmd.Path = unshare
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	_ = cmd.Run() // see the exit status
	if code := cmd.ProcessState.ExitCode(); code != 9 || strings.TrimSpace(out.String()) != program {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, out.String(), stderr.String())
	}
}

// A pause is not a failure, but a user who looks at a host on which nothing
// runs has to learn of it.
func TestHostThatWaitsForTheEndOfAPauseReportsIt(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	env := []string{"NATS_URL=" + url}
	if code, out, errs := runProgram(t, env, "bucket", "create"); code != 0 {
		t.Fatal(out, errs)
	}
	if code, out, errs := runProgram(t, env, "pause", "jobs", "--yes", "--why", "upgrade"); code != 0 {
		t.Fatal(out, errs)
	}
	r := startRun(t, url, []string{"--id", "a"}, "echo up; sleep 600")
	r.awaitSaid(`leader: group "jobs" is paused by "`)
	r.awaitSaid(`" (upgrade): this candidate does not campaign until it is resumed`)
	if code, out, errs := runProgram(t, env, "resume", "jobs", "--yes", "--timeout", "60s"); code != 0 {
		t.Fatal(out, errs)
	}
	r.awaitSaid(`leader: group "jobs" is no longer paused`)
	r.line()
	r.signal(syscall.SIGTERM)
	if _, code := r.end(); code != 128+15 {
		t.Errorf("exit status %d\n%s", code, r.said())
	}
}

// The library's messages appear among the command's own, in the same form.
func TestRunSpeaksWithOneVoice(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	if _, err := l.js.CreateKeyValue(l.within(), jetstream.KeyValueConfig{Bucket: "plain", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []string{"", " -v"} {
		code, _, stderr := execute(t, []string{"NATS_URL=" + l.url}, strings.Fields("run g -b plain --ttl 300ms --heartbeat 60ms"+flags+" -- true")...)
		if code != 0 || !strings.Contains(stderr, `warning: Bucket "plain" expires records`) || strings.Contains(stderr, "promoted") != (flags != "") {
			t.Errorf("exit status %d: %s", code, stderr)
		}
		for line := range strings.Lines(stderr) {
			if stamp, _, _ := strings.Cut(line, " leader: "); len(stamp) != len("2006-01-02 15:04:05.000") || strings.Contains(line, "level=") {
				t.Errorf("%q", line)
			}
		}
	}
}

// A host that waits for its store ends like any other that waits. A crontab
// would start one more each minute, and nobody could stop them.
func TestRunEndsWhileItsStoreIsNotThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store string
		flags []string
		sig   syscall.Signal
		code  int
		said  string
	}{
		"NATS":   {"", nil, syscall.SIGTERM, 128 + int(syscall.SIGTERM), "leader: waiting for nats://127.0.0.1:1: "},
		"TERM":   {nowhere, nil, syscall.SIGTERM, 128 + int(syscall.SIGTERM), "waiting for the store"},
		"INT":    {nowhere, nil, syscall.SIGINT, 128 + int(syscall.SIGINT), "waiting for the store"},
		"--try":  {nowhere, []string{"--try", "--timeout", "300ms"}, 0, 6, "the server is not reached"},
		"--once": {nowhere, []string{"--once", "--every", "1s"}, 0, 75, "the period of --once is over"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := []string{"--server", "nats://127.0.0.1:1"}
			if c.store != "" {
				needsOtherStores(t)
				at = []string{"--store", c.store}
			}
			r := startRunOn(t, append(at, c.flags...), "echo up")
			if c.sig != 0 {
				r.awaitSaid(c.said)
				r.signal(c.sig)
			}
			if rest, code := r.end(); code != c.code || len(rest) > 0 || !strings.Contains(r.said(), c.said) {
				t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, r.said())
			}
		})
	}
}

// No restart helps a host that waits for its store, and clients are not to come.
func TestAHostWhoseStoreIsAwayAnswersProbes(t *testing.T) {
	needsOtherStores(t)
	t.Parallel()
	r := startRunOn(t, []string{"--store", nowhere, "--http", "127.0.0.1:0"}, "echo up")
	r.awaitSaid("waiting for the store")
	for path, want := range map[string]int{
		"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/leader": http.StatusServiceUnavailable, "/metrics": http.StatusOK,
	} {
		if code, body := r.get(path); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

func TestAWrongPasswordIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	url := serveUsers(t, &server.User{Username: "leader", Password: "right"})
	code, _, stderr := runProgram(t, []string{"NATS_PASSWORD=wrong"}, "run", "jobs", "--server", url, "--user", "leader", "--", "true")
	if code != 5 || !strings.Contains(strings.ToLower(stderr), "authorization") {
		t.Errorf("exit status %d: %s", code, stderr)
	}
}

// keyed returns the file of a new key, and what verifies its proofs.
func keyed(t *testing.T, audience string) (file string, v *proof.Verifier) {
	t.Helper()
	file, keys := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "keys")
	ok(t, "token", "keygen", "--key", file, "--keys", keys)
	set, err := proof.ReadKeySet(keys)
	if err != nil {
		t.Fatal(err)
	}
	v, err = proof.NewVerifier("jobs", set, proof.VerifierOptions{Audience: audience})
	if err != nil {
		t.Fatal(err)
	}
	return file, v
}

// The program reads its proof from a file, in which another one appears in
// time; a program that verifies has the group's public keys and no server.
func TestTheProgramHasAProofThroughoutItsTerm(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	key, v := keyed(t, "archive")
	r := startRun(t, url, []string{"--id", "host-1", "--ttl", "3s", "--proof-key", key, "--proof-for", "archive"},
		`echo "$LEADER_PROOF_FILE"; echo "$LEADER_TERM"; last=; n=0
		while [ $n -lt 3 ]; do now=$(cat "$LEADER_PROOF_FILE"); if [ "$now" != "$last" ]; then echo "$now"; last=$now; n=$((n + 1)); fi; sleep 0.05; done
		sleep 1000`)
	file, term := r.line(), r.line()
	seen := map[string]bool{}
	for range 3 {
		text := r.line()
		s, err := v.Accept(t.Context(), text)
		if err != nil || s.Leader != "host-1" || seen[text] || term != strconv.FormatUint(s.Term, 10) {
			t.Errorf("in term %s: %v, %v", term, s, err)
		}
		seen[text] = true
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	r.signal(syscall.SIGTERM)
	r.end()
	if _, err := os.Stat(filepath.Dir(file)); !os.IsNotExist(err) {
		t.Errorf("the proof is left behind: %v", err)
	}
}

func TestRunRefusesAKeyThatSignsNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--proof-key: " + file:                {"--proof-key", file},
		"--proof-key: stat " + file + ".none": {"--proof-key", file + ".none"},
	} {
		code, _, stderr := runProgram(t, nil, append(append([]string{"run", "jobs", "-s", "nats://127.0.0.1:1"}, args...), "--", "true")...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, %s", args, code, stderr)
		}
	}
}

// A host that is frozen leaves its last proof behind, in a file that anyone may
// still send. Its time is over when another host leads.
func TestProofOfAFrozenHostIsRefusedWhenAnotherLeads(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	key, v := keyed(t, "")
	host := func(id string) *running {
		return startRun(t, url, []string{"--id", id, "--ttl", "3s", "--proof-key", key}, `echo "$LEADER_PROOF_FILE"; exec sleep 1000`)
	}
	shown := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	a := host("a")
	left := a.line()
	if s, err := v.Accept(t.Context(), shown(left)); err != nil || s.Leader != "a" {
		t.Fatalf("%v, %v", s, err)
	}
	b := host("b")
	b.awaitSaid(`waiting: "a" leads`)
	a.signal(syscall.SIGSTOP)
	next := b.line()
	if _, err := v.Verify(shown(left)); !errors.Is(err, proof.ErrExpired) {
		t.Errorf("the proof that the frozen host left: %v", err)
	}
	if s, err := v.Accept(t.Context(), shown(next)); err != nil || s.Leader != "b" {
		t.Errorf("the proof of the host that leads: %v, %v", s, err)
	}
}

// A process that is killed removes nothing.
func TestProofOfAKilledRunIsRemovedByTheNext(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	key, _ := keyed(t, "")
	tmp := []string{"TMPDIR=" + t.TempDir()}
	run := func(id string) (r *running, file string) {
		r = followIn(t, tmp, []string{
			"run", "jobs", "--server", url, "--id", id, "--ttl", "3s", "--proof-key", key, "--", "sh", "-c", `echo "$LEADER_PROOF_FILE"; exec sleep 600`,
		})
		file = r.line()
		return r, file
	}
	killed, left := run("a")
	killed.signal(syscall.SIGKILL)
	killed.end()
	if _, err := os.Stat(left); err != nil {
		t.Fatalf("there is nothing to remove: %v", err)
	}
	_, file := run("b")
	if _, err := os.Stat(filepath.Dir(left)); !os.IsNotExist(err) {
		t.Errorf("it is left behind: %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
