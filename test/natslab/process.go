package natslab

import (
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
)

// configVariable names the configuration file in the environment of a process that is to be a server.
const configVariable = "NATSLAB_SERVER_CONFIG"

// Serving runs a server and returns true, when that has ended, in a process that [StartProcesses] started. A package
// that uses it calls this first in its TestMain:
//
//	func TestMain(m *testing.M) {
//		if natslab.Serving() {
//			return
//		}
//		…
//	}
//
// The server ends with its standard input, so that none outlives the tests.
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
	_, err = io.Copy(io.Discard, os.Stdin)
	srv.Shutdown()
	srv.WaitForShutdown()
	return err
}

// A Process is one nats-server with JetStream in a process of its own, which can be killed.
type Process struct {
	Name   string
	tb     testing.TB
	port   int
	config string // path of its configuration file
	cmd    *exec.Cmd
	stdin  io.Closer
}

// Processes are servers that form a cluster, each in a process of its own.
type Processes struct {
	tb    testing.TB
	Nodes []*Process
}

// StartProcesses starts a cluster of n servers, each in a process of its own: the test's executable, whose TestMain must call
// [Serving]. extra is added to each configuration file. They are killed when the test ends.
func StartProcesses(tb testing.TB, n int, extra string) *Processes {
	tb.Helper()
	ports := freePorts(tb, 2*n) // for clients, and for routes
	var routes []string
	for _, p := range ports[n:] {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	c := &Processes{tb: tb}
	for i := range n {
		dir := tb.TempDir()
		name := fmt.Sprintf("node%d", i)
		config := fmt.Sprintf("server_name: %s\nlisten: 127.0.0.1:%d\njetstream { store_dir: %q }\n"+
			"cluster { name: lab, listen: 127.0.0.1:%d, routes: [%s] }\n%s\n",
			name, ports[i], filepath.Join(dir, "js"), ports[n+i], strings.Join(routes, ", "), extra)
		path := filepath.Join(dir, "server.conf")
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			tb.Fatalf("natslab: %v", err)
		}
		p := &Process{Name: name, tb: tb, port: ports[i], config: path}
		p.Run()
		tb.Cleanup(p.Kill)
		c.Nodes = append(c.Nodes, p)
	}
	c.AwaitReady()
	return c
}

// Run starts the process if it does not run, on the port and the files that it had before. It does not wait until the server serves.
func (p *Process) Run() {
	p.tb.Helper()
	if p.cmd != nil {
		return
	}
	exe, err := os.Executable()
	if err != nil {
		p.tb.Fatalf("natslab: %v", err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), configVariable+"="+p.config)
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

// Kill ends the process without a warning (SIGKILL), and returns when it is gone. Its files stay as they are.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()         // says that it was killed
	_ = p.stdin.Close()
	p.cmd = nil
}

// Signal sends the process a signal, such as SIGSTOP and SIGCONT where there are such.
func (p *Process) Signal(sig os.Signal) {
	p.tb.Helper()
	if p.cmd == nil {
		p.tb.Fatal("natslab: the process does not run")
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.tb.Fatalf("natslab: %v", err)
	}
}

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

// StreamLeader waits until the stream has a leader among the nodes that run, and returns it.
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
