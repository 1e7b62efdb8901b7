package cli_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/labs/servers"
)

// A bench runs commands with --dev, whose servers have their files below tmp.
// LEADER_STORE names a store that they must not use.
type bench struct {
	desk
	tmp string
	env []string
}

// newBench makes a bench whose programs are in the directory besides those of
// the PATH.
func newBench(t *testing.T, dir string, env ...string) bench {
	t.Helper()
	tmp, err := os.MkdirTemp("", "lab") //nolint:usetesting // other users have no access to the test's own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) }) // it is temporary
	if err := os.Chmod(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	path := dir + string(filepath.ListSeparator) + os.Getenv("PATH")
	return bench{desk{TB: t}, tmp, append([]string{"PATH=" + path, "HOME=" + t.TempDir(), "TMPDIR=" + tmp, "LEADER_STORE=redis://elsewhere"}, env...)}
}

func (b bench) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(b.within(), program, args...)
	cmd.Env = b.env
	return cmd
}

// lists demands that leader ls shows the sample elections of a store.
func (b bench) lists(kind string) {
	b.Helper()
	var stderr strings.Builder
	cmd := b.command("ls", "--dev", "--store", kind, "-o", "name")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if groups := strings.Fields(string(out)); err != nil || !slices.Equal(groups, []string{"billing", "jobs.eu", "jobs.us", "reports"}) {
		b.Errorf("%s: %s, %v\n%s", kind, out, err, stderr.String())
	}
}

// left are the files of servers.
func (b bench) left() []string {
	b.Helper()
	left, err := filepath.Glob(filepath.Join(b.tmp, "*"))
	if err != nil {
		b.Fatal(err)
	}
	return left
}

// watches starts leader watch, and waits until it shows something.
func (b bench) watches(kind string) *exec.Cmd {
	b.Helper()
	cmd := b.command("watch", ">", "--dev", "--store", kind)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		b.Fatalf("leader watch shows %q: %v", line, err)
	}
	return cmd
}

// served are the kinds of which --dev starts a server, and where the programs
// of each are.
func served() map[string]func(t *testing.T) (dir string, env []string) {
	postgresql := func(t *testing.T) (string, []string) {
		p := databases.PostgreSQLPrograms(t)
		return p.Bin(), p.Env()
	}
	mariadb := func(t *testing.T) (string, []string) {
		p := databases.MariaDBPrograms(t)
		return p.Bin(), p.Env()
	}
	return map[string]func(t *testing.T) (dir string, env []string){
		"redis://": func(t *testing.T) (string, []string) {
			redis, env := databases.RedisProgram(t)
			return filepath.Dir(redis), env
		},
		"etcd://":   func(t *testing.T) (string, []string) { return filepath.Dir(servers.Need(t, "etcd")), nil },
		"consul://": func(t *testing.T) (string, []string) { return filepath.Dir(servers.Need(t, "consul")), nil },
		"k8s://": func(t *testing.T) (string, []string) {
			return beside(t, servers.Need(t, "kubernetes"), servers.Need(t, "etcd")), nil
		},
		"postgres://": postgresql, "postgresql://": postgresql,
		"mysql://": mariadb, "mariadb://": mariadb,
		"s3://": func(t *testing.T) (string, []string) { return beside(t, servers.Need(t, "s3")), nil },
		"gs://": func(t *testing.T) (string, []string) { return beside(t, servers.Need(t, "gcs")), nil },
	}
}

// With --dev, a server of the kind that --store names is started, and ended
// with the command.
func TestDevStartsAServerOfTheKind(t *testing.T) {
	for kind, programs := range served() {
		t.Run(strings.TrimSuffix(kind, "://"), func(t *testing.T) {
			t.Parallel()
			dir, env := programs(t)
			b := newBench(t, dir, env...)
			b.lists(kind)
			if left := b.left(); len(left) > 0 {
				t.Errorf("files of the server are left: %v", left)
			}
		})
	}
}

// beside returns a directory with links to the programs, without versions in
// their names.
func beside(t *testing.T, programs ...string) (dir string) {
	dir = t.TempDir()
	for _, p := range programs {
		name, _, _ := strings.Cut(filepath.Base(p), "-v")
		if err := os.Symlink(p, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The server is a child of leader run, as what a program leaves behind is, and
// has to outlive the program: the term is released on it, and the next program
// runs by it. Kubernetes' is two processes.
func TestRunLeavesTheServerOfDevAlone(t *testing.T) {
	for _, kind := range []string{"redis://", "k8s://"} {
		t.Run(strings.TrimSuffix(kind, "://"), func(t *testing.T) {
			t.Parallel()
			dir, env := served()[kind](t)
			b := newBench(t, dir, env...)
			b.leaves(kind, "release", false)
			b.leaves(kind, "restart", true)
		})
	}
}

// leaves runs a program that ends at once, until it has run once more if it is
// to run again.
func (b bench) leaves(kind, onExit string, again bool) {
	b.Helper()
	var stderr strings.Builder
	cmd := b.command("run", "jobs", "--dev", "--store", kind, "--on-exit", onExit, "--", "echo", "up")
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	lines := 0
	for said := bufio.NewScanner(out); said.Scan(); lines++ {
		if again && lines > 0 {
			_ = cmd.Process.Signal(syscall.SIGTERM) // or its end tells
		}
	}
	_ = cmd.Wait() // what it says tells
	// A release that fails is said after that.
	if !strings.HasSuffix(stderr.String(), "leading no more: stopped\n") || lines == 0 {
		b.Errorf("--on-exit %s: %d lines, exit status %d\n%s", onExit, lines, cmd.ProcessState.ExitCode(), stderr.String())
	}
}

func TestDevSaysWhatItNeeds(t *testing.T) {
	b := newBench(t, t.TempDir())
	b.env = append(b.env, "PATH=/nowhere")
	for kind, says := range map[string]string{
		"gopher://":    "those of consul, etcd, gs, k8s, mariadb, mysql, postgres, postgresql, redis, s3 are",
		"mongodb://":   "no server is started for mongodb://",
		"redis://host": "name its kind alone",
		"etcd://":      "the program etcd has to be installed",
		"k8s://":       "the program kube-apiserver has to be installed",
		"s3://":        "the program versitygw has to be installed",
		"gs://":        "the program fake-gcs-server has to be installed",
	} {
		out, err := b.command("ls", "--dev", "--store", kind).CombinedOutput()
		if err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
	}
	t.Run("k8s without etcd", func(t *testing.T) {
		b := newBench(t, t.TempDir())
		b.env = append(b.env, "PATH="+beside(t, servers.Need(t, "kubernetes")))
		out, err := b.command("ls", "--dev", "--store", "k8s://").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "kube-apiserver keeps its data elsewhere") || !strings.Contains(string(out), "the program etcd has to be installed") {
			t.Errorf("%v\n%s", err, out)
		}
		if left := b.left(); len(left) > 0 {
			t.Errorf("files of servers are left: %v", left)
		}
	})
	if left := b.left(); len(left) > 0 {
		t.Errorf("files of servers are left: %v", left)
	}
}

// What a command leaves behind that is killed is removed by the next one, which
// leaves alone what is of one that runs.
func TestDevRemovesWhatIsAbandoned(t *testing.T) {
	redis, env := databases.RedisProgram(t)
	b := newBench(t, filepath.Dir(redis), env...)
	for _, kind := range []string{"nats://", "redis://"} {
		killed := b.watches(kind)
		b.lists(kind)
		if left := b.left(); len(left) != 1 {
			t.Fatalf("%s: beside a command that runs there are %v", kind, left)
		}
		if err := killed.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = killed.Wait()
		// The server ends by itself, after the command.
		limit := time.Now().Add(databases.Patience)
		for b.lists(kind); len(b.left()) > 0; b.lists(kind) {
			if time.Now().After(limit) {
				t.Fatalf("%s: left behind: %v", kind, b.left())
			}
		}
	}
}
