package databases

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/seed-ff2cb582/leader/test/labs/servers"
)

// A server is one process of a database in its own directory.
type server struct {
	dsn    string
	dir    string
	bin    string // the program
	root   string // of the installation that it belongs to
	signal string // that ends it at once
	stdin  io.Closer
	exited chan struct{}
	log    buffer
}

// tether keeps a server no longer than the process that started it: a shell
// reads its standard input, which ends with that process however it ends, and
// then ends the server and removes its files. The arguments are the directory,
// the signal and the server's command. A signal to the whole group of processes
// is for the server, and not for the shell.
const tether = `exec 3<&0; dir=$1 signal=$2; shift 2; trap '' HUP INT TERM
(trap - HUP INT TERM; exec "$@") </dev/null & server=$!
(cat; kill -"$signal" $server) >/dev/null 2>&1 <&3 & watch=$!
wait $server
kill -KILL $watch 2>/dev/null
rm -rf "$dir"`

// start starts a program in a new directory. prepare fills the directory and
// returns the arguments.
func start(driver, bin string, prepare func(*server) ([]string, error)) (*server, error) {
	// A socket's path has about 100 bytes, so not a test's directory.
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, exited: make(chan struct{})}
	if err := s.run(driver, bin, prepare); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", filepath.Base(bin), err), s.stop(), os.RemoveAll(dir))
	}
	return s, nil
}

func (s *server) run(driver, bin string, prepare func(*server) ([]string, error)) error {
	if err := own(s.dir); err != nil {
		return err
	}
	if err := s.reach(bin); err != nil {
		return err
	}
	args, err := prepare(s)
	if err != nil {
		return err
	}
	cmd := s.command("/bin/sh", append([]string{"-c", tether, "tether", s.dir, s.signal, s.bin}, args...)...)
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.stdin = stdin
	go func() {
		defer close(s.exited)
		_ = cmd.Wait() // the exit status of a server that was ordered to end
	}()
	return s.await(driver)
}

// reach makes the program one that the servers' user may execute: a cache below
// root's home is closed to others.
func (s *server) reach(bin string) error {
	root := servers.Root(bin)
	s.bin, s.root = bin, root
	if root == "/" || !dropsPrivileges() {
		return nil
	}
	s.root = filepath.Join(s.dir, "root")
	s.bin = s.root + strings.TrimPrefix(bin, root)
	if err := os.CopyFS(s.root, os.DirFS(root)); err != nil {
		return err
	}
	// So that the user that ends the server can remove it, too.
	return filepath.WalkDir(s.root, func(path string, _ fs.DirEntry, err error) error { return errors.Join(err, own(path)) })
}

func (s *server) mkdir(dir string) error {
	return s.command("/bin/mkdir", "-p", dir).Run()
}

// command returns a command that runs as a user who is not root: PostgreSQL
// refuses to.
func (s *server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.Env = append(append(os.Environ(), "HOME="+s.dir, "LC_ALL=C"), servers.Env(s.root)...)
	cmd.SysProcAttr = unprivileged()
	return cmd
}

// stop ends the server and waits until its files are gone.
func (s *server) stop() error {
	if s.stdin == nil {
		return nil
	}
	err := s.stdin.Close()
	<-s.exited
	return err
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

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
