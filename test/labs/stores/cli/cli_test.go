// Package cli_test runs the leader command over each kind of store, on real
// servers.
package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/internal/built"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/labs/stores/consullab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/mongolab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/objectlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var (
	program string // the leader command
	lab     databases.Lab
)

func TestMain(m *testing.M) {
	code := built.Run(m, &program)
	if err := lab.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// kinds start a server of each kind, and return the URL of a store there.
var kinds = map[string]func(testing.TB) string{
	"nats":     bucket,
	"redis":    func(tb testing.TB) string { return "redis://" + databases.StartRedis(tb).Addr() + "/0" },
	"postgres": func(tb testing.TB) string { return lab.OwnPostgreSQL(tb).DSN("lab") + "&create=true" },
	"mysql": func(tb testing.TB) string {
		srv := lab.OwnMariaDB(tb)
		return srv.URL("lab", srv.Addr()) + "&create=true"
	},
	"etcd": func(tb testing.TB) string {
		return "etcd://" + strings.TrimPrefix(etcdlab.Start(tb, 1).URLs()[0], "http://") + "/votes/"
	},
	"consul": func(tb testing.TB) string { return "consul://" + consullab.Start(tb, 1).Nodes[0].Addr + "/votes/" },
	"s3":     func(tb testing.TB) string { return objectlab.StartS3(tb).S3URL("votes") },
	"gs":     func(tb testing.TB) string { return objectlab.StartGCS(tb).GCSURL("votes") },
	"kubernetes": func(tb testing.TB) string {
		return kubelab.Start(tb).URL(tb, "default")
	},
	"mongodb": func(tb testing.TB) string { return mongolab.Start(tb).StoreURL(tb) },
}

// A desk runs commands on one store.
type desk struct {
	testing.TB
	url string
}

// try runs a command to its end, and demands its exit status.
func (d desk) try(code int, args ...string) (stdout, stderr string) {
	d.Helper()
	got, stdout, stderr := built.Try(d.within(), d, program, append(args, "--store", d.url)...)
	if got != code {
		d.Fatalf("leader %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	return stdout, stderr
}

func (d desk) within() context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.Context()), databases.Patience)
	d.Cleanup(cancel)
	return ctx
}

// start starts a command that runs until the test ends, and waits for the line.
func (d desk) start(line string, args ...string) *exec.Cmd {
	d.Helper()
	before, after, found := args, []string(nil), false
	for i, a := range args {
		if a == "--" {
			before, after, found = args[:i], args[i:], true
			break
		}
	}
	all := append(append([]string{}, before...), "--store", d.url)
	if found {
		all = append(all, after...)
	}
	cmd := exec.Command(program, all...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.TempDir()}
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		d.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	heard := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), line) {
				heard <- lines.Text()
				break
			}
		}
		_, _ = io.Copy(io.Discard, out) // so that it never waits for a reader
		close(heard)
	}()
	select {
	case _, ok := <-heard:
		if !ok {
			d.Fatalf("leader %s ended without %q", strings.Join(args, " "), line)
		}
	case <-d.within().Done():
		d.Fatalf("leader %s has not printed %q\n%s", strings.Join(args, " "), line, said.String())
	}
	return cmd
}

// A shown is a group as leader get shows it.
type shown struct {
	Leader         string
	Since, Renewed time.Time
}

func (d desk) get(group string) (g shown) {
	d.Helper()
	out, _ := d.try(0, "get", group, "-o", "json")
	return d.read(out)
}

// read is a group by what leader get has printed.
func (d desk) read(out string) (g shown) {
	d.Helper()
	if err := json.Unmarshal([]byte(out), &g); err != nil {
		d.Fatalf("%v in %s", err, out)
	}
	return g
}

// dated demands that the group's state dates from begun at the earliest, and
// that a leader has renewed since then. All clocks are this machine's, and
// records count in milliseconds.
func (d desk) dated(g shown, begun time.Time) {
	d.Helper()
	begun, now := begun.Truncate(time.Millisecond), time.Now()
	if g.Since.Before(begun) || g.Since.After(now) {
		d.Errorf("%+v: since %v, want %v to %v", g, g.Since, begun, now)
	}
	if g.Leader != "" && (g.Renewed.Before(begun) || g.Renewed.After(now)) || g.Leader == "" && !g.Renewed.IsZero() {
		d.Errorf("%+v: renewed at %v, want %v to %v", g, g.Renewed, begun, now)
	}
}

func TestCommandsWorkOnEveryStore(t *testing.T) {
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := desk{t, start(t)}
			begun := time.Now()
			a := d.start("working", "run", "jobs", "--id", "a", "--ttl", "6s", "--", "sh", "-c", "echo working; exec sleep 1000")
			first := d.get("jobs")
			if first.Leader != "a" {
				t.Fatalf("%q leads", first.Leader)
			}
			d.dated(first, begun)
			if out, _ := d.try(0, "ls", "-o", "name"); strings.TrimSpace(out) != "jobs" {
				t.Errorf("ls: %s", out)
			}
			d.try(0, "doctor", "--ttl", "10s")
			d.start("following", "campaign", "jobs", "--id", "b", "--ttl", "6s", "--json")

			d.try(0, "step-down", "jobs", "-y", "--why", "test")
			d.try(0, "wait", "jobs", "--by", "b", "--timeout", "1m")
			d.dated(d.get("jobs"), first.Since.Add(time.Millisecond)) // each term has its own times
			d.try(0, "transfer", "jobs", "--to", "a", "-y", "--force")
			d.try(0, "wait", "jobs", "--by", "a", "--timeout", "1m")

			if err := a.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			d.try(0, "wait", "jobs", "--by", "b", "--timeout", "1m")
			paused := time.Now()
			d.try(0, "pause", "jobs", "-y")
			d.try(0, "wait", "jobs", "--vacant", "--timeout", "1m")
			if g := d.get("jobs"); g.Leader == "" { // a record that b was too late to release names it still
				d.dated(g, paused)
			}
			d.try(0, "resume", "jobs", "-y")
			d.try(0, "wait", "jobs", "--by", "b", "--timeout", "1m")
		})
	}
}

func TestMetricsAndPageServeEveryStore(t *testing.T) {
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := desk{t, start(t)}
			d.start("promoted", "campaign", "jobs", "--id", "a", "--json")
			d.start("jobs", "watch", ">")
			for _, command := range []string{"exporter", "dash"} {
				d.serves(command)
			}
		})
	}
}

// serves starts a command that prints its URL, and demands an answer there.
func (d desk) serves(command string) {
	d.Helper()
	cmd := exec.Command(program, command, "--http", "127.0.0.1:0", "--store", d.url)
	out, err := cmd.StdoutPipe()
	if err != nil {
		d.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		d.Fatalf("leader %s prints nothing: %v", command, err)
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for ctx := d.within(); ; {
		body := d.fetch(ctx, strings.TrimSpace(line))
		if command == "dash" && strings.Contains(body, "<html") || strings.Contains(body, `role="jobs"`) {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			d.Fatalf("leader %s shows nothing of the group:\n%s", command, body)
		}
	}
}

func (d desk) fetch(ctx context.Context, url string) string {
	d.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		d.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		d.Fatal(err)
	}
	return string(body)
}

// LEADER_STORE names the store of those who give no --store.
func TestTheEnvironmentNamesTheStore(t *testing.T) {
	d := desk{t, "redis://" + databases.StartRedis(t).Addr()}
	d.start("promoted", "campaign", "jobs", "--id", "a", "--json")
	for store, more := range map[string][]string{d.url: nil, "redis://127.0.0.1:1": {"--store", d.url}} {
		cmd := exec.CommandContext(d.within(), program, append([]string{"get", "jobs", "-o", "json"}, more...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LEADER_STORE=" + store}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("LEADER_STORE=%s leader get %v: %v\n%s", store, more, err, out)
			continue
		}
		if l := d.read(string(out)).Leader; l != "a" {
			t.Errorf("LEADER_STORE=%s leader get %v: %q leads", store, more, l)
		}
	}
}

// Each fault of the demo that needs no separate server strikes on a store of
// each kind.
func TestTheDemoPlaysOnOtherStores(t *testing.T) {
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := desk{t, start(t)}
			out, _ := d.try(0, "demo", "--json", "--workers", "3", "--ttl", "1s", "--no-splay", "--script", "default")
			struck, followed := map[string]bool{}, 0
			for line := range strings.Lines(out) {
				var e struct {
					Event, Fault string
					Summary      struct {
						Faults []struct{ Fault, Failed string }
					}
				}
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				switch e.Event {
				case "fault":
					struck[e.Fault] = true
				case "failover":
					followed++
				case "end":
					for _, f := range e.Summary.Faults {
						if f.Failed != "" {
							t.Errorf("%s could not be done: %s", f.Fault, f.Failed)
						}
					}
				}
			}
			// A busy machine may change its leader before a fault does.
			if len(struck) != 5 || followed == 0 {
				t.Errorf("%d times another led after %v\n%s", followed, struck, out)
			}
		})
	}
}

func TestTheDemosStoreIsNamedOnce(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--port", "4222"}, 2, "--store name another"},
		{[]string{"--server", "nats://127.0.0.1:1"}, 2, "--store: names the store"},
		{[]string{"--script", "1s restart"}, 2, "a single server that is the demo's own"},
		{nil, 1, "127.0.0.1:1"},
	} {
		d := desk{t, "redis://127.0.0.1:1"}
		if _, stderr := d.try(c.code, append([]string{"demo", "--plain"}, c.args...)...); !strings.Contains(stderr, c.says) {
			t.Errorf("%v: %s", c.args, stderr)
		}
	}
}

// The command refuses options that only NATS supports, and gives the reason.
func TestOptionsThatNeedNATSAreRefused(t *testing.T) {
	url := "redis://" + databases.StartRedis(t).Addr()
	d := desk{t, url}
	for _, args := range [][]string{{"history", "show", "jobs"}, {"bucket", "check"}, {"watch", ">", "--advisories"}} {
		if _, stderr := d.try(2, args...); !strings.Contains(stderr, "needs NATS") {
			t.Errorf("leader %s: %s", strings.Join(args, " "), stderr)
		}
	}
	if _, stderr := d.try(2, "campaign", "jobs", "--advisories"); !strings.Contains(stderr, "messages of NATS") {
		t.Errorf("--advisories: %s", stderr)
	}
	if _, stderr := d.try(4, "get", "nobody"); !strings.Contains(stderr, "nobody") {
		t.Errorf("an unknown group: %s", stderr)
	}
}

// A candidate waits for a server that is not there yet.
func TestRunWaitsForItsStore(t *testing.T) {
	r := databases.StartRedis(t)
	r.Kill()
	d := desk{t, "redis://" + r.Addr()}
	cmd := exec.Command(program, "campaign", "jobs", "--id", "a", "--json", "--store", d.url)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || !strings.Contains(line, "waiting for the store") {
		t.Fatalf("it prints %q, %v", line, err)
	}
	r.Run()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "promoted") {
			return
		}
	}
	t.Error("it has ended")
}

// bucket starts a NATS server with a bucket, since one that is named has to
// exist, and returns its URL.
func bucket(tb testing.TB) string {
	tb.Helper()
	srv := natslab.Start(tb)
	cfg := natsstore.BucketConfig{Bucket: "votes"}
	if err := natsstore.EnsureBucket(natslab.Within(tb), natslab.JetStream(tb, srv.Connect(tb)), cfg); err != nil {
		tb.Fatal(err)
	}
	return srv.URL() + "/votes"
}
