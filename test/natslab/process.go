package natslab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
)

// configVariable names the configuration file in the environment of a process
// that is to be a server.
const configVariable = "NATSLAB_SERVER_CONFIG"

// Serving runs a server and returns true, when that has ended, in a process
// that [StartProcesses] started. A package that uses it calls this first in its
// TestMain:
//
//	func TestMain(m *testing.M) {
//		if natslab.Serving() {
//			return
//		}
//		…
//	}
//
// The server ends with its standard input, so that none outlives the tests. A
// line there has it read its configuration again.
func Serving() bool {
	path, ok := os.LookupEnv(configVariable)
	if !ok {
		return false
	}
	if err := serve(path); err != nil {
		fmt.Fprintln(os.Stderr, "natslab:", err)
	}
	return true
}

func serve(path string) error {
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		return err
	}
	opts.NoSigs, opts.NoLog = true, true
	srv, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	srv.Start()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		err = errors.Join(err, srv.Reload())
	}
	srv.Shutdown()
	srv.WaitForShutdown()
	return err
}

// A Process is one nats-server with JetStream in a separate process, which can
// be killed.
type Process struct {
	Name string
	// StoreDir is where the server keeps its files.
	StoreDir string

	tb     testing.TB
	run    Command
	port   int
	fixed  string // of its configuration, what Configure does not change
	config string // path of its configuration file
	routes []*Relay
	cmd    *exec.Cmd
	stdin  io.WriteCloser
}

// Processes are servers of one cluster, each in its own process.
type Processes struct {
	tb    testing.TB
	Nodes []*Process
}

// StartProcesses starts n servers, each in its own process: the test's
// executable, whose TestMain must call [Serving]. Several servers form a
// cluster. extra is added to each configuration file. They are killed when the
// test ends.
func StartProcesses(tb testing.TB, n int, extra string) *Processes {
	tb.Helper()
	listen := ports.Free(tb, 2*n) // for clients, and for routes
	var routes []string
	for _, p := range listen[n:] {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	all := "routes: [" + strings.Join(routes, ", ") + "]"
	return startProcesses(tb, Command{}, listen, extra, func(*Process, int) string { return all })
}

// A Command is what runs as a server. The zero value is the test's executable.
type Command struct {
	// Path is the path of a program whose main calls [Serving].
	Path string
	// Env are variables of its environment, in addition to the test's.
	Env []string
}

// StartPartitionable starts servers as [StartProcesses] does, by a command,
// with a proxy on each route from one to another: see [Process.Routes].
func StartPartitionable(tb testing.TB, run Command, n int, extra string) *Processes {
	tb.Helper()
	listen := ports.Free(tb, 2*n)
	ends := make([][]*Relay, n) // by server, the relays of its routes in both directions
	urls := make([][]string, n) // by server, where it looks for the others
	for from := range n {
		for to := range n {
			if from == to {
				continue
			}
			p := NewRelay(tb, net.JoinHostPort("127.0.0.1", strconv.Itoa(listen[n+to])))
			ends[from], ends[to] = append(ends[from], p), append(ends[to], p)
			urls[from] = append(urls[from], p.URL())
		}
	}
	return startProcesses(tb, run, listen, extra, func(p *Process, i int) string {
		p.routes = ends[i]
		// Servers exchange the addresses of the others. They must not learn of
		// a way round the proxies, and this port is closed.
		return "advertise: \"127.0.0.1:1\", routes: [" + strings.Join(urls[i], ", ") + "]"
	})
}

// startProcesses starts a server on each of the first half of the ports, whose
// routes end at the second half. routes configures a server's routes to the
// others.
func startProcesses(tb testing.TB, run Command, listen []int, extra string, routes func(p *Process, i int) string) *Processes {
	tb.Helper()
	n := len(listen) / 2
	takeSlot(tb, n)
	c := &Processes{tb: tb}
	for i := range n {
		dir := tb.TempDir()
		p := &Process{
			Name: fmt.Sprintf("node%d", i), StoreDir: filepath.Join(dir, "js"),
			tb: tb, run: run, port: listen[i], config: filepath.Join(dir, "server.conf"),
		}
		keepStreams(tb, p.StoreDir)
		p.fixed = fmt.Sprintf("server_name: %s\nlisten: 127.0.0.1:%d\njetstream { store_dir: %q }\n", p.Name, p.port, p.StoreDir)
		if n > 1 {
			p.fixed += fmt.Sprintf("cluster { name: lab, listen: 127.0.0.1:%d, %s }\n", listen[n+i], routes(p, i))
		}
		p.Configure(extra)
		p.Run()
		tb.Cleanup(p.Kill)
		c.Nodes = append(c.Nodes, p)
	}
	c.AwaitReady()
	return c
}

// Configure replaces what was added to the server's configuration file. A
// server that runs reads it again, soon after; one that does not, when it is
// started.
func (p *Process) Configure(extra string) {
	p.tb.Helper()
	err := os.WriteFile(p.config, []byte(p.fixed+extra+"\n"), 0o600)
	if err == nil && p.cmd != nil {
		_, err = io.WriteString(p.stdin, "reload\n")
	}
	if err != nil {
		p.tb.Fatalf("natslab: %v", err)
	}
}

// Run starts the process if it does not run, on the port and the files that it
// had before. It does not wait until the server serves.
func (p *Process) Run() {
	p.tb.Helper()
	if p.cmd != nil {
		return
	}
	exe := p.run.Path
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			p.tb.Fatalf("natslab: %v", err)
		}
	}
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), p.run.Env...), configVariable+"="+p.config)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.tb.Fatalf("natslab: %v", err)
	}
	p.cmd, p.stdin = cmd, stdin
}

// Kill ends the process without a warning (SIGKILL), and returns when it is
// gone. Its files stay as they are.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()         // its error reports the kill
	_ = p.stdin.Close()
	p.cmd = nil
}

// Signal sends the process a signal, such as SIGSTOP and SIGCONT where there
// are such.
func (p *Process) Signal(sig os.Signal) {
	p.tb.Helper()
	if p.cmd == nil {
		p.tb.Fatal("natslab: the process does not run")
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.tb.Fatalf("natslab: %v", err)
	}
}

// Routes returns the proxies on all connections between the server and the
// others, if [StartPartitionable] started it: with all of them held or cut it
// is alone, and its clients still reach it.
func (p *Process) Routes() []*Relay { return p.routes }

// Running reports whether the process was started and not killed.
func (p *Process) Running() bool { return p.cmd != nil }

// Addr returns host:port of the server, also while it does not run.
func (p *Process) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// URL returns the server's URL.
func (p *Process) URL() string { return (&url.URL{Scheme: "nats", Host: p.Addr()}).String() }

// URL returns the URLs of all nodes, separated by commas.
func (c *Processes) URL() string {
	urls := make([]string, len(c.Nodes))
	for i, p := range c.Nodes {
		urls[i] = p.URL()
	}
	return strings.Join(urls, ",")
}

// Connect returns a connection to any of the nodes that run.
func (c *Processes) Connect(tb testing.TB, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	return Connect(tb, c.URL(), append([]nats.Option{nats.RetryOnFailedConnect(true)}, opts...)...)
}

// AwaitReady waits until each server that runs serves JetStream.
func (c *Processes) AwaitReady() {
	c.tb.Helper()
	for _, p := range c.Nodes {
		if p.Running() {
			Eventually(c.tb, p.Name+" serves JetStream", p.serves)
		}
	}
}

func (p *Process) serves(ctx context.Context) error {
	nc, err := nats.Connect(p.URL())
	if err != nil {
		return err
	}
	defer nc.Close()
	_, err = JetStream(p.tb, nc).AccountInfo(ctx)
	return err
}

// StreamLeader waits until the stream has a leader among the nodes that run,
// and returns it.
func (c *Processes) StreamLeader(nc *nats.Conn, stream string) *Process {
	c.tb.Helper()
	var leader *Process
	js := JetStream(c.tb, nc)
	Eventually(c.tb, "leader of stream "+stream, func(ctx context.Context) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		for _, p := range c.Nodes {
			if info := s.CachedInfo(); p.Running() && info.Cluster != nil && info.Cluster.Leader == p.Name {
				leader = p
				return nil
			}
		}
		return errors.New("none")
	})
	return leader
}
