// Package tethered starts servers in processes of their own that live no longer
// than the process that started them.
package tethered

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// A Process is a server and the shell that keeps it.
type Process struct {
	// Exited is closed when the server has ended.
	Exited <-chan struct{}

	server *os.Process
	stdin  io.Closer
	log    buffer
}

// tether keeps a server no longer than the process that started it. A shell
// prints its pid, reads its standard input, which ends with that process
// however it ends, and then kills the server. A signal to the whole process
// group, as a terminal sends it, is for the server and not for the shell.
const tether = `exec 3<&0; trap '' HUP INT TERM
(trap - HUP INT TERM; exec "$@") </dev/null >&2 & server=$!
echo $server
(cat; kill -KILL $server) >/dev/null 2>&1 <&3 & watch=$!
exec >/dev/null
wait $server
kill -KILL $watch 2>/dev/null`

// Start starts a program.
func Start(program string, args ...string) (*Process, error) {
	exited := make(chan struct{})
	p := &Process{Exited: exited}
	cmd := exec.Command("/bin/sh", append([]string{"-c", tether, "tether", program}, args...)...)
	cmd.Stderr = &p.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.stdin = stdin
	var pid int
	if _, err = fmt.Fscanln(stdout, &pid); err == nil {
		p.server, err = os.FindProcess(pid)
	}
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the shell's verdict on a server that was killed
	}()
	return p, err
}

// Kill ends the server without a warning (SIGKILL), and returns when it is
// gone.
func (p *Process) Kill() {
	_ = p.server.Kill() // it may have ended by itself
	_ = p.stdin.Close()
	<-p.Exited
}

// Pause freezes the server (SIGSTOP): its connections stay open, and nothing
// answers. Where this is visible (on Linux) it returns when each of the
// server's threads is stopped, which a running thread is a moment after the
// signal.
func (p *Process) Pause() error {
	if err := p.server.Signal(freeze); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); runs(p.server.Pid) && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	return nil
}

// runs reports whether a thread of the process is seen to run.
func runs(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)) // the pattern is well-formed
	return slices.ContainsFunc(threads, func(thread string) bool {
		b, err := os.ReadFile(thread)
		_, state, found := bytes.Cut(b, []byte(") ")) // behind its name
		return err == nil && found && !bytes.HasPrefix(state, []byte("T"))
	})
}

// Resume ends Pause.
func (p *Process) Resume() error { return p.server.Signal(thaw) }

// Log is what the server has written.
func (p *Process) Log() string {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return p.log.b.String()
}

// A buffer takes what a server logs.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}
