// Package devserver is servers on the loopback interface for trying the commands
// out: a [Process] is one of another kind than NATS, by a program that the
// machine has. Package devnats has the server of NATS.
package devserver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/tempdir"
)

// Prefix begins the names of the servers' directories.
const Prefix = "leader-dev-"

// A Process is a server in a process of its own, which ends with this one. One
// that keeps its data in another server has that in a further process.
type Process struct {
	// URL is that of the store there.
	URL string
	// Exited is closed when the process has ended.
	Exited <-chan struct{}

	program string
	ports   []int
	dir     *tempdir.Dir
	work    string   // below dir, of the server's user
	as      *user    // nil: the user of this process
	under   *Process // the server that keeps its data, if that is another
	end     syscall.Signal
	cmd     *exec.Cmd
	log     *tail
}

// StartKind starts a server of a kind of store, by the program that the machine
// has for it, on the loopback interface. Its files are in a temporary directory
// until Close; the end of ctx kills it, too. It may not serve yet.
//
// A server that refuses to run as root runs as the user nobody then.
//
// The ports are free when they are looked for. If another program is faster,
// the server ends and says so: see Exited and Said.
func StartKind(ctx context.Context, scheme string) (*Process, error) {
	k, ok := kinds()[scheme]
	if !ok {
		return nil, fmt.Errorf("no server of the kind %q is started: %s are", scheme, strings.Join(Kinds(), ", "))
	}
	program, err := find(k.program)
	if err != nil {
		return nil, fmt.Errorf("for a store of the kind %q the program %s has to be installed: %w", scheme, k.program, err)
	}
	ports, err := freePorts(ctx, 3)
	if err != nil {
		return nil, err
	}
	dir, err := tempdir.New(Prefix)
	if err != nil {
		return nil, err
	}
	p := &Process{
		program: program, ports: ports, dir: dir, work: filepath.Join(dir.Path, "server"),
		end: cmp.Or(k.end, syscall.SIGKILL), log: new(tail),
	}
	p.URL = strings.NewReplacer("PORT", p.port(0), "DIR", url.QueryEscape(p.work)).Replace(k.url)
	if err := p.start(ctx, k); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

// start makes what the server needs and starts it. One goroutine waits for its
// end, for all who want to know.
func (p *Process) start(ctx context.Context, k kind) (err error) {
	if k.on != "" {
		if p.under, err = StartKind(ctx, k.on); err != nil {
			return fmt.Errorf("%s keeps its data elsewhere: %w", k.program, err)
		}
	}
	if k.unprivileged {
		if p.as, err = unprivileged(); err != nil {
			return err
		}
	}
	if err := p.mkdir(p.work); err != nil {
		return err
	}
	if p.as != nil {
		if err := os.Chmod(p.dir.Path, 0o711); err != nil { //nolint:gosec // the server's user has to get to its own
			return err
		}
	}
	if k.prepare != nil {
		if err := k.prepare(ctx, p); err != nil {
			return err
		}
	}
	p.cmd = p.command(ctx, p.program, k.args(p)...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.Cancel = p.kill
	if p.dir.Lock != nil { // so that its files outlive it
		// Who tidies up must not take the files of a server that has outlived
		// this process.
		p.cmd.ExtraFiles = []*os.File{p.dir.Lock}
	}
	exited := make(chan struct{})
	p.Exited = exited
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(exited)
		_ = p.cmd.Wait() // what it has written tells why
	}()
	return nil
}

// mkdir makes a directory of the server's user.
func (p *Process) mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil || p.as == nil {
		return err
	}
	return os.Lchown(path, p.as.uid, p.as.gid)
}

// command returns a command that runs as the server's user, in its directory.
func (p *Process) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.SysProcAttr = p.work, attributes(p.end, p.as)
	return cmd
}

// grace is how long a server may take to end at once.
const grace = 5 * time.Second

// kill ends the server. One that has a better way than SIGKILL gets time for
// it, and SIGKILL after that. exec.Cmd calls it at the end of ctx, on a
// goroutine of its own, and Close calls it as well.
func (p *Process) kill() error {
	if p.end != syscall.SIGKILL && p.cmd.Process.Signal(p.end) == nil {
		select {
		case <-p.Exited:
			return os.ErrProcessDone
		case <-time.After(grace):
		}
	}
	return p.cmd.Process.Kill()
}

// Is reports whether a process is this one, or the one that keeps its data.
// Once it has ended, none is: its number may be another's.
func (p *Process) Is(pid int) bool {
	if p.under != nil && p.under.Is(pid) {
		return true
	}
	select {
	case <-p.Exited:
		return false
	default:
		return p.cmd.Process.Pid == pid
	}
}

// Said returns the end of what the server has written.
func (p *Process) Said() string { return p.log.String() }

// Close kills the server and removes its files. In this order: a server that
// still writes would leave files behind.
func (p *Process) Close() error {
	_ = p.kill() // it may have ended
	<-p.Exited
	return p.remove()
}

// remove removes the files of a server that does not run, and what it ran on.
func (p *Process) remove() (err error) {
	if p.under != nil {
		err = p.under.Close()
	}
	return errors.Join(err, p.dir.Remove())
}

// freePorts returns ports of the loopback interface that nobody listens on.
// They are held until all are found, since the system may give one again at
// once.
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

// A tail keeps the end of what is written. It is for the one message about a
// server that has ended. exec.Cmd writes from its own goroutine.
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
