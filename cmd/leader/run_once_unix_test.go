//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
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
	// Who looks at the status must not take a server that is away for a leader.
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
	if rest, code := late.end(); code != 0 || len(rest) > 0 || !strings.Contains(late.said(), "has begun the run of") {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, late.said())
	}
}

// No host notes a run that begins more than a period after the server's time. A
// user who may write the control record could otherwise stop all runs for ever.
func TestOnceANoteFromTheFutureKeepsNobodyAway(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	l.put("_ctl.jobs", fmt.Sprintf(`{"ran":{"begin":%d,"id":"x","term":7}}`, time.Now().Add(200_000*time.Hour).UnixMilli()))
	for _, want := range []string{"up", ""} { // and the note of the first is believed
		r := startRun(t, l.url, []string{"--once", "--every", long}, "echo up")
		if lines, code := r.end(); code != 0 || strings.Join(lines, "") != want {
			t.Errorf("exit status %d, stdout %q, want %q; stderr %s", code, lines, want, r.said())
		}
	}
}

// Whoever waits for its turn does not wait for the program's end.
func TestOnceTheOthersEndWhenTheProgramHasBegun(t *testing.T) {
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

// Who is not first to lead in the period is told so, and does not run for an
// earlier one later.
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

// Its term is over before its program is. Another term is none of its own.
func TestOnceAProgramThatIsStoppedIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	r := startRun(t, l.url, []string{"--once", "--every", long}, `trap "exit 9" TERM; echo up; while :; do sleep 0.05; done`)
	r.line()
	l.run(0, "step-down", "jobs", "-y", "--no-wait")
	if rest, code := r.end(); code != 9 || len(rest) > 0 || !strings.Contains(r.said(), "is not begun again in this period") {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, rest, r.said())
	}
}

// The server of --dev is begun, and not looked for: it takes as long as it takes,
// also to connect.
func TestTryWaitsForAServerOfItsOwn(t *testing.T) {
	t.Parallel()
	if code, out, stderr := execute(t, nil, "run", "jobs", "--dev", "--try", "--timeout", "1ns", "--", "echo", "up"); code != 0 || out != "up\n" {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, out, stderr)
	}
}

// The files of that server would outlive the command.
func TestRunLeavesNothingOfItsOwnServerBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := followIn(t, []string{"TMPDIR=" + dir}, []string{"run", "jobs", "--dev", "--", "echo", "up"})
	for deadline := time.Now().Add(time.Minute); ; {
		files, err := os.ReadDir(dir)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no server was begun: %v", err)
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
