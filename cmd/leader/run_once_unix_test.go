//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
	"github.com/seed-ff2cb582/leader/once"
)

func TestTryEndsAtOnceIfAnotherLeads(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	first := startRun(t, url, []string{"--id", "a"}, "echo up; sleep 600")
	first.line()
	begun := time.Now()
	second := startRun(t, url, []string{"--try"}, "echo up")
	rest, code := second.end()
	if said := second.said(); code != 75 || len(rest) > 0 || !strings.Contains(said, `"a" leads jobs in term `) {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, said)
	}
	t.Logf("after %v", time.Since(begun)) // its heartbeat is 4 s
	// Where nobody leads, it runs the program.
	first.signal(syscall.SIGTERM)
	first.end()
	third := startRun(t, url, []string{"--try"}, "echo $LEADER_ID; exit 3")
	if rest, code := third.end(); code != 3 || len(rest) != 1 || !strings.Contains(rest[0], fmt.Sprint(".", third.cmd.Process.Pid)) {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, third.said())
	}
}

// All hosts that try see the record that a dead leader left. If each of them
// ended because of it, nobody would run the program any more.
func TestTryOutlastsADeadLeader(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.put("jobs", `{"id":"gone","token":"t","ttl":1000,"term":7}`)
	l.until("the record is old", func() error {
		if all := l.listed("jobs"); all[0].Leader != "" {
			return errors.New("not yet")
		}
		return nil
	})
	r := startRun(t, l.url, []string{"--try"}, "echo up")
	if rest, code := r.end(); code != 0 || !slices.Equal(rest, []string{"up"}) {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, r.said())
	}
}

func TestTryEndsWhereThisHostMayNotLead(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	control, err := leader.NewControl(l.nc, labBucket, "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	if _, err := control.Pause(l.within(), "jobs", "migration"); err != nil {
		t.Fatal(err)
	}
	// A reader of the status must not take a server that is away for a leader.
	for want, c := range map[string]struct {
		code  int
		flags []string
	}{
		"not to lead jobs: paused": {code: 75},
		"is not reached":           {code: 6, flags: []string{"--server", "nats://127.0.0.1:1", "--timeout", "300ms"}},
	} {
		r := startRun(t, l.url, append([]string{"--try"}, c.flags...), "echo up")
		if rest, code := r.end(); code != c.code || len(rest) > 0 || !strings.Contains(r.said(), want) {
			t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, r.said())
		}
	}
}

// Nothing has failed before the first check, and nothing may have run by then.
func TestTryEndsWhereThisHostIsUnfitFromTheStart(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	for _, slots := range []string{"1", "2"} {
		r := startRun(t, url, []string{"--try", "-n", slots, "--check", "false"}, "echo up")
		if rest, code := r.end(); code != 75 || len(rest) > 0 || !strings.Contains(r.said(), "not to lead jobs: unhealthy") {
			t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, r.said())
		}
	}
}

func TestTryEndsWhenAllSlotsAreTaken(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	for _, id := range []string{"a", "b"} {
		startRun(t, url, []string{"-n", "2", "--try", "--id", id}, told+"sleep 600").line()
	}
	r := startRun(t, url, []string{"-n", "2", "--try", "--id", "c"}, told)
	if rest, code := r.end(); code != 75 || len(rest) > 0 {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, r.said())
	}
}

// long is a period that no test sees the end of.
const long = "100000h"

func TestOnceOneHostOfAllBeginsTheProgram(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	var hosts []*running
	for range 3 {
		hosts = append(hosts, startRun(t, l.url, []string{"--once", "--every", long}, "echo up; exit 3"))
	}
	var ran []string
	var codes []int
	for _, h := range hosts {
		lines, code := h.end()
		ran, codes = append(ran, lines...), append(codes, code)
	}
	slices.Sort(codes)
	if !slices.Equal(ran, []string{"up"}) || !slices.Equal(codes, []int{0, 0, 3}) {
		t.Fatalf("stdout %q, exit status %d", ran, codes)
	}
	// Nor does anybody later in the period, also after the group was paused.
	l.run(0, "pause", "jobs", "-y")
	l.run(0, "resume", "jobs", "-y", "--no-wait")
	late := startRun(t, l.url, []string{"--once", "--every", long}, "echo up")
	if rest, code := late.end(); code != 0 || len(rest) > 0 || !strings.Contains(late.said(), "has started the run of") {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, late.said())
	}
}

// A Go program and a host of leader run --once share a group.
func TestOnceExcludesAGoProgramAndIsExcludedByIt(t *testing.T) {
	t.Parallel()
	const period = 100_000 * time.Hour // that of long
	program := func(l *readLab) (ran bool) {
		cfg := leader.ElectionConfig{Bucket: labBucket, Group: "jobs", InstanceID: "program"}.WithProfile(leader.ProfileLowLatency)
		ran, err := once.Run(l.within(), l.nc, cfg, once.Every(period), func(context.Context, leader.Term) error { return nil })
		if err != nil {
			t.Error(err)
		}
		return ran
	}
	host := func(l *readLab) (ran bool) {
		r := startRun(t, l.url, []string{"--once", "--every", long, "--profile", "low-latency"}, "echo up")
		lines, code := r.end()
		if code != 0 {
			t.Errorf("exit status %d: %s", code, r.said())
		}
		return len(lines) > 0
	}
	for _, c := range []struct {
		name          string
		first, second func(*readLab) bool
	}{{"the program first", program, host}, {"the host first", host, program}} {
		t.Run(c.name, func(t *testing.T) {
			l := newReadLab(t)
			if first, second := c.first(l), c.second(l); !first || second {
				t.Errorf("the first has run: %v, the second has run: %v", first, second)
			}
		})
	}
}

// No host notes a run that begins more than a period after the server's time. A
// user who may write the control record could otherwise stop all runs for ever.
func TestOnceANoteFromTheFutureKeepsNobodyAway(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	for _, key := range []string{"_ctl.jobs", "_ctl._ran.jobs"} {
		l.put(key, fmt.Sprintf(`{"ran":{"begin":%d,"id":"x","term":7}}`, time.Now().Add(200_000*time.Hour).UnixMilli()))
	}
	for _, want := range []string{"up", ""} { // and the note of the first is believed
		r := startRun(t, l.url, []string{"--once", "--every", long}, "echo up")
		if lines, code := r.end(); code != 0 || strings.Join(lines, "") != want {
			t.Errorf("exit status %d, stdout %q, want %q; stderr %s", code, lines, want, r.said())
		}
	}
}

// With the rights of an earlier version the host notes nothing, so that hosts of
// that version still begin the run.
func TestOnceNamesTheRightThatItLacks(t *testing.T) {
	t.Parallel()
	info, get := "$JS.API.STREAM.INFO.KV_leaders", "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders."
	before := []string{"$KV.leaders.jobs", "$KV.leaders._ctl.jobs", info, get + "jobs", get + "_ctl.jobs"}
	heard := []string{"leader.leaders.jobs", "leader.leaders._ctl.jobs"}
	ran := []string{get + "_ctl._ran.jobs", "$KV.leaders._ctl._ran.jobs"}
	drains := []string{get + "_ctl._drain.>", "$KV.leaders._ctl._drain.>"} // which a host does without, and warns
	l := enter(t, serveUsers(t,
		devtest.User("before", before, heard),
		devtest.User("reader", append(slices.Clone(before), ran[0]), append(slices.Clone(heard), "leader.leaders._ctl._ran.jobs")),
		devtest.User("scheduler", slices.Concat(before, ran, drains), append(slices.Clone(heard), "leader.leaders._ctl._ran.jobs", "leader.leaders._ctl._drain.>")),
	), nats.UserInfo("admin", "admin"))
	for name, lacks := range map[string]string{"before": ran[0], "reader": ran[1]} {
		flags := slices.Concat(userOf(t, l.url, name).flags, []string{"--once", "--every", long})
		r := startRunOn(t, flags, "echo up")
		if lines, code := r.end(); code != 5 || len(lines) > 0 || !strings.Contains(r.said(), lacks) {
			t.Errorf("%s: exit status %d, stdout %q, want %q in %s", name, code, lines, lacks, r.said())
		}
	}
	r := startRunOn(t, append(userOf(t, l.url, "scheduler").flags, "--once", "--every", long), "echo up")
	if lines, code := r.end(); code != 0 || !slices.Equal(lines, []string{"up"}) || strings.Contains(r.said(), "ermission") {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, lines, r.said())
	}
}

// A host that waits for its turn does not wait for the program's end.
func TestOnceTheOthersEndWhenTheProgramHasStarted(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	first := startRun(t, url, []string{"--once", "--every", long}, "echo up; sleep 600")
	first.line()
	for range 2 {
		second := startRun(t, url, []string{"--once", "--every", long}, "echo up")
		if rest, code := second.end(); code != 0 || len(rest) > 0 {
			t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, second.said())
		}
		first.signal(syscall.SIGKILL) // the next one finds a run that did not come to its end
	}
}

func TestOnceEachPeriodHasARun(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	ran := 0
	l.until("three periods have had their runs", func() error {
		r := startRun(t, l.url, []string{"--once", "--every", "1s"}, "echo up")
		lines, code := r.end()
		if ran += len(lines); ran < 3 {
			return fmt.Errorf("exit status %d, %d runs: %s", code, ran, r.said())
		}
		return nil
	})
}

// A host that is not first to lead in the period learns that, and does not run
// for an earlier one later.
func TestOnceEndsWithItsPeriod(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	startRun(t, url, []string{"--id", "a"}, "echo up; sleep 600").line()
	r := startRun(t, url, []string{"--once", "--every", "1s"}, "echo up")
	if rest, code := r.end(); code != 75 || len(rest) > 0 || !strings.Contains(r.said(), "the period of --once is over") {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, r.said())
	}
}

// The run of the period is left to a host that is fit.
func TestOnceEndsWithItsPeriodWhereThisHostIsUnfit(t *testing.T) {
	t.Parallel()
	r := startRun(t, devtest.Serve(t), []string{"--once", "--every", "1s", "--check", "false"}, "echo up")
	if rest, code := r.end(); code != 75 || len(rest) > 0 || !strings.Contains(r.said(), "the period of --once is over") {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, r.said())
	}
}

// Its term lasts beyond the period, and its program is not to start in it.
func TestOnceEndsWithAPeriodThatIsOverDuringItsTerm(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	const over = "the period of --once is over"
	var r *running
	l.until("a period ends during a term", func() error {
		r = startRun(t, l.url, []string{"--once", "--every", "2s", "--timeout", "10m", "--on-promote", "sleep 2; echo late >&2; sleep 600"}, "echo up")
		l.until("it leads beyond its period, or ends with it", func() error {
			if said := r.said(); !strings.Contains(said, "late\n") && !strings.Contains(said, over) {
				return errors.New(said)
			}
			return nil
		})
		if strings.Contains(r.said(), "late\n") {
			return nil
		}
		_, code := r.end() // where the period ends before it leads
		return fmt.Errorf("exit status %d: %s", code, r.said())
	})
	l.run(0, "pause", "jobs", "-y", "--no-wait")
	if rest, code := r.end(); code != 75 || len(rest) > 0 || !strings.Contains(r.said(), over) {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, r.said())
	}
}

// Its term is over before its program is. Another term is not its term.
func TestOnceAStoppedProgramIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	r := startRun(t, l.url, []string{"--once", "--every", long}, `trap "exit 9" TERM; echo up; while :; do sleep 0.05; done`)
	r.line()
	l.run(0, "step-down", "jobs", "-y", "--no-wait")
	if rest, code := r.end(); code != 9 || len(rest) > 0 || !strings.Contains(r.said(), "is not started again in this period") {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, r.said())
	}
}

// The server of --dev is started, and not looked for: it takes as long as it
// takes, also to connect.
func TestTryWaitsForTheServerThatItStarts(t *testing.T) {
	t.Parallel()
	if code, out, stderr := execute(t, nil, "run", "jobs", "--dev", "--try", "--timeout", "1ns", "--", "echo", "up"); code != 0 || out != "up\n" {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, out, stderr)
	}
}

// The files of that server would outlive the command.
func TestRunRemovesTheFilesOfItsServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := followIn(t, []string{"TMPDIR=" + dir}, []string{"run", "jobs", "--dev", "--", "echo", "up"})
	for deadline := time.Now().Add(time.Minute); ; {
		files, err := os.ReadDir(dir)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no server was started: %v", err)
		}
		if len(files) > 0 {
			break
		}
	}
	r.signal(syscall.SIGTERM)
	r.end()
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}
