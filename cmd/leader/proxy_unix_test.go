//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/seed-ff2cb582/leader/proxy"
)

// A service runs beside a candidate: it sends its name to each client, and then
// swallows its input.
type service struct {
	ln   net.Listener
	got  atomic.Int64
	open atomic.Int64
	seen atomic.Int64
}

func newService(t *testing.T, name string) *service {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{ln: ln}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.seen.Add(1)
			s.open.Add(1)
			all.Go(func() {
				defer s.open.Add(-1)
				defer c.Close() //nolint:errcheck // a fixture
				_, _ = fmt.Fprintln(c, name)
				for buf := make([]byte, 1<<10); ; {
					n, err := c.Read(buf)
					s.got.Add(int64(n))
					if err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { _ = ln.Close(); all.Wait() })
	return s
}

// A carrier is leader proxy under way.
type carrier struct {
	*call

	addresses map[string]string // by group, and of the metrics
}

// carry starts leader proxy, and returns when it listens for each of the names.
func (l *readLab) carry(names []string, args ...string) *carrier {
	l.t.Helper()
	c := &carrier{l.follow(append([]string{"proxy"}, args...)...), map[string]string{}}
	for _, name := range names {
		if !c.lines.Scan() {
			l.t.Fatalf("it does not print its address for %s: %v", name, c.lines.Err())
		}
		said, address, _ := strings.Cut(c.lines.Text(), " ")
		if said != name {
			l.t.Fatalf("%q, want %s and its address", c.lines.Text(), name)
		}
		c.addresses[name] = address
	}
	return c
}

// end ends it as SIGTERM does, and returns the exit status.
func (c *carrier) end() int {
	c.signal(syscall.SIGTERM)
	return c.wait()
}

// connect connects, and waits for the name of the service.
func (c *carrier) connect(group, want string) net.Conn {
	c.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(c.t.Context(), "tcp", c.addresses[group])
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	if got, err := bufio.NewReader(conn).ReadString('\n'); got != want+"\n" {
		c.t.Fatalf("%s: %q, %v, want %q", group, got, err, want)
	}
	return conn
}

// ask connects, and returns the service's first output.
func (c *carrier) ask(group string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(c.t.Context(), "tcp", c.addresses[group])
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // a fixture
	_ = conn.SetDeadline(time.Now().Add(patience))
	return bufio.NewReader(conn).ReadString('\n')
}

// refused connects, and demands a reset, of which the dialer may hear already.
func (c *carrier) refused(group string) {
	c.t.Helper()
	if said, err := c.ask(group); said != "" || !errors.Is(err, syscall.ECONNRESET) {
		c.t.Errorf("%q, %v, want a reset", said, err)
	}
}

// wasReset waits for the end of a connection, while it sends. Either direction
// may be the one that hears of the reset.
func wasReset(t *testing.T, conn net.Conn) {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = conn.Write([]byte("x"))
		}
		sent <- err
	}()
	_, read := io.Copy(io.Discard, conn)
	if wrote := <-sent; !errors.Is(read, syscall.ECONNRESET) && !errors.Is(wrote, syscall.ECONNRESET) {
		t.Errorf("the connection ended with %v and %v, want a reset", read, wrote)
	}
	_ = conn.Close()
}

// campaign begins a candidate, and returns when it leads or follows.
func (l *readLab) campaign(group, id, address string, more ...string) {
	l.t.Helper()
	l.follow(campaignArgs(group, id, address, more...)...).next(new(transition))
}

// mortal starts a candidate in a separate process, and returns when it leads or
// follows.
func (l *readLab) mortal(group, id, address string, more ...string) *os.Process {
	l.t.Helper()
	f := l.start(campaignArgs(group, id, address, more...)...)
	l.t.Cleanup(func() { _ = f.cmd.Process.Signal(syscall.SIGCONT) })
	f.next(new(transition))
	return f.cmd.Process
}

func campaignArgs(group, id, address string, more ...string) []string {
	return append([]string{"campaign", group, "--id", id, "--ttl", "20s", "--address", address, "--json"}, more...)
}

// It follows processes that are killed and frozen, on a real server.
func TestProxyCutsALeaderThatIsKilledOrFrozenAndFollowsTheNext(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "frozen": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newReadLab(t)
			a, b := newService(t, "a"), newService(t, "b")
			c := l.carry([]string{"jobs"}, "jobs", "--listen", "127.0.0.1:0", "--wait", "1m")
			leads := l.mortal("jobs", "a", a.ln.Addr().String(), "--ttl", "4s")
			old := c.connect("jobs", "a")
			l.campaign("jobs", "b", b.ln.Addr().String(), "--ttl", "4s")
			if err := leads.Signal(signal); err != nil {
				t.Fatal(err)
			}
			wasReset(t, old)
			l.until("the former leader's connection ends", func() error {
				if n := a.open.Load(); n > 0 {
					return fmt.Errorf("%d are open", n)
				}
				return nil
			})
			seen, got := a.seen.Load(), a.got.Load()
			_ = c.connect("jobs", "b").Close()
			if a.seen.Load() != seen || a.got.Load() != got {
				t.Error("the former leader was sent more after its lease")
			}
			if code := c.end(); code != 0 {
				t.Errorf("exit status %d after SIGTERM", code)
			}
		})
	}
}

func TestProxyServesManyGroupsFromAFileAndItsMetrics(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	one, two := newService(t, "one"), newService(t, "two")
	_, port, _ := net.SplitHostPort(two.ln.Addr().String())
	file := filepath.Join(t.TempDir(), "routes")
	text := "# groups\n\none 127.0.0.1:0\ntwo 127.0.0.1:0 " + port + " # elsewhere\nthree 127.0.0.1:0\nfour 127.0.0.1:0\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := l.carry([]string{"one", "two", "three", "four", "metrics"}, "--file", file, "--metrics", "127.0.0.1:0")
	l.campaign("one", "a", one.ln.Addr().String())
	for _, group := range []string{"two", "four"} {
		l.campaign(group, "b", "127.0.0.1:1") // where nobody listens
	}
	conn := c.connect("one", "one")
	c.connect("two", "two")
	labels := func(group string, more ...string) string {
		return fmt.Sprintf(`bucket="leaders",listen=%q,%srole=%q`, c.addresses[group], strings.Join(more, ""), group)
	}
	var info struct{ Term uint64 }
	record, _ := l.run(0, "get", "one", "-o", "json")
	if err := json.Unmarshal([]byte(record), &info); err != nil || info.Term == 0 {
		t.Fatalf("the term of one: %+v, %v", info, err)
	}
	page := awaitPage(t, c.addresses["metrics"], "the connections", has(
		`election_proxy_leader_known{`+labels("one")+`} 1`, `election_proxy_leader_known{`+labels("three")+`} 0`,
		`election_proxy_carried_connections_total{`+labels("two")+`} 1`,
		`election_proxy_connections{`+labels("one")+`,state="carried"} 1`,
		`election_proxy_refused_connections_total{`+labels("one", `reason="no_leader",`)+`} 0`,
		`election_proxy_cut_connections_total{`+labels("one", `reason="deposed",`)+`} 0`,
		fmt.Sprintf(`election_proxy_term{%s} %v`+"\n", labels("one"), float64(info.Term)), `election_proxy_term{`+labels("three")+`} 0`,
		`election_proxy_accepted_connections_total{`+labels("one")+"} 1\n", `election_proxy_accepted_connections_total{`+labels("three")+"} 0\n",
		`election_proxy_dial_failures_total{`+labels("two")+"} 0\n",
	))
	if problems, err := promlint.New(strings.NewReader(page)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}

	// Carried bytes are counted at the end of a connection at the latest.
	if _, err := io.WriteString(conn, "to the leader"); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	bytes := func(direction string, n int) string {
		return fmt.Sprintf("election_proxy_bytes_total{bucket=\"leaders\",direction=%q,listen=%q,role=\"one\"} %d\n", direction, c.addresses["one"], n)
	}
	awaitPage(t, c.addresses["metrics"], "the bytes", has(bytes("to_leader", len("to the leader")), bytes("from_leader", len("one\n"))))

	waits, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.addresses["four"])
	if err != nil {
		t.Fatal(err)
	}
	defer waits.Close() //nolint:errcheck // a fixture
	awaitPage(t, c.addresses["metrics"], "the failures", func(page string) bool {
		_, rest, _ := strings.Cut(page, "election_proxy_dial_failures_total{"+labels("four")+"} ")
		number, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.ParseUint(number, 10, 64)
		return err == nil && n > 0
	})
}

func TestProxyLetsConnectionsEndAndCutsTheRest(t *testing.T) {
	t.Parallel()
	l := newReadLab(t)
	a := newService(t, "a")
	l.campaign("jobs", "a", a.ln.Addr().String())
	c := l.carry([]string{"jobs"}, "jobs", "--listen", "127.0.0.1:0", "--drain", "1m")
	conn := c.connect("jobs", "a")
	status := make(chan int, 1)
	go func() { status <- c.end() }()
	l.until("it accepts no more", func() error {
		late, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.addresses["jobs"])
		if err == nil {
			_ = late.Close()
			return errors.New("it accepts")
		}
		return nil
	})
	select {
	case code := <-status:
		t.Fatalf("it ended before its connection, with the status %d", code)
	default:
	}
	_ = conn.Close()
	if code := <-status; code != 0 {
		t.Errorf("exit status %d after SIGTERM", code)
	}

	c = l.carry([]string{"jobs"}, "jobs", "--listen", "127.0.0.1:0", "--drain", "0s")
	conn = c.connect("jobs", "a")
	if code := c.end(); code != 0 {
		t.Errorf("exit status %d after SIGTERM", code)
	}
	wasReset(t, conn)
}

// A flag's value has to reach the proxy, which tests the rest by itself.
func TestProxyKeepsAndRefusesConnectionsByItsFlags(t *testing.T) {
	t.Parallel()
	t.Run("grace", func(t *testing.T) {
		t.Parallel()
		l := newReadLab(t)
		a, b := newService(t, "a"), newService(t, "b")
		c := l.carry([]string{"jobs"}, "jobs", "--listen", "127.0.0.1:0", "--wait", "2m", "--grace", "10m")
		l.campaign("jobs", "a", a.ln.Addr().String())
		old := c.connect("jobs", "a")
		l.campaign("jobs", "b", b.ln.Addr().String())
		l.run(0, "step-down", "jobs", "--yes")
		// The switch to the next leader comes after the proxy cut the
		// connections of the former one.
		c.connect("jobs", "b")
		got := a.got.Load()
		if _, err := old.Write([]byte("x")); err != nil {
			t.Fatalf("the former leader's connection: %v", err)
		}
		l.until("the former leader still gets what is sent", func() error {
			switch {
			case a.got.Load() > got:
				return nil
			case a.open.Load() == 0:
				t.Fatal("the former leader's connection was cut")
			}
			return errors.New("it gets nothing")
		})
	})
	t.Run("port", func(t *testing.T) {
		t.Parallel()
		l := newReadLab(t)
		a := newService(t, "a")
		_, port, _ := net.SplitHostPort(a.ln.Addr().String())
		c := l.carry([]string{"jobs"}, "jobs", "--listen", "127.0.0.1:0", "--wait", "2m", "--port", port)
		l.campaign("jobs", "a", "127.0.0.1:1") // where nobody listens
		c.connect("jobs", "a")
	})
	t.Run("max-conns", func(t *testing.T) {
		t.Parallel()
		l := newReadLab(t)
		a := newService(t, "a")
		c := l.carry([]string{"jobs"}, "jobs", "--listen", "127.0.0.1:0", "--wait", "2m", "--max-conns", "1")
		l.campaign("jobs", "a", a.ln.Addr().String())
		first := c.connect("jobs", "a")
		c.refused("jobs")
		_ = first.Close()
		l.until("the place of the first is free", func() error {
			name, err := c.ask("jobs")
			if err == nil && name != "a\n" {
				err = fmt.Errorf("%q", name)
			}
			return err
		})
	})
	t.Run("wait", func(t *testing.T) {
		t.Parallel()
		l := newReadLab(t)
		c := l.carry([]string{"jobs", "metrics"}, "jobs", "--listen", "127.0.0.1:0", "--wait", "0s", "--metrics", "127.0.0.1:0")
		c.refused("jobs")
		labels := fmt.Sprintf(`{bucket="leaders",listen=%q,`, c.addresses["jobs"])
		page := awaitPage(t, c.addresses["metrics"], "the refusal", has(
			`election_proxy_refused_connections_total`+labels+`reason="no_leader",role="jobs"} 1`))
		_, rest, _ := strings.Cut(page, "\nelection_proxy_wait_seconds_total"+labels+`role="jobs"} `)
		number, _, _ := strings.Cut(rest, "\n")
		// The proxy's own clock proves it: nothing lies between its two looks
		// at it.
		if waited, err := strconv.ParseFloat(number, 64); err != nil || waited >= proxy.DefaultWait.Seconds() {
			t.Errorf("it waited %q s for a leader (%v), and by default waits %v", number, err, proxy.DefaultWait)
		}
	})
}

func TestProxyReportsEveryMistakeOfItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"all of them": {[]string{"--file", file("bad", "a 5432\n# no\nb..c :1\nd :1 99999 x\n\ne\n")}, 2, []string{
			`line 1: listen "5432": must be HOST:PORT`, `line 3: group "b..c": must be letters`, `line 4: port "99999": must be from 1 to 65535`,
			`line 4: "x": must not follow`, `line 4: listen ":1": must differ from the address of line 3`, "line 6: listen: is required",
		}},
		"empty":     {[]string{"--file", file("empty", "# nothing\n")}, 2, []string{"must have a line GROUP LISTEN [PORT]"}},
		"no file":   {[]string{"--file", filepath.Join(dir, "none")}, 2, []string{"--file: open", "none"}},
		"both":      {[]string{"g", "--file", file("good", "a :0\n")}, 2, []string{"--file: names the groups"}},
		"neither":   {nil, 2, []string{"<group>: is required"}},
		"no listen": {[]string{"g"}, 2, []string{"--listen: is required"}},
		"values": {[]string{"g..h", "--listen", "x", "--port", "70000", "--wait=-1s", "--grace=-1s", "--drain=-1s", "--max-conns=0", "--metrics=x"}, 2, []string{
			`group "g..h"`, `--listen "x"`, "--port 70000", "--wait -1s", "--grace -1s", "--drain -1s", "--max-conns 0", `--metrics "x"`,
		}},
		"taken": {[]string{"g", "--dev", "--listen", taken.Addr().String()}, 1, []string{"--listen " + taken.Addr().String(), "in use"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, stderr := runProgram(t, nil, append([]string{"proxy"}, c.args...)...)
			if code != c.code || out != "" {
				t.Errorf("exit status %d, want %d; stdout %q", code, c.code, out)
			}
			for _, want := range c.says {
				if !strings.Contains(stderr, want) {
					t.Errorf("no %q in:\n%s", want, stderr)
				}
			}
		})
	}
}
