// Package programs_test builds programs and runs them against nats-server, as
// users do. Go's test cache does not see the README and what the go command
// builds: outside of make, run it with -count=1.
package programs_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// specification is the usage example of the project's specification, unchanged.
// It is on the legacy JetStream API, and on a bucket that it makes itself.
const specification = `nc, _ := nats.Connect(nats.DefaultURL)
js, _ := nc.JetStream()
kv, _ := js.CreateKeyValue(&nats.KeyValueConfig{Bucket: "leaders"})

cfg := leader.ElectionConfig{
    Bucket: "leaders",
    Group:  "control-manager",
    InstanceID: myID,
    TTL: 5 * time.Second,
    HeartbeatInterval: 1 * time.Second,
}

e, err := leader.NewElection(nc, cfg)
if err != nil { log.Fatal(err) }

// register hooks
e.OnPromote(func(ctx context.Context, token string) {
    log.Println("promoted — starting leader tasks")
    go startLeaderTasks(ctx, token)
})

e.OnDemote(func() {
    log.Println("demoted — stopping leader tasks")
    stopLeaderTasks()
})

ctx := context.Background()
if err := e.Start(ctx); err != nil { log.Fatal(err) }

// run until shutdown
<-ctx.Done()
_ = e.Stop()
`

// aroundSpecification is what the example leaves to its reader. It never uses
// kv, which Go does not accept: hence the one line after it.
const aroundSpecification = `package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
)

var myID = os.Getenv("ID")

func startLeaderTasks(ctx context.Context, token string) {
	log.Println("tasks run", token != "")
	<-ctx.Done()
	log.Println("tasks ended")
}

func stopLeaderTasks() {}

func main() {
%s
_ = kv
}
`

// Two processes of the specification's program: one leads, and when it is
// killed, the other.
func TestSpecificationsUsageExampleRunsUnchanged(t *testing.T) {
	t.Parallel()
	url := natsServer(t)
	program := build(t, url, fmt.Sprintf(aroundSpecification, specification))
	a := run(t, program, "ID=a")
	a.awaitLine("promoted — starting leader tasks")
	a.awaitLine("tasks run true")
	b := run(t, program, "ID=b")
	holder(t, url, "leaders", "control-manager", "a")
	_ = a.cmd.Process.Kill()
	b.awaitLine("promoted — starting leader tasks")
}

// The README's program against nats-server as users install it. On a signal it
// hands over at once and ends well.
func TestREADMEsProgramRunsAgainstAnInstalledServer(t *testing.T) {
	t.Parallel()
	url := natsServer(t)
	program := build(t, url, readme(t))
	a := run(t, program)
	a.awaitLine("leading in term ")
	first := leads(t, url, "")
	b := run(t, program)
	b.awaitLine("following")
	nc := natslab.Connect(t, url)
	writes, err := nc.SubscribeSync("leader.leaders.reports")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushWithContext(natslab.Within(t)); err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := a.wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
	b.awaitLine("leading in term ")
	if reason := reasonBefore(t, writes, leads(t, url, first)); reason != "stopped" {
		t.Errorf("the second copy leads for the reason %q, want that the first was stopped: a lease that runs out hands over, too", reason)
	}
}

// The block of the README is the example's source, which the compiler and the
// linter read.
func TestREADMEShowsTheQuickstart(t *testing.T) {
	_ = os.Getenv("LEADER_TREE") // a part of the key of Go's test cache (see the Makefile)
	t.Parallel()
	source, err := os.ReadFile(filepath.Join("..", "..", "examples", "quickstart", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if readme(t) != string(source) {
		t.Error("the first Go block of the README is not examples/quickstart/main.go")
	}
}

// leads waits until the record of the README's group names a leader other than
// the one before, and returns it.
func leads(t *testing.T, url, before string) (id string) {
	t.Helper()
	kv, err := natslab.JetStream(t, natslab.Connect(t, url)).KeyValue(natslab.Within(t), "leaders")
	if err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "a leader", func(ctx context.Context) error {
		e, err := kv.Get(ctx, "reports")
		if err != nil {
			return err
		}
		var r struct{ ID string }
		if err := json.Unmarshal(e.Value(), &r); err != nil {
			return err
		}
		if r.ID == "" || r.ID == before {
			return fmt.Errorf("the record names %q", r.ID)
		}
		id = r.ID
		return nil
	})
	return id
}

// reasonBefore reads the writes, all of which the servers report, up to the
// successor's claim. It returns why its predecessor released, or "" if it did
// not.
func reasonBefore(t *testing.T, writes *nats.Subscription, successor string) (reason string) {
	t.Helper()
	for {
		m, err := writes.NextMsgWithContext(natslab.Within(t))
		if err != nil {
			t.Fatal(err)
		}
		var r struct {
			ID, Reason string
			Prior      struct{ Reason string }
		}
		if err := json.Unmarshal(m.Data, &r); err != nil {
			t.Fatalf("%s: %v", m.Data, err)
		}
		switch r.ID {
		case "":
			reason = r.Reason
		case successor:
			return cmp.Or(reason, r.Prior.Reason)
		}
	}
}

// readme returns the first Go block of the README.
func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("no Go program in the README")
	}
	return string(block[1])
}

// build compiles a program within this module, without a trace in it. Programs
// connect to nats.DefaultURL, a constant; where its port is taken they get the
// url in its place.
func build(t *testing.T, url, source string) string {
	t.Helper()
	if url != nats.DefaultURL {
		source = strings.ReplaceAll(source, "nats.DefaultURL", fmt.Sprintf("%q", url))
	}
	dir := t.TempDir()
	file, overlay, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "program")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(here, "program", "main.go"): file},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{file: []byte(source), overlay: replace} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goBuild(t, "-overlay", overlay, "-o", program, "./program")
	return program
}

func goBuild(t *testing.T, args ...string) {
	t.Helper()
	_ = os.Getenv("LEADER_TREE") // a part of the key of Go's test cache (see the Makefile)
	if out, err := exec.Command("go", append([]string{"build"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("go build %v: %v\n%s", args, err, out)
	}
}

// defaultPort is held by the test whose server has the port 4222.
var defaultPort sync.Mutex

// natsServer runs nats-server, as `go install` makes it, in a separate process:
// on the default port if that is free.
func natsServer(t *testing.T) (url string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "nats-server")
	goBuild(t, "-o", program, "github.com/nats-io/nats-server/v2")
	port, url := natsPort(t)
	run(t, program, "-js", "-sd", t.TempDir(), "-a", "127.0.0.1", "-p", port).awaitLine("Server is ready")
	return url
}

// natsPort returns the port of this test's server until the test ends: the
// default port if that is free.
func natsPort(t *testing.T) (port, url string) {
	t.Helper()
	defaultPort.Lock()
	t.Cleanup(defaultPort.Unlock)
	port, url = "4222", nats.DefaultURL
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Logf("the default port is taken (%v): programs are given another", err)
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		url = "nats://127.0.0.1:" + port
	}
	_ = l.Close()
	return port, url
}

// A process is a program that runs.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	ended chan struct{}
	err   error
}

// run starts a program; arguments of the form NAME=value go into its
// environment.
func run(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program), lines: make(chan string, 1000), ended: make(chan struct{})}
	p.cmd.Env = os.Environ()
	for _, a := range args {
		if strings.Contains(a, "=") {
			p.cmd.Env = append(p.cmd.Env, a)
		} else {
			p.cmd.Args = append(p.cmd.Args, a)
		}
	}
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
	})
	return p
}

// awaitLine waits for a line of the program's log that contains the words.
func (p *process) awaitLine(words string) {
	p.t.Helper()
	limit := natslab.Within(p.t)
	var log []string
	for {
		select {
		case line := <-p.lines:
			log = append(log, line)
			if strings.Contains(line, words) {
				return
			}
		case <-p.ended:
			p.t.Fatalf("%s ended (%v) before it printed %q:\n%s", p.cmd.Path, p.err, words, strings.Join(log, "\n"))
		case <-limit.Done():
			p.t.Fatalf("%s never printed %q:\n%s", p.cmd.Path, words, strings.Join(log, "\n"))
		}
	}
}

func (p *process) wait() error {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.err
	case <-natslab.Within(p.t).Done():
		p.t.Fatalf("%s never ended", p.cmd.Path)
		return nil
	}
}

// holder checks with a KV tool that the record names a holder.
func holder(t *testing.T, url, bucket, group, id string) {
	t.Helper()
	nc := natslab.Connect(t, url)
	natslab.Eventually(t, "record of "+id, func(ctx context.Context) error {
		kv, err := natslab.JetStream(t, nc).KeyValue(ctx, bucket)
		if err != nil {
			return err
		}
		e, err := kv.Get(ctx, group)
		if err != nil {
			return err
		}
		var record struct{ ID string }
		if err := json.Unmarshal(e.Value(), &record); err != nil {
			return err
		}
		if record.ID != id {
			return fmt.Errorf("the record is %s", e.Value())
		}
		return nil
	})
}
