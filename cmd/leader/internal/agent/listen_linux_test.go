package agent

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Of agents that start at one instant, one listens, and the others report that
// it does.
func TestOneAgentAloneListensOnASocket(t *testing.T) {
	t.Parallel()
	const agents = 8
	for _, left := range []bool{false, true} {
		for range 20 {
			path := filepath.Join(short(t), "s")
			if left {
				abandon(t, path)
			}
			var all sync.WaitGroup
			lns, cleans, errs := make([]net.Listener, agents), make([]func(), agents), make([]error, agents)
			for i := range agents {
				all.Go(func() { lns[i], cleans[i], errs[i] = listenUnix(t.Context(), path, 0o600) })
			}
			all.Wait()
			n := 0
			for i, ln := range lns {
				if ln == nil {
					if text := errs[i].Error(); !strings.Contains(text, "somebody listens there") && !strings.Contains(text, "locked") {
						t.Error(text) // on a busy machine each takes its time
					}
					continue
				}
				n++
				t.Cleanup(func() { _ = ln.Close(); cleans[i]() })
			}
			if n != 1 {
				t.Fatalf("%d of them listen", n)
			}
		}
	}
}

// Any user who may read a directory may lock it.
func TestLockedDirectoryDoesNotKeepAnAgentFromStarting(t *testing.T) {
	t.Parallel()
	dir := short(t)
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ln, clean, err := listenUnix(t.Context(), filepath.Join(dir, "s"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	clean()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v: it leaves %v", err, left)
	}
}

func TestLockOfASocketIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	dir := short(t)
	unlock, err := tryLock(filepath.Join(dir, "s"))
	if err != nil || unlock == nil {
		t.Fatal(err)
	}
	if again, err := tryLock(filepath.Join(dir, "s")); again != nil || err != nil {
		t.Errorf("locked twice: %v", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v: %v", err, files)
	}
	if info, err := files[0].Info(); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v: others may open it: %v", err, info)
	}
	unlock()
	if unlock, err = tryLock(filepath.Join(dir, "s")); err != nil || unlock == nil {
		t.Fatalf("not unlocked: %v", err)
	}
	unlock()
}

// Another program may remove a socket while it is looked at.
func TestARemovedSocketCountsAsDeserted(t *testing.T) {
	t.Parallel()
	_, err := (&net.Dialer{}).DialContext(t.Context(), "unix", filepath.Join(short(t), "s"))
	if err == nil || !deserted(err) {
		t.Error(err)
	}
}

// abandon leaves a socket on which nobody listens.
func abandon(t *testing.T, path string) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
}

// An agent that many connect to at once does not answer each at once.
func TestASocketWhoseAgentIsBusyIsNotTaken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(short(t), "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd) //nolint:errcheck // the test is over
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 100 { // nobody accepts them
		c, err := net.Dial("unix", path)
		if err != nil {
			break
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	if ln, clean, err := listenUnix(t.Context(), path, 0o600); err == nil {
		t.Error("taken")
		clean()
		_ = ln.Close()
	}
}
