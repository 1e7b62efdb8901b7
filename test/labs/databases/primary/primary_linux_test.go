// Package primary_test runs examples/postgres: two hosts whose primary leader
// run starts, and psql, which reaches it through leader proxy.
package primary_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/built"
	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var program string // the leader command

func TestMain(m *testing.M) { os.Exit(built.Run(m, &program)) }

// patience bounds every wait. A passing test never waits that long.
const patience = 3 * time.Minute

// A site is a database of two hosts, and a proxy before them.
type site struct {
	*testing.T
	pg    *databases.Programs
	nats  string
	proxy string // its port
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, pg: databases.PostgreSQLPrograms(t), nats: natslab.Start(t).URL(), proxy: strconv.Itoa(ports.Free(t, 1)[0])}
	for from, to := range map[string]string{program: "leader", "../../../../examples/postgres/host.sh": "host.sh"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		// Readable by the servers' user, too, which cannot enter the test's own
		// directories.
		if err := os.WriteFile(s.path(to), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	proxy := s.command(s.path("leader"), "proxy", "postgres", "--listen", "127.0.0.1:"+s.proxy, "--wait", "1m")
	proxy.Stderr = t.Output()
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Process.Kill(); _ = proxy.Wait() })
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.pg.Dir(), name) }

// command returns one of PostgreSQL's programs, or one of this repository's by
// its path.
func (s *site) command(name string, args ...string) *exec.Cmd {
	cmd := s.pg.Command([]string{s.pg.Dir()}, name, args...)
	cmd.Env = append(cmd.Env, "NATS_URL="+s.nats, "PROXY=127.0.0.1:"+s.proxy,
		"PGHOST=127.0.0.1", "PGPORT="+s.proxy, "PGUSER=postgres", "PGDATABASE=postgres", "PGCONNECT_TIMEOUT=60", "PGSSLMODE=disable")
	return cmd
}

// psql lets psql run a text through the proxy, by a new connection, again and
// again until it is answered: at a failover connections are cut. It returns
// psql's standard output alone: a server that begins to stop may answer and
// then report on psql's standard error that it ends the connection.
func (s *site) psql(text string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), patience)
	defer cancel()
	for {
		cmd := s.command("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text)
		var out, complaint bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &complaint
		if err := cmd.Start(); err != nil {
			s.Fatal(err)
		}
		ended := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		ended()
		if err == nil {
			return strings.TrimSpace(out.String())
		}
		select {
		case <-ctx.Done():
			s.Fatalf("psql: %s: %v\n%s", text, err, complaint.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// A host is one of the two.
type host struct {
	*site
	id, address string
}

func (s *site) host(id string) *host {
	return &host{s, id, "127.0.0.1:" + strconv.Itoa(ports.Free(s, 1)[0])}
}

// sh returns a command of the shell in the host's environment.
func (h *host) sh(args ...string) *exec.Cmd {
	cmd := h.command("/bin/sh", args...)
	cmd.Env = append(cmd.Env, "PGDATA="+h.path(h.id), "ADDRESS="+h.address, "LEADER_ID="+h.id)
	cmd.Stdout, cmd.Stderr = h.Output(), h.Output()
	return cmd
}

// tether runs a host for as long as its own standard input is open, which ends
// with the test's process however that ends. Then it ends as at a terminal: all
// processes of its group get a signal.
const tether = `exec 3<&0; trap '' TERM
(trap - TERM; exec "$@") </dev/null 3<&- &
cat <&3 >/dev/null; kill -TERM 0; wait`

// init makes the database on this host.
func (h *host) init() {
	h.Helper()
	cmd := h.sh(h.path("host.sh"), "init")
	if err := cmd.Run(); err != nil {
		h.Fatal(err)
	}
}

// start runs the host until the test ends.
func (h *host) start() {
	h.Helper()
	cmd := h.sh("-c", tether, "tether", h.path("host.sh"))
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	stdin, err := cmd.StdinPipe()
	if err != nil {
		h.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		_ = stdin.Close()
		hard := time.AfterFunc(natslab.Patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer hard.Stop()
		_ = cmd.Wait() // the exit status of a process that was ordered to end
	})
}

// kill kills a process of the host (SIGKILL): the process of leader run, or of
// the script that starts it again.
func (h *host) kill(which func(argv []string) bool) {
	h.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is constant
	for _, file := range stats {
		env, _ := os.ReadFile(file) // it may have ended
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		argv := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		own := strings.Contains("\x00"+string(env), "\x00PGDATA="+h.path(h.id)+"\x00")
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && own && which(argv) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				h.Fatal(err)
			}
			return
		}
	}
	h.Fatalf("host %s has no such process", h.id)
}

func isRun(argv []string) bool    { return len(argv) > 2 && argv[1] == "run" }
func isScript(argv []string) bool { return len(argv) == 2 && filepath.Base(argv[1]) == "host.sh" }

// leads returns which of the hosts serves psql.
func (s *site) leads(hosts ...*host) (leading, other *host) {
	s.Helper()
	name := s.psql("SHOW cluster_name")
	at := slices.IndexFunc(hosts, func(h *host) bool { return h.id == name })
	if at < 0 {
		s.Fatalf("%q serves", name)
	}
	return hosts[at], hosts[1-at]
}

// A session is psql with one connection.
type session struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func (s *site) session() session {
	s.Helper()
	cmd := s.command("psql", "-X", "-q", "-A", "-t")
	in, err := cmd.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	return session{cmd, in}
}

// isCut demands that the connection ends, and not by psql's own doing.
func (c session) isCut(t *testing.T) {
	t.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.cmd.Wait() }() // its status is looked at
	limit := time.After(natslab.Patience)
	for {
		_, _ = fmt.Fprintln(c.in, "SELECT 1;")
		select {
		case <-ended:
			if code := c.cmd.ProcessState.ExitCode(); code != 2 {
				t.Errorf("psql ended with status %d, want 2: the connection was lost", code)
			}
			return
		case <-limit:
			_ = c.cmd.Process.Kill()
			t.Fatal("the former leader's connection lives")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestPsqlFollowsThePrimaryThroughTheProxyAndLosesNothing(t *testing.T) {
	s := newSite(t)
	a, b := s.host("a"), s.host("b")
	a.init()
	a.start()
	b.start()
	s.psql("CREATE TABLE IF NOT EXISTS t (n int PRIMARY KEY)")
	n := 0
	insert := func() {
		for range 3 {
			n++
			s.psql(fmt.Sprintf("INSERT INTO t VALUES (%d) ON CONFLICT DO NOTHING", n))
		}
	}
	insert()

	lost, other := s.leads(a, b)
	open := s.session()
	lost.kill(isScript)
	lost.kill(isRun)
	open.isCut(t)
	if l, _ := s.leads(a, b); l != other {
		t.Fatalf("host %s serves, which was lost", l.id)
	}
	if rows := s.psql("SELECT count(*) FROM t"); rows != strconv.Itoa(n) {
		t.Errorf("%s rows after the loss of a host, of %d that were acknowledged", rows, n)
	}
	lost.start()
	insert() // when there is a copy again

	leading, _ := s.leads(a, b)
	leading.kill(isRun) // and the host goes on by itself
	insert()

	leading, other = s.leads(a, b)
	steps := s.command(s.path("leader"), "step-down", "postgres", "--yes")
	if out, err := steps.CombinedOutput(); err != nil {
		t.Fatalf("step-down: %v\n%s", err, out)
	}
	insert() // when the former primary is a copy
	if l, _ := s.leads(a, b); l != other {
		t.Errorf("host %s serves, which stepped down", leading.id)
	}
	if rows := s.psql("SELECT count(*) FROM t"); rows != strconv.Itoa(n) {
		t.Errorf("%s rows, of %d that were acknowledged", rows, n)
	}
}
