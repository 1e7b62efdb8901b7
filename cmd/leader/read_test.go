package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"sigs.k8s.io/yaml"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

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

// stand lets a candidate stand, whose TTL no test waits for, and returns when
// it leads or follows.
func (l *readLab) stand(group, id string, hooks ...leader.Hooks) leader.Election {
	l.t.Helper()
	return l.standIn(labBucket, group, id, hooks...)
}

// standIn is stand in another bucket.
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

func TestListShowsTheSampleElections(t *testing.T) {
	t.Parallel()
	code, out, stderr := runProgram(t, nil, "ls", "--dev", "-o", "wide")
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", code, stderr)
	}
	checkCells(t, out, [][]string{
		{"GROUP", "LEADER", "TERM", "SINCE", "LEASE", "PRIO", "VERSION", "ADDRESS", "CHANGE", "WHY", "RENEWED", "TRANSITIONS", "CORRELATION", "META"},
		{"billing", "-", "TERM", "LENGTH", "-", "-", "-", "-", "paused by ann", "database migration", "-", "-", "HASH", "-"},
		{"jobs.eu", "eu-1", "TERM", "LENGTH", "LENGTH", "30", "-", "eu-1.example:8080", "absent (first leader)", "-", "LENGTH ago", "-", "HASH", "-"},
		{"jobs.us", "us-1", "TERM", "LENGTH", "LENGTH", "0", "1.4.2", "us-1.example:8080", "absent (first leader)", "-", "LENGTH ago", "-", "HASH", "zone=us-east"},
		{
			"reports", "worker-2", "TERM", "LENGTH", "LENGTH", "0", "-", "worker-2.example:8080", "transferred by ann",
			"worker-1 gets a new disk", "LENGTH ago", "1", "HASH", "-",
		},
	})
}

func TestListPrintsEachFormat(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	e := l.stand("jobs.eu", "a")
	l.stand("reports", "b")
	out, _ := l.run(0, "ls", "-o", "name")
	if out != "jobs.eu\nreports\n" {
		t.Errorf("%q", out)
	}
	out, _ = l.run(0, "ls", "jobs.*", "-o", "json")
	var groups []read.Group
	decodeStrictly(t, out, &groups)
	if len(groups) != 1 {
		t.Fatalf("%s", out)
	}
	g, term := groups[0], e.Term()
	if g.Group != "jobs.eu" || g.Leader != "a" || g.Term != term.Number || g.Correlation != term.Correlation() || g.Silent {
		t.Errorf("%s", out)
	}
	if g.Priority != 7 || g.Version != "1.2.3" || g.Address != "a:80" || g.Meta["zone"] != "z" || g.LeaseLeft <= 0 || g.LeaseLeft > 22_000 {
		t.Errorf("%s", out)
	}
	if string(g.ConnectionParams) != "{}\xff" || !strings.Contains(out, `"connection_params": "e33/"`) {
		t.Errorf("%s", out)
	}
	out, _ = l.run(0, "ls", "jobs.*", "-o", "yaml")
	var same []read.Group
	if err := yaml.UnmarshalStrict([]byte(out), &same); err != nil || len(same) != 1 || same[0].Term != term.Number {
		t.Errorf("%v:\n%s", err, out)
	}
	if strings.Contains(out, term.Token) {
		t.Error("a token is printed")
	}
}

func TestListOfNothingIsEmpty(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	out, stderr := l.run(0, "ls", "-o", "json")
	if out != "[]\n" || stderr != "leader: bucket \"leaders\" has no groups yet: the first candidate of a group makes it\n" {
		t.Errorf("%q, %q", out, stderr)
	}
	if _, stderr = l.run(0, "ls", "jobs.>"); stderr != "leader: bucket \"leaders\" has no groups that match jobs.>\n" {
		t.Errorf("%q", stderr)
	}
	if _, stderr = l.run(4, "ls", "reports"); !strings.Contains(stderr, `"reports"`) {
		t.Errorf("%q", stderr)
	}
	if _, stderr = l.run(5, "ls", "--bucket", "none"); !strings.Contains(stderr, `"none"`) {
		t.Errorf("%q", stderr)
	}
}

// A record does not say when its term began. Where there is no history, its
// leader knows.
func TestListLearnsSinceWhenFromTheLeader(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	e := l.stand("reports", "a", rollcall.Hooks(l.nc))
	if err := e.ValidateToken(l.within()); err != nil { // the record has been renewed
		t.Fatal(err)
	}
	out, _ := l.run(0, "ls", "-o", "json")
	var groups []read.Group
	decodeStrictly(t, out, &groups)
	if want := e.Status().LastTransition; !groups[0].Since.Equal(want) || groups[0].Reason != leader.ReasonAbsent {
		t.Errorf("since %v, want %v: %s", groups[0].Since, want, out)
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	// "vacant" alone, beside the name of a leader, would be a riddle.
	if err := l.stand("reports", "b", rollcall.Hooks(l.nc)).ValidateToken(l.within()); err != nil {
		t.Fatal(err)
	}
	out, _ = l.run(0, "ls")
	if row := cells(out)[1]; row[1] != "b" || row[len(row)-1] != "vacant (last one left)" {
		t.Errorf("%q", row)
	}
}

func TestSilentLeaderIsSaidToBe(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	kv, err := l.js.KeyValue(l.within(), labBucket)
	if err != nil {
		t.Fatal(err)
	}
	term, err := kv.Create(l.within(), "reports", []byte(`{"id":"gone","token":"t","ttl":1000}`))
	if err != nil {
		t.Fatal(err)
	}
	// It is silent after its lease, and 2 s for clocks that differ. A command that
	// itself takes longer than the lease sees that run out, and says so instead.
	l.until("the leader is said to be silent", func() error {
		out, _ := l.run(0, "ls", "-o", "json")
		var groups []read.Group
		decodeStrictly(t, out, &groups)
		if g := groups[0]; !g.Silent || g.Term != term || g.Since.IsZero() {
			return fmt.Errorf("term %d is not: %s", term, out)
		}
		return nil
	})
	var out string
	l.until("its row says so", func() error {
		if out, _ = l.run(0, "ls"); !strings.Contains(out, "silent for") {
			return errors.New(out)
		}
		return nil
	})
	checkCells(t, strings.Split(out, "\n")[1], [][]string{{"reports", "gone", "TERM", "LENGTH", "silent for LENGTH", "0", "-", "-", "-"}})
}

func TestRecordsDoNotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	kv, err := l.js.KeyValue(l.within(), labBucket)
	if err != nil {
		t.Fatal(err)
	}
	record := `{"id":"a\u001b[2J\u0007","token":"t","ttl":50000,"address":"x\u202egnp.exe\nforged","meta":{"k":"\u009b1m"},"version":"v"}`
	if _, err := kv.Create(l.within(), "reports", []byte(record)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"ls"}, {"ls", "-o", "wide"}, {"get", "reports", "-o", "wide"}, {"watch", "-n", "1"}, {"token", "verify", "reports", "--term", "1"},
	} {
		_, out, _ := runProgram(t, []string{"NATS_URL=" + l.url}, args...)
		if strings.ContainsAny(out, "\x1b\x07\u202e\u009b") || strings.Contains(out, "\nforged") || !strings.Contains(out, "a\ufffd[2J") {
			t.Errorf("%v: %q", args, out)
		}
	}
}

func TestGetShowsTheCandidates(t *testing.T) {
	t.Parallel()
	code, out, stderr := runProgram(t, nil, "get", "jobs.us", "--dev", "-o", "wide")
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", code, stderr)
	}
	checkCells(t, out, [][]string{
		{"Group:", "jobs.us"}, {"Leader:", "us-1"}, {"Term:", "TERM"}, {"Since:", "TIME (LENGTH ago)"}, {"Lease left:", "LENGTH"},
		{"Renewed:", "TIME (LENGTH ago)"}, {"Priority:", "0"}, {"Version:", "1.4.2"}, {"Address:", "us-1.example:8080"},
		{"Meta:", "zone=us-east"}, {"Last change:", "absent (first leader)"}, {"Correlation:", "HASH"}, {""},
		{"CANDIDATE", "STATE", "SINCE", "FOLLOWS", "LAG", "PRIO", "VERSION", "ADDRESS", "CONNECTION", "REASON", "ERROR"},
		{"us-1", "LEADER", "LENGTH", "us-1", "LENGTH", "0", "1.4.2", "us-1.example:8080", "CONNECTED", "absent", "-"},
		{"us-2", "FOLLOWER", "LENGTH", "us-1", "LENGTH", "0", "1.5.0", "us-2.example:8080", "CONNECTED", "following", "-"},
		{"us-3", "FOLLOWER (unhealthy)", "LENGTH", "us-1", "LENGTH", "0", "1.4.2", "us-3.example:8080", "CONNECTED", "following", "-"},
	})
}

func TestGetTellsOfAPause(t *testing.T) {
	t.Parallel()
	code, out, stderr := runProgram(t, nil, "get", "billing", "--dev", "-o", "json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", code, stderr)
	}
	var d read.Detail
	decodeStrictly(t, out, &d)
	if d.Leader != "" || !d.Paused || d.PausedBy != "ann" || d.PausedWhy != "database migration" || d.Reason != leader.ReasonPaused {
		t.Errorf("%s", out)
	}
	var who []string
	for _, c := range d.Candidates {
		who = append(who, c.Instance+" "+string(c.Barred))
	}
	if want := []string{"bill-1 paused", "bill-2 paused", "bill-3 paused"}; !slices.Equal(who, want) {
		t.Errorf("%q", who)
	}
}

func TestGetTellsOfAPendingRequest(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	kv, err := l.js.KeyValue(l.within(), labBucket)
	if err != nil {
		t.Fatal(err)
	}
	// A holder that nobody runs obeys nothing.
	term, err := kv.Create(l.within(), "reports", []byte(`{"id":"deaf","token":"t","ttl":3600000}`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := leader.NewControl(l.nc, labBucket, "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.File(l.within(), leader.Request{Op: leader.OpTransfer, Group: "reports", Successor: "b", Why: "test"}); err != nil {
		t.Fatal(err)
	}
	out, _ := l.run(0, "get", "reports", "-o", "json")
	var d read.Detail
	decodeStrictly(t, out, &d)
	if d.Pending == nil || *d.Pending != (read.Pending{Op: leader.OpTransfer, Term: term, Successor: "b", By: "ann", Why: "test"}) {
		t.Errorf("%s", out)
	}
	out, _ = l.run(0, "get", "reports")
	if !strings.Contains(out, "transfer to b by ann (test)") || !strings.Contains(out, "No candidate answered") {
		t.Errorf("%s", out)
	}
	l.run(4, "get", "nosuch")
}

// follow begins a command in this process that prints until it is told to stop.
func (l *readLab) follow(args ...string) *call {
	l.t.Helper()
	return begin(l.t, l.t.Output(), []string{"NATS_URL=" + l.url}, args...)
}

// A follower is such a command in a process of its own.
type follower struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   io.Closer
	lines *bufio.Scanner
}

// start starts a command in a process of its own.
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

// interrupt ends the command, which must end with 0 and print nothing more.
func (f *follower) interrupt() {
	f.t.Helper()
	if err := f.cmd.Process.Signal(syscall.SIGINT); err != nil {
		f.t.Fatal(err)
	}
	if f.lines.Scan() {
		f.t.Errorf("one more line: %s", f.lines.Text())
	}
	_ = f.cmd.Wait() // the status tells
	if code := f.cmd.ProcessState.ExitCode(); code != 0 {
		f.t.Errorf("exit status %d after an interrupt", code)
	}
}

func TestWatchTellsEachChangeOfLeaders(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	a := l.stand("reports", "a")
	first := a.Term().Number
	w := l.start("watch", "-o", "json")
	var c read.Change
	w.next(&c)
	if c.Event != "present" || c.Group != "reports" || c.Leader != "a" || c.Term != first || c.Address != "a:80" || c.Time.IsZero() {
		t.Errorf("%+v", c)
	}
	if err := a.Pause(l.within(), "test"); err != nil {
		t.Fatal(err)
	}
	c = read.Change{}
	w.next(&c)
	if c.Event != "vacant" || c.Leader != "" || c.Term != first || c.Reason != leader.ReasonPaused || c.By != "a" || c.Why != "test" {
		t.Errorf("%+v", c)
	}
	if err := a.Resume(l.within()); err != nil {
		t.Fatal(err)
	}
	c = read.Change{}
	w.next(&c)
	if c.Event != "acquired" || c.Leader != "a" || c.Term <= first || c.Reason != "" {
		t.Errorf("%+v", c)
	}
	if runsOnUnix() {
		w.interrupt()
	}
}

// leader watch | head -1
//
// There is more than one thing to tell: a child that another test is starting
// holds the pipe's other end too until it executes its program, and what is
// written meanwhile fails nobody.
func TestWatchEndsInSilenceWhenNobodyReads(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	a := l.stand("reports", "a")
	w := l.start("watch", "-o", "json")
	w.next(&read.Change{})
	if err := w.out.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.cmd.Wait() // the status tells
	}()
	for ctx := l.within(); ; {
		select {
		case <-ended:
			if code := w.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit status %d", code)
			}
			return
		default:
		}
		if err := errors.Join(a.Pause(ctx, "test"), a.Resume(ctx)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWatchWithSampleElectionsHasSomethingToShow(t *testing.T) {
	t.Parallel()
	code, out, stderr := runProgram(t, nil, "watch", "--dev", "-o", "json", "-n", "5")
	if code != 0 || stderr != "" || !regexp.MustCompile(`"reports","event":"(vacant|acquired)"`).MatchString(out) {
		t.Errorf("exit status %d: %s%s", code, out, stderr)
	}
}

func TestListFollowsInLines(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	a := l.stand("reports", "a", l.answering())
	w := l.follow("ls", "-w", "-o", "json")
	var g read.Group
	w.next(&g)
	if g.Leader != "a" || g.Since.IsZero() {
		t.Errorf("%+v", g)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	g = read.Group{}
	w.next(&g)
	if g.Leader != "" || g.Reason != leader.ReasonStopped || g.Since.IsZero() {
		t.Errorf("%+v", g)
	}
	l.stand("reports", "b")
	g = read.Group{}
	w.next(&g)
	if g.Leader != "b" || g.Reason != leader.ReasonStopped || g.Since.IsZero() {
		t.Errorf("%+v", g)
	}
	w.interrupt()
}

func TestWatchPrintsAdvisories(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	w := l.follow("watch", "--advisories", "-o", "json", "-n", "1", "reports")
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() { // until the command has subscribed
		defer close(done)
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				data, err := json.Marshal(advisory.Advisory{
					Version: 1, ID: "x-1", Seq: 1, Time: time.Now(), Bucket: labBucket, Group: "reports", Instance: "a", Event: leader.EventFollowing,
				})
				_ = errors.Join(err, l.nc.Publish(advisory.Subject(labBucket, leader.EventFollowing, "reports"), data))
			case <-stop:
				return
			}
		}
	}()
	var a advisory.Advisory
	w.next(&a)
	close(stop)
	<-done
	if a.Instance != "a" || a.Event != leader.EventFollowing {
		t.Errorf("%+v", a)
	}
	if code := w.wait(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

func TestHistorySaysWhoLedWhen(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	if _, stderr := l.run(5, "history", "reports"); !strings.Contains(stderr, "leader history enable") {
		t.Errorf("%q", stderr)
	}
	out, _ := l.run(0, "history", "enable")
	if out != "LEADER_HISTORY_leaders\n" {
		t.Errorf("%q", out)
	}
	if out, stderr := l.run(0, "history", "enable"); out != "LEADER_HISTORY_leaders\n" || !strings.Contains(stderr, "already") {
		t.Errorf("%q, %q", out, stderr)
	}
	l.run(4, "history", "reports")

	a := l.stand("reports", "a", l.answering())
	first := a.Term().Number
	l.stand("reports", "b", l.answering())
	if err := a.Transfer(l.within(), "b"); err != nil {
		t.Fatal(err)
	}
	past := l.awaitHistory("reports", func(p read.Past) bool { return len(p.Terms) == 2 && !p.Terms[1].Began.IsZero() })
	r, next := past.Terms[0], past.Terms[1]
	if r.Leader != "a" || r.Term != first || r.Began.IsZero() || r.Ended.Before(r.Began) || r.Reason != leader.ReasonTransferred {
		t.Errorf("%+v", r)
	}
	if next.Leader != "b" || next.Term <= first || !next.Ended.IsZero() || past.Missing != 0 {
		t.Errorf("%+v", past)
	}
	l.checkWhoLed(past)
	checkCells(t, l.mustRun("history", "reports"), [][]string{
		{"LEADER", "TERM", "BEGAN", "ENDED", "LASTED", "REASON", "BY", "WHY"},
		{"a", "TERM", "TIME", "TIME", "LENGTH", "transferred", "-", "-"},
		{"b", "TERM", "TIME", "-", "LENGTH so far", "-", "-", "-"},
	})
	l.run(2, "history", "disable")
	l.run(0, "history", "disable", "--yes")
	l.run(4, "history", "disable", "--yes")
}

func (l *readLab) mustRun(args ...string) string {
	l.t.Helper()
	out, stderr := l.run(0, args...)
	if stderr != "" {
		l.t.Errorf("%v: %q", args, stderr)
	}
	return out
}

// awaitHistory runs the command until the stream has what was published.
func (l *readLab) awaitHistory(group string, done func(read.Past) bool) read.Past {
	l.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		code, out, _ := runProgram(l.t, []string{"NATS_URL=" + l.url}, "history", group, "-o", "json")
		if code != 0 {
			continue
		}
		var p read.Past
		decodeStrictly(l.t, out, &p)
		if done(p) {
			return p
		}
	}
	l.t.Fatal("the history does not come")
	return read.Past{}
}

// checkWhoLed asks about times in, between and before the terms of a, which
// ended, and b, which leads.
func (l *readLab) checkWhoLed(past read.Past) {
	l.t.Helper()
	a, b := past.Terms[0], past.Terms[1]
	at := func(x time.Time) string { return x.UTC().Format(time.RFC3339Nano) }
	for when, want := range map[string]string{
		at(a.Began): "a led reports at ", at(b.Began.Add(time.Minute)): "b led reports at ", "0s": "b led reports at ",
	} {
		if out := l.mustRun("history", "reports", "--at", when); !strings.HasPrefix(out, want) || strings.Count(out, "\n") != 1 {
			l.t.Errorf("%s: %q", when, out)
		}
	}
	if out := l.mustRun("history", "reports", "--at", at(a.Began), "-o", "name"); out != "a\n" {
		l.t.Errorf("%q", out)
	}
	var p read.Past
	decodeStrictly(l.t, l.mustRun("history", "reports", "--at", at(a.Began), "-o", "json"), &p)
	if !p.Led || p.AtTerm == nil || p.AtTerm.Leader != "a" || !p.At.Equal(a.Began) {
		l.t.Errorf("%+v", p)
	}
	if _, stderr := l.run(4, "history", "reports", "--at", "2001-01-01T00:00:00Z"); !strings.Contains(stderr, "the history begins at") {
		l.t.Errorf("%q", stderr)
	}
	if _, stderr := l.run(4, "history", "reports", "--at", at(a.Began.Add(-time.Microsecond))); !strings.Contains(stderr, "nobody is known") {
		l.t.Errorf("%q", stderr)
	}
}

// --since is for the terms that are shown. Who led, and who had led, is a
// question about all of them.
func TestWhoLedIsAskedOfAllTerms(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.run(0, "history", "enable")
	a := l.stand("reports", "a", l.answering())
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	past := l.awaitHistory("reports", func(p read.Past) bool { return len(p.Terms) == 1 && !p.Terms[0].Ended.IsZero() })
	ended := past.Terms[0].Ended
	after := ended.Add(time.Microsecond).UTC().Format(time.RFC3339Nano)
	for _, since := range [][]string{nil, {"--since", after}} {
		args := append([]string{"history", "reports", "--at", after}, since...)
		if _, stderr := l.run(4, args...); !strings.Contains(stderr, "of a had ended") {
			t.Errorf("%v: %q", since, stderr)
		}
	}
}

// An advisory that was dropped leaves a gap in the counting of its candidate,
// and the history says so. The server does not answer a request that it denies:
// that must not look like a server that is slow.
func TestHistoryNamesTheMissingPermission(t *testing.T) {
	t.Parallel()
	url := serveUsers(t, &server.User{Username: "observer", Password: "observer", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{"$JS.API.STREAM.INFO.KV_leaders"}},
	}})
	env := []string{"NATS_URL=" + url, "NATS_USER=observer", "NATS_PASSWORD=observer"}
	for _, c := range []struct{ args, subject string }{
		{"history reports", "$JS.API.STREAM.NAMES"},
		{"history enable", "$JS.API.STREAM.NAMES"},
		{"history disable --yes", "$JS.API.STREAM.DELETE.LEADER_HISTORY_leaders"},
	} {
		code, out, stderr := runProgram(t, env, append(strings.Fields(c.args), "--timeout", patience.String())...)
		if code != 5 || out != "" || !strings.Contains(stderr, "lacks a permission") || !strings.Contains(stderr, strconv.Quote(c.subject)) {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q", c.args, code, out, stderr)
		}
	}
}

func TestHistoryOfABucketThatDoesNotExistSaysHowToMakeIt(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	if _, stderr := l.run(5, "history", "enable", "--bucket", "none"); !strings.Contains(stderr, `bucket "none" does not exist: leader bucket create none makes it`) {
		t.Errorf("%q", stderr)
	}
}

func TestHistoryIsHonestAboutGaps(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.run(0, "history", "enable")
	for _, seq := range []uint64{1, 2, 5} {
		data, err := json.Marshal(advisory.Advisory{
			Version: 1, ID: "run-" + strconv.FormatUint(seq, 10), Seq: seq, Time: time.Now(), Bucket: labBucket, Group: "reports",
			Instance: "a", Event: leader.EventPromoted, Term: 10 + seq, Leader: "a", Correlation: "00000000",
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.js.Publish(l.within(), advisory.Subject(labBucket, leader.EventPromoted, "reports"), data); err != nil {
			t.Fatal(err)
		}
	}
	out, stderr := l.run(0, "history", "reports", "-o", "json")
	var p read.Past
	decodeStrictly(t, out, &p)
	if p.Missing != 2 || !strings.Contains(stderr, "2 advisories are missing") {
		t.Errorf("%+v, %q", p, stderr)
	}
}

// A history begins when its stream was made, or where the oldest advisories
// were dropped.
func TestHistoryKnowsWhereItBegins(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.run(0, "history", "enable")
	s, err := l.js.Stream(l.within(), "LEADER_HISTORY_"+labBucket)
	if err != nil {
		t.Fatal(err)
	}
	l.stand("reports", "a", l.answering())
	past := l.awaitHistory("reports", func(p read.Past) bool { return len(p.Terms) == 1 && !p.Terms[0].Began.IsZero() })
	if made := s.CachedInfo().Created; !past.CompleteSince.Equal(made) {
		t.Errorf("complete since %v, and the stream was made at %v", past.CompleteSince, made)
	}
	if err := s.Purge(l.within(), jetstream.WithPurgeKeep(1)); err != nil {
		t.Fatal(err)
	}
	var cut read.Past
	decodeStrictly(t, l.mustRun("history", "reports", "-o", "json"), &cut)
	if !cut.CompleteSince.After(past.Terms[0].Began) {
		t.Errorf("complete since %v, and the oldest was dropped", cut.CompleteSince)
	}
}

func TestTokenIsVerifiedAgainstTheRecord(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	a := l.stand("reports", "a")
	term := a.Term()
	number := strconv.FormatUint(term.Number, 10)
	newer := strconv.FormatUint(term.Number+1, 10)
	verify := func(want int, env []string, in string, args ...string) string {
		t.Helper()
		code, out, errs := runWithInput(t, in, append(env, "NATS_URL="+l.url), append([]string{"token", "verify"}, args...)...)
		if code != want || strings.Contains(out+errs, term.Token) {
			t.Errorf("%q: exit status %d, want %d: %s%s", args, code, want, out, errs)
		}
		verdict, _, _ := strings.Cut(out+errs, ":")
		return verdict
	}
	for name, c := range map[string]struct {
		got, want string
	}{
		"environment": {verify(0, []string{"LEADER_TERM=" + number, "LEADER_TOKEN=" + term.Token}, "", "reports"), "current"},
		"stdin":       {verify(0, nil, term.Token+"\n", "reports", "--term", number, "--term-token", "-"), "current"},
		"term alone":  {verify(0, nil, "", "reports", "--term", number), "current"},
		"mismatch":    {verify(1, nil, "other", "reports", "--term", number, "--term-token=-"), "mismatch"},
		"older":       {verify(1, nil, "", "reports", "--term", "1"), "stale"},
		"newer":       {verify(1, nil, "", "reports", "--term", newer), "unknown"},
		"no token":    {verify(2, nil, "", "reports", "--term", number, "--term-token", "-"), "leader"},
		"no term":     {verify(2, nil, "", "reports"), "leader"},
		"no group":    {verify(4, nil, "", "nosuch", "--term", number), "leader"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := verify(1, nil, "", "reports", "--term", number); got != "stale" {
		t.Errorf("after the release: %q", got)
	}
	var v read.Verdict
	out, _ := l.run(1, "token", "verify", "reports", "--term", number, "-o", "json")
	decodeStrictly(t, out, &v)
	if v != (read.Verdict{Group: "reports", Term: term.Number, Verdict: "stale", CurrentTerm: term.Number}) {
		t.Errorf("%s", out)
	}
}

func TestReadersRefuseWrongUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		say  string
	}{
		"pattern":        {[]string{"ls", "jobs.>.x"}, `"jobs.>.x"`},
		"watch, pattern": {[]string{"watch", "*x"}, `"*x"`},
		"count":          {[]string{"watch", "--count=-1"}, "--count -1"},
		"all advisories": {[]string{"watch", "--advisories", "--all"}, "--all: not with --advisories"},
		"group":          {[]string{"get", "jobs.*"}, `"jobs.*"`},
		"format":         {[]string{"ls", "-o", "xml"}, "xml"},
		"watched yaml":   {[]string{"ls", "-w", "-o", "yaml"}, "--output yaml"},
		"dev and server": {[]string{"ls", "--dev", "-s", "nats://127.0.0.1:1"}, "--dev"},
		"timeout":        {[]string{"ls", "--timeout", "0s"}, "--timeout 0s"},
		"at":             {[]string{"history", "reports", "--at", "noon"}, `--at "noon"`},
		"since":          {[]string{"history", "reports", "--since", "soon"}, `--since "soon"`},
		"age":            {[]string{"history", "enable", "--max-age", "1ms"}, "--max-age 1ms"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, stderr := runProgram(t, nil, c.args...)
			if code != 2 || !strings.Contains(stderr, c.say) || out != "" {
				t.Errorf("exit status %d, stdout %q, stderr %q, want %q in it", code, out, stderr, c.say)
			}
		})
	}
}

func runsOnUnix() bool { return os.PathSeparator == '/' }

// The live view is seen by tmux, as a person would.
func TestListDrawsOverItselfOnATerminal(t *testing.T) {
	t.Parallel()
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("no tmux")
	}
	l := newReadLab(t)
	a := l.stand("reports", "a")
	socket := t.TempDir() + "/tmux"
	run := func(args ...string) string {
		cmd := exec.CommandContext(l.within(), tmux, append([]string{"-S", socket, "-f", os.DevNull}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v %s", args, err, out)
		}
		return string(out)
	}
	run("new-session", "-d", "-s", "live", "-x", "70", "-y", "6", program+" ls -w -s "+l.url+"; echo ended $?; read line")
	t.Cleanup(func() { _ = exec.Command(tmux, "-S", socket, "kill-server").Run() })
	await := func(what string, fits func(screen string) bool) {
		t.Helper()
		var screen string
		for end := time.Now().Add(patience); time.Now().Before(end); {
			if screen = run("capture-pane", "-p", "-t", "live"); fits(screen) {
				return
			}
		}
		t.Fatalf("%s: not on the screen:\n%s", what, screen)
	}
	row := regexp.MustCompile(`(?m)^reports +a +\d{16} .*[0-9.]+s`)
	await("the leader", func(s string) bool { return strings.Contains(s, "GROUP") && row.MatchString(s) })
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	await("the vacancy", func(s string) bool {
		return strings.Count(s, "reports") == 1 && regexp.MustCompile(`(?m)^reports +- +\d{16}`).MatchString(s)
	})
	run("send-keys", "-t", "live", "C-c")
	await("the end", func(s string) bool { return strings.Contains(s, "ended") && !strings.Contains(s, "GROUP") })
}
