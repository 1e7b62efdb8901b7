package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/devtest"
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

func TestCampaignPrintsItsTransitions(t *testing.T) {
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

func TestCandidatesPublishAdvisoriesOnRequest(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"campaign", "run"} {
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
		quiet, telling := []string{name, "jobs", "--id", "quiet", "--ttl", "1s"}, []string{name, "jobs", "--id", "telling", "--advisories"}
		if name == "campaign" {
			l.run(0, append(quiet, "--for", "1s")...)
			l.follow(telling...)
		} else {
			ends := []string{"--", program, "run-guard"} // a program that ends at once
			_, _, _ = execute(t, []string{"NATS_URL=" + l.url}, append(quiet, ends...)...)
			l.start(append(telling, ends...)...)
		}
		msg, err := subscription.NextMsgWithContext(l.within())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a, err := advisory.Decode(msg.Data); err != nil || a.Instance != "telling" {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// The record of another program contains nothing about its lease: a candidate
// waits for as long as its configuration requires.
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
}

// fitLater is a check that passes from its third run on, which it notes in a
// file.
func fitLater(file string) string {
	return fmt.Sprintf("echo asked >> %[1]s; [ $(wc -l < %[1]s) -ge 3 ]", file)
}

func TestCampaignWaitsForItsFirstPassedCheck(t *testing.T) {
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

// A candidate that is started before its server prints which one it waits for,
// and an interrupt ends it as it does later.
func TestCampaignAndAgentReportTheServerTheyWaitForAndEnd(t *testing.T) {
	t.Parallel()
	servers := map[string]string{"--server=nats://127.0.0.1:1": "leader: waiting for nats://127.0.0.1:1: connection refused\n"}
	if !natsOnly() {
		servers["--store="+nowhere] = "leader: waiting for the store: "
	}
	for server, want := range servers {
		for _, line := range []string{"campaign jobs", "agent --listen 127.0.0.1:0"} {
			said, stderr := io.Pipe()
			c := begin(t, stderr, nil, append(strings.Fields(line), server)...)
			go func() {
				<-c.ended
				_ = stderr.Close()
			}()
			lines := bufio.NewReader(said)
			first, err := lines.ReadString('\n')
			if err != nil || !strings.HasPrefix(first, want) {
				t.Errorf("leader %s %s: %q, %v", line, server, first, err)
			}
			c.signal(syscall.SIGINT)
			more, _ := io.ReadAll(lines) // what there is, which may be more of the outage
			if code := c.wait(); code != 0 || strings.Contains(string(more), "interrupt") || strings.Contains(string(more), "context") {
				t.Errorf("leader %s %s: exit status %d, and it prints %q", line, server, code, more)
			}
		}
	}
}

// A campaign whose time is over ends, whether or not its server was there.
func TestACampaignEndsWhileItsStoreIsNotThere(t *testing.T) {
	needsOtherStores(t)
	t.Parallel()
	if code, out, stderr := runProgram(t, nil, "campaign", "jobs", "--store", nowhere, "--for", "300ms"); code != 0 || out != "" {
		t.Errorf("exit status %d, stdout %q, stderr %s", code, out, stderr)
	}
}

// nowhere is a store whose server is not there.
const nowhere = "redis://127.0.0.1:1"

// A load balancer without backends accepts connections and closes them.
func TestCandidatesWaitForAServerBehindALoadBalancer(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	stderr, w := io.Pipe()
	c := begin(t, w, nil, "campaign", "jobs", "--server", "nats://"+ln.Addr().String())
	go func() {
		<-c.ended
		_ = w.Close()
	}()
	lines := bufio.NewScanner(stderr)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "leader: waiting for nats://"+ln.Addr().String()+": ") {
		t.Fatalf("it prints %q", lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	c.signal(syscall.SIGINT)
	if code := c.wait(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// A mistyped name would split a group: each half would have a leader.
func TestABucketThatIsNamedMustExist(t *testing.T) {
	t.Parallel()
	url := devtest.Serve(t)
	for _, line := range []string{"campaign jobs --bucket laeders", "run jobs --bucket laeders -- true", "run jobs -n 2 --bucket laeders -- true"} {
		code, _, stderr := runProgram(t, []string{"NATS_URL=" + url}, strings.Fields(line)...)
		if code != 5 || !strings.Contains(stderr, "leader bucket create laeders") {
			t.Errorf("%s: exit status %d, stderr %q", line, code, stderr)
		}
	}
	_, js := devtest.Connect(t, url)
	for name := range js.StreamNames(within(t)).Name() {
		t.Errorf("a stream %s was made", name)
	}
}
