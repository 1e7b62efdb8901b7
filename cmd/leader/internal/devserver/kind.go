package devserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A kind is one of server that the machine may have.
type kind struct {
	program string
	args    func(dir string, ports []int) []string
	url     string // of the store there, with the first port
}

// kinds are those that [StartKind] starts, by the scheme of their stores' URLs.
func kinds() map[string]kind {
	web := func(port int) string { return "http://127.0.0.1:" + strconv.Itoa(port) }
	return map[string]kind{
		"redis": {"redis-server", func(dir string, ports []int) []string {
			return []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(ports[0]), "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always"}
		}, "redis://127.0.0.1:%d"},
		"etcd": {"etcd", func(dir string, ports []int) []string {
			return []string{
				"--name", "dev", "--data-dir", filepath.Join(dir, "data"), "--listen-client-urls", web(ports[0]), "--advertise-client-urls", web(ports[0]),
				"--listen-peer-urls", web(ports[1]), "--initial-advertise-peer-urls", web(ports[1]), "--initial-cluster", "dev=" + web(ports[1]),
			}
		}, "etcd://127.0.0.1:%d"},
		"consul": {"consul", func(dir string, ports []int) []string {
			return []string{
				"agent", "-server", "-bootstrap-expect", "1", "-node", "dev", "-data-dir", dir, "-bind", "127.0.0.1", "-http-port", strconv.Itoa(ports[0]),
				"-server-port", strconv.Itoa(ports[1]), "-serf-lan-port", strconv.Itoa(ports[2]), "-log-level", "ERROR",
				"-hcl", "ports { dns = -1, grpc = -1, grpc_tls = -1, serf_wan = -1 } connect { enabled = false } disable_update_check = true",
			}
		}, "consul://127.0.0.1:%d"},
	}
}

// Kinds returns the schemes of the stores for which [StartKind] starts a server.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds())) }

// A Process is a server in a process of its own, which ends with this one.
type Process struct {
	// URL is that of the store there.
	URL string
	// Exited is closed when the process has ended.
	Exited <-chan struct{}

	cmd *exec.Cmd
	dir string
	log *tail
}

// StartKind starts a server of a kind of store, by the program that the machine
// has for it, on the loopback interface. Its files are in a temporary directory
// until Close; the end of ctx kills it, too. It may not serve yet.
func StartKind(ctx context.Context, scheme string) (*Process, error) {
	k, ok := kinds()[scheme]
	if !ok {
		return nil, fmt.Errorf("no server of the kind %q is started: %s are", scheme, strings.Join(Kinds(), ", "))
	}
	program, err := exec.LookPath(k.program)
	if err != nil {
		return nil, fmt.Errorf("for a store of the kind %q the program %s has to be installed: %w", scheme, k.program, err)
	}
	ports, err := freePorts(ctx, 3)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "leader-dev-")
	if err != nil {
		return nil, err
	}
	p := &Process{URL: fmt.Sprintf(k.url, ports[0]), dir: dir, log: new(tail), cmd: exec.CommandContext(ctx, program, k.args(dir, ports)...)}
	p.cmd.Dir, p.cmd.SysProcAttr = dir, attributes()
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	exited := make(chan struct{})
	p.Exited = exited
	go func() {
		defer close(exited)
		_ = p.cmd.Wait() // what it has written tells why
	}()
	return p, nil
}

// Said returns the end of what the server has written.
func (p *Process) Said() string { return p.log.String() }

// Close kills the server and removes its files.
func (p *Process) Close() error {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.Exited
	return os.RemoveAll(p.dir)
}

// freePorts returns ports of the loopback interface that nobody listens on.
func freePorts(ctx context.Context, n int) (ports []int, err error) {
	var all []net.Listener // until they differ
	defer func() {
		for _, l := range all {
			_ = l.Close() // nothing was accepted
		}
	}()
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		all = append(all, l)
		if at, ok := l.Addr().(*net.TCPAddr); ok {
			ports = append(ports, at.Port)
		}
	}
	return ports, nil
}

// A tail keeps the end of what is written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 2 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-most):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}
