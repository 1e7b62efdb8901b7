package databases

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/ports"
	"github.com/seed-ff2cb582/leader/test/labs/servers"
)

// A Redis is a Redis server of a test's own, which keeps its port and its data
// when it is killed and runs again. Its methods may not be called concurrently.
type Redis struct {
	tb     testing.TB
	bin    string
	env    []string // variables that it needs in addition to the usual ones
	data   string   // its data, which outlive a run
	port   int
	args   []string
	log    buffer
	stdin  io.Closer // nil while it does not run
	exited chan struct{}
	pid    int
}

// StartRedis starts a Redis server that syncs each write to its file, with more
// of its arguments after those, and ends it with the test.
func StartRedis(tb testing.TB, args ...string) *Redis {
	tb.Helper()
	r := newRedis(tb)
	r.start(append([]string{
		"--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--dir", r.data, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
	}, args...))
	return r
}

// StartSentinel starts a Sentinel that puts a replica in the place of the
// master of that name when it has been silent for two seconds, and ends it with
// the test. In less a busy machine makes a sound master silent.
func StartSentinel(tb testing.TB, name string, master *Redis) *Redis {
	tb.Helper()
	r := newRedis(tb)
	config := filepath.Join(r.data, "sentinel.conf") // which it rewrites
	text := fmt.Sprintf("port %[1]d\nbind 127.0.0.1\ndir %[2]s\nsentinel monitor %[3]s 127.0.0.1 %[4]d 1\n"+
		"sentinel down-after-milliseconds %[3]s 2000\nsentinel failover-timeout %[3]s 5000\n", r.port, r.data, name, master.port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		tb.Fatalf("databases: %v", err)
	}
	r.start([]string{config, "--sentinel"})
	return r
}

func newRedis(tb testing.TB) *Redis {
	tb.Helper()
	bin := servers.Need(tb, "redis")
	return &Redis{tb: tb, bin: bin, env: servers.Env(servers.Root(bin)), data: tb.TempDir(), port: ports.Free(tb, 1)[0]}
}

// start runs the server, and ends it with the test.
func (r *Redis) start(args []string) {
	r.tb.Helper()
	r.args = args
	r.Run()
	r.tb.Cleanup(func() {
		if r.stdin != nil {
			r.end()
		}
	})
}

// Addr returns the server's host:port.
func (r *Redis) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)) }

// Port returns the server's port.
func (r *Redis) Port() int { return r.port }

// Run starts the server, which does not run, and waits until it answers.
func (r *Redis) Run() {
	r.tb.Helper()
	scratch, err := os.MkdirTemp("", "lab") // the tether's, which it removes
	if err != nil {
		r.tb.Fatalf("databases: %v", err)
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", tether, "tether", scratch, "KILL", r.bin}, r.args...)...)
	cmd.Dir, cmd.Env = r.data, append(append(os.Environ(), "LC_ALL=C"), r.env...)
	cmd.Stdout, cmd.Stderr = &r.log, &r.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		r.tb.Fatalf("databases: %v", err)
	}
	if err := cmd.Start(); err != nil {
		r.tb.Fatalf("databases: %v", err)
	}
	exited := make(chan struct{})
	r.stdin, r.exited = stdin, exited
	go func() {
		defer close(exited)
		_ = cmd.Wait() // the exit status of a server that was ordered to end
	}()
	r.await()
}

// await waits until the server answers, and learns its process.
func (r *Redis) await() {
	r.tb.Helper()
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for {
		info, err := r.Say("INFO", "all")
		if err == nil && (strings.Contains(info, "\nloading:0") || strings.Contains(info, "redis_mode:sentinel")) {
			_, rest, _ := strings.Cut(info, "process_id:")
			number, _, _ := strings.Cut(rest, "\r\n")
			if r.pid, err = strconv.Atoi(number); err == nil {
				return
			}
		}
		select {
		case <-r.exited:
			r.tb.Fatalf("databases: redis-server ended before it answered:\n%s", r.log.String())
		case <-limit.C:
			r.tb.Fatalf("databases: redis-server does not answer: %v\n%s", err, r.log.String())
		case <-pause.C:
		}
	}
}

// Say sends a command on a separate connection, as redis-cli does, and returns
// the answer: a string, a number, or nothing for a missing value.
func (r *Redis) Say(words ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", r.Addr(), Patience)
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // the answer was read
	_ = conn.SetDeadline(time.Now().Add(Patience))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return "", err
	}
	return answer(bufio.NewReader(conn))
}

// answer reads one reply of the protocol that is not a list.
func answer(rd *bufio.Reader) (string, error) {
	line, err := rd.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return rest, nil
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", err
		}
		body := make([]byte, n+2)
		_, err = io.ReadFull(rd, body)
		return string(body[:n]), err
	default:
		return "", fmt.Errorf("redis answers %q", strings.TrimSuffix(line, "\r\n"))
	}
}

// Must is Say, and fails the test if the server refuses.
func (r *Redis) Must(words ...string) string {
	r.tb.Helper()
	said, err := r.Say(words...)
	if err != nil {
		r.tb.Fatalf("databases: %s: %v", strings.Join(words, " "), err)
	}
	return said
}

// Kill ends the server as a crash does, and waits until it is gone.
func (r *Redis) Kill() {
	r.tb.Helper()
	r.must("kill", kill)
	<-r.exited
	_ = r.stdin.Close()
	r.stdin = nil
}

// end ends the server whatever it does.
func (r *Redis) end() {
	_ = r.stdin.Close()
	<-r.exited
}

// Freeze stops the server's process, with its connections open, until Thaw.
func (r *Redis) Freeze() {
	r.tb.Helper()
	r.must("freeze", freeze)
	awaitStopped(r.pid)
}

// Thaw ends Freeze.
func (r *Redis) Thaw() {
	r.tb.Helper()
	r.must("thaw", thaw)
}

func (r *Redis) must(what string, do func(pid int) error) {
	r.tb.Helper()
	if err := do(r.pid); err != nil {
		r.tb.Fatalf("databases: %s of redis-server: %v", what, err)
	}
}
