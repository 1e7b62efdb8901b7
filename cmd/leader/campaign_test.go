package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
)

// A transition is a line of leader campaign --json.
type transition struct {
	At       time.Time `json:"at"`
	Event    string    `json:"event"`
	Reason   string    `json:"reason"`
	Term     uint64    `json:"term"`
	LeaderID string    `json:"leader_id"`
	By       string    `json:"by"`
	Why      string    `json:"why"`
}

func TestACampaignTellsItsTransitions(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	f := l.follow("campaign", "solo", "--id", "a", "--resign-after", "100ms", "--json")
	for _, want := range []string{"campaigning started", "promoted absent", "demoted resigned", "campaigning standing-back"} {
		var tr transition
		f.next(&tr)
		if got := tr.Event + " " + tr.Reason; got != want {
			t.Fatalf("%s, want %s: %+v", got, want, tr)
		}
		if tr.At.IsZero() || tr.Event == "promoted" && (tr.Term == 0 || tr.LeaderID != "a") {
			t.Errorf("%+v", tr)
		}
	}
	f.signal(syscall.SIGINT)
	var last transition
	for f.lines.Scan() {
		decodeStrictly(t, f.lines.Text(), &last)
	}
	if code := f.wait(); code != 0 || last.Event != "stopped" || last.Reason != "stopped" {
		t.Errorf("exit status %d, last line %+v", code, last)
	}
}

func TestACampaignEndsByItself(t *testing.T) {
	t.Parallel()
	for _, long := range []string{"1s", "10s", "100s"} {
		code, out, stderr := runProgram(t, nil, "campaign", "--dev", "solo", "--for", long)
		switch {
		case code == 0 && stderr == "" && out == "" && long != "100s":
			continue // that was over before there was a server
		case code != 0 || stderr != "" || !strings.Contains(out, "stopped"):
			t.Errorf("for %s: exit status %d, stderr %q:\n%s", long, code, stderr, out)
		}
		return
	}
}

func TestCampaignsTakeTurns(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	var both sync.WaitGroup
	for _, id := range []string{"a", "b"} {
		f := l.follow("campaign", "turns", "--id", id, "--resign-after", "200ms", "--json")
		both.Go(func() {
			for terms := 0; terms < 2; {
				if !f.lines.Scan() {
					t.Errorf("%s ended after %d terms: %v", id, terms, f.lines.Err())
					return
				}
				var tr transition
				if err := json.Unmarshal(f.lines.Bytes(), &tr); err != nil {
					t.Errorf("%q: %v", f.lines.Text(), err)
					return
				}
				if tr.Event == "promoted" {
					terms++
				}
			}
		})
	}
	both.Wait() // the commands are killed when they take too long
}

func TestCandidatesPublishAdvisoriesIfTheyAreToldTo(t *testing.T) {
	t.Parallel()
	// The program of run ends at once.
	for name, args := range map[string][]string{"campaign": nil, "run": {"--", program, "run-guard"}} {
		if name == "run" && !runsOnUnix() {
			continue
		}
		l := newReadLab(t)
		subscription, err := l.nc.SubscribeSync(advisory.Subject(labBucket, leader.EventPromoted, "jobs"))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		quiet := command(t, []string{"NATS_URL=" + l.url}, append([]string{name, "jobs", "--id", "quiet", "--ttl", "1s", "--heartbeat", "200ms"}, args...)...)
		if name == "campaign" {
			quiet.Args = append(quiet.Args, "--for", "1s")
		}
		_ = quiet.Run() // how it ends does not matter
		l.start(append([]string{name, "jobs", "--id", "telling", "--advisories"}, args...)...)
		msg, err := subscription.NextMsgWithContext(l.within())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a, err := advisory.Decode(msg.Data); err != nil || a.Instance != "telling" {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// What another program wrote says nothing of its lease: a candidate waits for
// as long as it is told to.
func TestForeignTTLIsHowLongARecordOfAnotherProgramIsBelieved(t *testing.T) {
	l := newReadLab(t)
	l.put("jobs", "host-7")
	f := l.follow("campaign", "jobs", "--id", "a", "--ttl", "200ms", "--heartbeat", "50ms", "--foreign-ttl", "400ms", "--json")
	for {
		var tr transition
		f.next(&tr)
		if tr.Event == "promoted" {
			break
		}
	}
	for _, command := range []string{"campaign jobs", "run jobs -- true"} {
		args := slices.Insert(strings.Fields(command), 2, "--ttl", "3s", "--foreign-ttl", "2s")
		if _, stderr := l.run(2, args...); !strings.Contains(stderr, "--foreign-ttl 2s: must be 0, or from --ttl (3s) to 1h") {
			t.Errorf("%s: %q", command, stderr)
		}
	}
}

// fitLater is a check that passes from its third run on, which it notes in a
// file.
func fitLater(file string) string {
	return fmt.Sprintf("echo asked >> %[1]s; [ $(wc -l < %[1]s) -ge 3 ]", file)
}

func TestACampaignDoesNotStandBeforeItsCheckHasPassed(t *testing.T) {
	needsUnix(t)
	t.Parallel()
	l := newReadLab(t)
	log := filepath.Join(t.TempDir(), "log")
	f := l.follow("campaign", "solo", "--id", "a", "--check", fitLater(log), "--check-interval", "1s", "--json")
	var tr transition
	f.next(&tr)
	asked, err := os.ReadFile(log)
	if err != nil || strings.Count(string(asked), "asked") < 3 {
		t.Errorf("%s %s after the checks %q (%v)", tr.Event, tr.Reason, asked, err)
	}
}

// Its second check interrupts it.
func TestAnInterruptEndsACampaignThatIsNotFit(t *testing.T) {
	needsUnix(t)
	t.Parallel()
	l := newReadLab(t)
	asked := filepath.Join(t.TempDir(), "asked")
	code, out, stderr := execute(t, []string{"NATS_URL=" + l.url},
		"campaign", "solo", "--check", "[ ! -e "+asked+" ] || kill -INT $PPID; : > "+asked+"; false", "--check-interval", "1s")
	if code != 0 || out != "" || strings.Count(stderr, "leader: waiting: this host is not fit to lead: the check failed\n") != 1 {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, out, stderr)
	}
}
