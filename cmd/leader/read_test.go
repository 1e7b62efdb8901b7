package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"sigs.k8s.io/yaml"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/read"
	"github.com/seed-ff2cb582/leader/rollcall"
)

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
	if g.Group != "jobs.eu" || g.Leader != "a" || g.Term != term.Number || g.Correlation != term.Correlation() {
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

// firsts returns the first cell of each line.
func firsts(out string) (all []string) {
	for line := range strings.Lines(out) {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, first)
	}
	return all
}

func TestListSortsAndLeavesOutAsAsked(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"ls":                               {"GROUP", "billing", "jobs.eu", "jobs.us", "reports"},
		"ls --no-headers":                  {"billing", "jobs.eu", "jobs.us", "reports"},
		"ls --no-headers --sort leader":    {"billing", "jobs.eu", "jobs.us", "reports"}, // -, eu-1, us-1, worker-2
		"ls --no-headers --vacant":         {"billing"},
		"ls --no-headers --vacant -o wide": {"billing"},
		"ls --vacant -o name":              {"billing"},
		"ls --vacant jobs.* -o name":       nil,
	} {
		code, out, stderr := runProgram(t, nil, append(strings.Fields(line), "--dev")...)
		if code != 0 || !slices.Equal(firsts(out), want) {
			t.Errorf("leader %s: exit status %d, %q, want %q; stderr %q", line, code, firsts(out), want, stderr)
		}
	}
	var groups []read.Group
	_, out, _ := runProgram(t, nil, "ls", "--dev", "--sort", "since", "-o", "json")
	decodeStrictly(t, out, &groups)
	if len(groups) != 4 || !slices.IsSortedFunc(groups, func(a, b read.Group) int { return b.Since.Compare(a.Since) }) {
		t.Errorf("not with the latest change first: %s", out)
	}
	_, out, _ = runProgram(t, nil, "ls", "--dev", "--sort", "term", "-o", "json")
	groups = nil
	decodeStrictly(t, out, &groups)
	if len(groups) != 4 || !slices.IsSortedFunc(groups, func(a, b read.Group) int { return int(b.Term) - int(a.Term) }) {
		t.Errorf("not with the highest term first: %s", out)
	}
}

// A group that was paused before it has had a leader has no record. An operator
// who asks why nobody leads wants to see it all the same.
func TestListShowsAGroupThatIsPausedBeforeItsFirstLeader(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.stand("other", "o")
	l.run(0, "pause", "early", "--yes", "--why", "not yet")
	for _, args := range [][]string{{"ls", "-o", "json"}, {"ls", "early", "-o", "json"}, {"ls", "--vacant", "-o", "json"}} {
		var groups []read.Group
		out, _ := l.run(0, args...)
		decodeStrictly(t, out, &groups)
		g := groups[0]
		if g.Group != "early" || g.Leader != "" || !g.Paused || g.PausedBy == "" || g.PausedWhy != "not yet" || len(groups) > 1 && groups[1].Paused {
			t.Errorf("%v: %+v", args, groups)
		}
	}
	// wait learns of it, too.
	var g read.Group
	out, _ := l.run(0, "wait", "early", "--vacant", "-o", "json")
	decodeStrictly(t, out, &g)
	if !g.Paused || g.PausedWhy != "not yet" {
		t.Errorf("%s", out)
	}
	_, stderr := l.run(6, "wait", "early", "--timeout", "2s")
	if !strings.Contains(stderr, `nobody leads group "early": paused by `) {
		t.Error(stderr)
	}
	out, _ = l.run(0, "ls", "-o", "wide", "early")
	if !strings.Contains(out, " paused by ") || !strings.Contains(out, " not yet ") {
		t.Error(out)
	}

	// A user who follows the list sees a pause come and go.
	w := l.follow("ls", "-w", "-o", "json")
	next := func() (g read.Group) { w.next(&g); return g }
	if g := next(); g.Group != "early" || !g.Paused {
		t.Errorf("%+v", g)
	}
	if g := next(); g.Group != "other" || g.Paused {
		t.Errorf("%+v", g)
	}
	l.run(0, "resume", "early", "--yes", "--no-wait")
	if g := next(); g.Group != "early" || g.Paused {
		t.Errorf("%+v", g)
	}
	l.run(0, "pause", "other", "--yes", "--timeout", "60s")
	for {
		if g := next(); g.Group != "other" {
			t.Errorf("%+v", g)
		} else if g.Paused && g.Leader == "" {
			break
		}
	}
	l.run(0, "resume", "other", "--yes", "--timeout", "60s")
	for {
		if g := next(); g.Group != "other" {
			t.Errorf("%+v", g)
		} else if !g.Paused && g.Leader == "o" {
			break
		}
	}
	l.stand("early", "e")
	if g := next(); g.Group != "early" || g.Leader != "e" {
		t.Errorf("%+v", g)
	}
}

// A record may not contain when its term started. Where there is no history,
// its leader knows.
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

// Every command reports the same of a leader that has died, as soon as its lease
// has run out by the server's clock, and 2 s for clocks that differ.
func TestADeadLeaderLeadsNoMore(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.run(0, "history", "enable")
	kv, err := l.js.KeyValue(l.within(), labBucket)
	if err != nil {
		t.Fatal(err)
	}
	term, err := kv.Create(l.within(), "reports", []byte(`{"id":"gone","token":"t","ttl":1000}`))
	if err != nil {
		t.Fatal(err)
	}
	l.publish(advisory.Advisory{
		Version: 1, ID: "run-1", Seq: 1, Time: time.Now(), Bucket: labBucket, Group: "reports",
		Instance: "gone", Event: leader.EventPromoted, Term: term, Leader: "gone", Correlation: "00000000",
	})
	var g read.Group
	l.until("nobody leads", func() error {
		out, _ := l.run(0, "ls", "-o", "json")
		var groups []read.Group
		decodeStrictly(t, out, &groups)
		if g = groups[0]; g.Leader != "" {
			return errors.New(out)
		}
		return nil
	})
	if g.Last != "gone" || g.Term != term || g.Reason != leader.ReasonExpired || g.LeaseLeft != 0 || g.Since.IsZero() || !g.Since.After(g.Renewed) {
		t.Errorf("%+v", g)
	}
	row := []string{"reports", "-", "TERM", "LENGTH", "-", "-", "-", "-", "expired (lease of gone)"}
	// A command takes the holder for the leader if the server does not answer
	// soon enough when the record was stored.
	expect := func(line, want string) (out string) {
		t.Helper()
		l.until(line, func() error {
			if out, _ = l.run(0, strings.Fields(line)...); !strings.Contains(out, want) {
				return errors.New(out)
			}
			return nil
		})
		return out
	}
	for _, line := range []string{"ls", "ls --vacant", "wait reports --vacant"} {
		out := expect(line, "expired (lease of gone)")
		checkCells(t, strings.Split(out, "\n")[1], [][]string{row})
	}
	for _, c := range []struct{ line, want string }{
		{"get reports", "Led last:      gone"},
		{"history reports", "expired"},
		{"__complete get re", "reports\tno leader"},
		{"pause reports --yes --no-wait", "filed"},
		{"resume reports --yes --no-wait", "filed"},
	} {
		if out := expect(c.line, c.want); strings.Contains(out, "so far") {
			t.Errorf("%s: %s", c.line, out)
		}
	}
	if _, stderr := l.run(4, "step-down", "reports", "--yes"); !strings.Contains(stderr, `expired ("gone has not renewed since `) {
		t.Errorf("step-down: %s", stderr)
	}
}

// publish publishes an advisory, and waits until the history has it.
func (l *readLab) publish(a advisory.Advisory) {
	l.t.Helper()
	data, err := json.Marshal(a)
	if err == nil {
		_, err = l.js.Publish(l.within(), advisory.Subject(a.Bucket, a.Event, a.Group), data)
	}
	if err != nil {
		l.t.Fatal(err)
	}
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

// shown is what a terminal of so many columns shows when a command has ended,
// with the sequences that colour it.
func shown(t *testing.T, columns, line string, env ...string) string {
	t.Helper()
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("no tmux")
	}
	socket := t.TempDir() + "/tmux"
	run := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), tmux, append([]string{"-S", socket, "-f", os.DevNull}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v %s", args, err, out)
		}
		return string(out)
	}
	run("new-session", "-d", "-s", "s", "-x", columns, "-y", "60", "env -u NO_COLOR -u NATS_URL "+strings.Join(env, " ")+" "+program+" "+line+"; echo THE END; read line")
	defer func() { _ = exec.Command(tmux, "-S", socket, "kill-server").Run() }()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if screen, _, over := strings.Cut(run("capture-pane", "-e", "-p", "-t", "s"), "THE END"); over {
			return screen
		}
	}
	t.Fatalf("%s does not end", line)
	return ""
}

// As a person sees it: lines end between words, columns for which there is no
// room are named, and what is wrong is red.
func TestATerminalIsFilledWithWholeWordsAndColours(t *testing.T) {
	t.Parallel()
	screen := shown(t, "80", "ls --dev -o wide")
	for _, want := range []string{"migration", "\x1b[1m", "\x1b[31m-", "LEASE"} {
		if !strings.Contains(screen, want) {
			t.Errorf("no %q in\n%s", want, screen)
		}
	}
	plain := strings.Join(strings.Fields(ansi.Strip(screen)), " ")
	if !strings.Contains(plain, "Not shown, for want of room: META, CORRELATION") {
		t.Errorf("the output does not name what is left out:\n%s", plain)
	}
	screen = shown(t, "80", "doctor --dev --timeout 60s")
	if !strings.Contains(screen, "\n                  down nobody is elected or kept") || !strings.Contains(ansi.Strip(screen), "warn  paused") {
		t.Errorf("findings are not folded under their text:\n%s", screen)
	}
	if screen := shown(t, "80", "ls --dev -o wide", "NO_COLOR=1"); strings.Contains(screen, "\x1b") || !strings.Contains(screen, "GROUP") {
		t.Errorf("coloured in spite of NO_COLOR: %q", screen)
	}
	// A sentence on the standard error, which is longer than a line.
	if screen := shown(t, "40", "get nosuch --dev"); !strings.Contains(screen, "\n  ") || strings.Contains(strings.ReplaceAll(screen, "\n  ", " "), "\n ") {
		t.Errorf("%s", screen)
	}
	if _, out, _ := runProgram(t, nil, "ls", "--dev"); strings.Contains(out, "\x1b") {
		t.Errorf("coloured in a pipe: %q", out)
	}
}

// forgetOne leaves one group behind that is forgotten, beside one that is led.
func forgetOne(t *testing.T) *readLab {
	t.Helper()
	l := newReadLab(t)
	l.stand("other", "o")
	if err := l.stand(steered, "a").Stop(); err != nil {
		t.Fatal(err)
	}
	l.run(0, "forget", steered, "-y")
	return l
}

// A bucket whose groups are all forgotten is not one that never had any.
func TestListReportsThatItLeavesForgottenGroupsOut(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	if err := l.stand(steered, "a").Stop(); err != nil {
		t.Fatal(err)
	}
	l.run(0, "forget", steered, "-y")
	for pattern, want := range map[string]string{
		">":      "leader: bucket \"leaders\" has no groups but forgotten ones, which --all shows\n",
		"*":      "leader: bucket \"leaders\" has no groups that match * but forgotten ones, which --all shows\n",
		"jobs.>": "leader: bucket \"leaders\" has no groups that match jobs.>\n",
	} {
		if out, errs := l.run(0, "ls", pattern); out != "" || errs != want {
			t.Errorf("%s: %q, %q", pattern, out, errs)
		}
	}
	if out, errs := l.run(0, "ls", "--all", "-o", "name"); out != steered+"\n" || errs != "" {
		t.Errorf("--all: %q, %q", out, errs)
	}
}

// A pause brings no group back that is marked as gone, however one looks.
func TestListLeavesForgottenGroupsOutThatArePaused(t *testing.T) {
	t.Parallel()
	l := forgetOne(t)
	l.run(0, "pause", steered, "--yes")
	out, _ := l.run(0, "ls", "-o", "name")
	if out != "other\n" {
		t.Errorf("%q", out)
	}
	w := l.follow("ls", "-w", "-o", "json")
	var g read.Group
	w.next(&g)
	if g.Group != "other" {
		t.Errorf("%+v", g)
	}
	l.run(0, "pause", "other", "--yes", "--timeout", "60s")
	for g = (read.Group{}); !g.Paused; {
		w.next(&g)
		if g.Group != "other" {
			t.Fatalf("%+v", g)
		}
	}
	out, _ = l.run(0, "ls", steered, "-o", "json")
	var groups []read.Group
	decodeStrictly(t, out, &groups)
	if len(groups) != 1 || groups[0].Term == 0 || !groups[0].Paused {
		t.Errorf("%s", out)
	}
}

func TestWatchLeavesForgottenGroupsOut(t *testing.T) {
	l := forgetOne(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"other"}},
		{[]string{"--all", "-n", "2"}, []string{"other", steered}},
		{[]string{steered, "-n", "1"}, []string{steered}}, // asked for by its name
	} {
		f := l.follow(append([]string{"watch", "-o", "json"}, c.args...)...)
		seen := map[string]bool{}
		for range c.want {
			var change read.Change
			f.next(&change)
			seen[change.Group] = true
		}
		for _, group := range c.want {
			if !seen[group] {
				t.Errorf("%q: saw %v, want %v", c.args, seen, c.want)
			}
		}
	}
	// watch reports that a group is forgotten, and that it is back.
	f := l.follow("watch", "-o", "json")
	var change read.Change
	f.next(&change)
	if change.Group != "other" {
		t.Errorf("%+v", change)
	}
	l.stand(steered, "b")
	f.next(&change)
	if change.Group != steered || change.Leader != "b" {
		t.Errorf("%+v", change)
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

func TestGetShowsAPause(t *testing.T) {
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

func TestGetShowsAPendingRequest(t *testing.T) {
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

// thousand is the message where more candidates answer than are listened to.
const thousand = "more than 1000 answers"

// crowd answers the roll call in the place of 1,001 candidates.
func (l *readLab) crowd(group string) {
	l.t.Helper()
	_, err := l.nc.Subscribe(rollcall.Subject(labBucket, group), func(m *nats.Msg) {
		for i := range 1001 {
			_ = l.nc.Publish(m.Reply, fmt.Appendf(nil, `{"format":1,"bucket":%q,"group":%q,"instance":"c%04d"}`, labBucket, group, i)) // asked again
		}
	})
	if err := errors.Join(err, l.nc.Flush()); err != nil {
		l.t.Fatal(err)
	}
}

// Each of them would take the thousand for all. On a busy machine the answers
// may pause for too long: hence again.
func TestOfMoreThanAThousandCandidatesAllThatCameIsShownAndThatThereAreMore(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.crowd("reports")
	vacancy := &nats.Msg{Subject: "$KV.leaders.reports", Data: []byte(`{"reason":"stopped"}`), Header: nats.Header{"KV-Operation": []string{"DEL"}}}
	env := []string{"NATS_URL=" + l.url}
	l.until("leader get shows them", func() error {
		code, out, stderr := runProgram(t, env, "get", "reports", "--timeout", "60s")
		if n := strings.Count(out, "\nc"); code != 0 || n != 1000 || !strings.Contains(stderr, thousand) {
			return fmt.Errorf("exit status %d, %d candidates, stderr %q", code, n, stderr)
		}
		return nil
	})
	l.until("leader forget warns", func() error {
		if _, err := l.js.PublishMsg(l.within(), vacancy); err != nil {
			return err
		}
		code, _, stderr := runProgram(t, env, "forget", "reports", "-y", "--timeout", "60s")
		if code != 0 || !strings.Contains(stderr, `candidate "c0000" campaigns (more than 1000 answered`) {
			return fmt.Errorf("exit status %d, stderr %q", code, stderr)
		}
		return nil
	})
	base, _ := startServing(t, env, "dash", "--http", "127.0.0.1:0", "--timeout", "60s")
	l.until("the page shows them", func() error {
		_, _, body := (visit{http.MethodGet, "/api/candidates?group=reports", "", nil}).ask(t, base)
		var r struct {
			Candidates []struct{}
			More       int
			Error      string
		}
		err := json.Unmarshal([]byte(body), &r)
		if err == nil && (len(r.Candidates) != 100 || r.More != 900 || !strings.Contains(r.Error, thousand)) {
			err = fmt.Errorf("%d candidates, %d more, error %q", len(r.Candidates), r.More, r.Error)
		}
		return err
	})
}

func TestWatchPrintsEachChangeOfLeaders(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	a := l.stand("reports", "a")
	first := a.Term().Number
	w := l.follow("watch", "-o", "json")
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
	w.interrupt()
}

// leader watch | head -1
//
// There is more than one line to print: a child that another test is starting
// holds the pipe's other end too until it executes its program, and a write
// meanwhile does not fail.
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
		_ = w.cmd.Wait() // see the exit status
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

// waiting runs leader wait beside what it waits for.
func (l *readLab) waiting(args ...string) (end func() read.Group) {
	l.t.Helper()
	type result struct {
		code      int
		out, errs string
	}
	done := make(chan result, 1)
	go func() {
		code, out, errs := runProgram(l.t, []string{"NATS_URL=" + l.url}, append([]string{"wait", steered, "-o", "json", "--timeout", "60s"}, args...)...)
		done <- result{code, out, errs}
	}()
	return func() (g read.Group) {
		l.t.Helper()
		r := <-done
		if r.code != 0 {
			l.t.Fatalf("%q: exit status %d: %s", args, r.code, r.errs)
		}
		decodeStrictly(l.t, r.out, &g)
		return g
	}
}

func TestWaitEndsWhenItHasComeToThat(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	led, vacant, byB := l.waiting(), l.waiting("--vacant"), l.waiting("--by", "b")
	if g := vacant(); g.Leader != "" {
		t.Errorf("%+v", g)
	}
	a := l.stand(steered, "a")
	if g := led(); g.Leader != "a" || g.Term != a.Term().Number {
		t.Errorf("%+v", g)
	}
	if g := l.waiting("--by", "a")(); g.Leader != "a" {
		t.Errorf("%+v", g)
	}
	b := l.stand(steered, "b")
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if g := byB(); g.Leader != "b" {
		t.Errorf("%+v", g)
	}
	vacant = l.waiting("--vacant")
	if err := b.Pause(l.within(), "migration"); err != nil {
		t.Fatal(err)
	}
	if g := vacant(); g.Leader != "" || g.Reason != leader.ReasonPaused {
		t.Errorf("%+v", g)
	}
}

// It shows what leader ls does. Once the record has been renewed, only the
// record itself contains since when: neither history nor roll call is asked.
func TestWaitShowsSinceWhen(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	a := l.stand(steered, "a")
	if err := a.ValidateToken(l.within()); err != nil { // the record has been renewed
		t.Fatal(err)
	}
	if got, want := l.waiting()().Since, l.listed()[0].Since; got.IsZero() || !got.Equal(want) {
		t.Errorf("led since %v, and by leader ls since %v", got, want)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := l.waiting("--vacant")().Since; got.IsZero() {
		t.Error("vacant since when?")
	}
}

// waits waits without success, and demands the wanted output. On a busy machine
// time may be up before the command has connected, or has heard anything.
func (l *readLab) waits(want string, args ...string) {
	l.t.Helper()
	for wait := 300 * time.Millisecond; ; wait *= 5 {
		_, stderr := l.run(6, append([]string{"wait", steered, "--timeout", wait.String()}, args...)...)
		if strings.Contains(stderr, want) {
			return
		}
		if wait > 10*time.Second {
			l.t.Fatalf("%q: stderr %q, want %q in it", args, stderr, want)
		}
	}
}

func TestWaitReportsWhatItSawInstead(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.waits("nobody leads group")
	l.stand(steered, "a")
	for want, args := range map[string][]string{
		`"a" leads group "reports" in term `: {"--vacant"},
		`and not "b"`:                        {"--by", "b"},
	} {
		l.waits(want, args...)
	}
	l.run(2, "wait", steered, "--vacant", "--by", "a")
	l.run(5, "wait", steered, "--bucket", "none", "--timeout", "60s")
}

// A record that its dead leader left behind reads as one of a leader that
// lives. Its lease is over by the server's clock.
func TestWaitDoesNotTakeADeadLeaderForOneThatLeads(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.put(steered, `{"id":"gone","token":"t","ttl":1,"term":7}`)
	// Of the server itself: leader ls leaves out what it does not hear within a
	// second, and on a busy machine that may be each time.
	l.until("the record is old", func() error {
		kept, err := l.js.Stream(l.within(), "KV_leaders")
		if err != nil {
			return err
		}
		msg, err := kept.GetLastMsgForSubject(l.within(), "$KV.leaders."+steered)
		if err == nil && time.Since(msg.Time) < 3*time.Second {
			err = context.DeadlineExceeded
		}
		return err
	})
	l.waits("nobody leads")
}

func TestHistoryShowsLeadersAndTimes(t *testing.T) {
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

// An advisory that was dropped leaves a gap in the counting of its candidate,
// and the history reports it. The server does not answer a request that it
// denies: that must not look like a server that is slow.
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

func TestHistoryOfAMissingBucketNamesTheRemedy(t *testing.T) {
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
	kept, err := l.js.Stream(l.within(), "LEADER_HISTORY_"+labBucket)
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{1, 2, 5} {
		l.publish(advisory.Advisory{
			Version: 1, ID: "run-" + strconv.FormatUint(seq, 10), Seq: seq, Time: time.Now(), Bucket: labBucket, Group: "reports",
			Instance: "a", Event: leader.EventPromoted, Term: 10 + seq, Leader: "a", Correlation: "00000000",
		})
	}
	out, stderr := l.run(0, "history", "reports", "-o", "json")
	var p read.Past
	decodeStrictly(t, out, &p)
	if p.Missing != 2 || !strings.Contains(stderr, "2 advisories are missing") {
		t.Errorf("%+v, %q", p, stderr)
	}
	if made := kept.CachedInfo().Created; !p.CompleteSince.Equal(made) {
		t.Errorf("complete since %v, and the stream was made at %v", p.CompleteSince, made)
	}
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

// --since limits the terms that are shown. The question who led, or had led, is
// a question about all of them.
func TestLeaderAtATimeIsFoundInAllTerms(t *testing.T) {
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
