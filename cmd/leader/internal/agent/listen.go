package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
)

const unixScheme = "unix://"

// socketPath returns the path of a Unix socket that --listen names.
func socketPath(listen string) (string, bool) { return strings.CutPrefix(listen, unixScheme) }

// checkListen checks --listen. A relative path would depend on where the agent
// was started, which its clients do not know.
func checkListen(listen string) error {
	path, unix := socketPath(listen)
	switch {
	case unix && filepath.IsAbs(path):
		return nil
	case unix:
		return fmt.Errorf("--listen %q: must name an absolute path, such as unix:///run/leader/agent.sock", listen)
	}
	if err := web.CheckAddress("--listen", listen); err != nil {
		return err
	}
	return nil
}

// listen begins to listen. For a socket, clean removes its file.
func listen(ctx context.Context, where string, mode fs.FileMode) (ln net.Listener, clean func(), err error) {
	path, unix := socketPath(where)
	if !unix {
		ln, err = (&net.ListenConfig{}).Listen(ctx, "tcp", where)
		return ln, func() {}, wrongListen(where, err)
	}
	ln, clean, err = listenUnix(ctx, path, mode)
	return ln, clean, wrongListen(where, err)
}

// wrongListen adds the flag to an error of listening.
func wrongListen(where string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--listen %s: %w", where, err)
}

// listenUnix listens on a socket that nobody can connect to before it has its
// mode: it is made in a directory that listenUnix creates, and moved from
// there. That also replaces a socket that an agent left when it was killed.
func listenUnix(ctx context.Context, path string, mode fs.FileMode) (_ net.Listener, clean func(), err error) {
	unlock, err := lock(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	if err := vacant(ctx, path); err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".") // 0700
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // an empty directory stays behind
	hidden := filepath.Join(dir, "s")
	// A short name: the path of a socket has some hundred bytes at the most.
	ln, err := (&net.ListenConfig{}).Listen(ctx, "unix", hidden)
	if err != nil {
		return nil, nil, err
	}
	if u, ok := ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // its name changes
	}
	// Before it gets its name: what listens under a path has its mode from the
	// first moment.
	err = os.Chmod(hidden, mode)
	// To know the file again at the end, whatever has its name then.
	made, statErr := os.Lstat(hidden)
	if err = errors.Join(err, statErr); err == nil {
		err = os.Rename(hidden, path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, ln.Close())
	}
	return ln, func() {
		unlock, err := lock(context.WithoutCancel(ctx), path)
		if err != nil {
			return // the next agent takes its place
		}
		defer unlock()
		// Another agent may have taken the place since.
		if now, err := os.Lstat(path); err == nil && os.SameFile(made, now) {
			_ = os.Remove(path)
		}
	}, nil
}

const (
	// lockPatience is how long an agent waits for others that begin or end on
	// the same socket. Each takes a moment.
	lockPatience = 5 * time.Second
	lockPace     = 5 * time.Millisecond
)

// lock keeps other agents from looking for a place at a path, or from leaving
// it, until unlock is called. Otherwise two that look at the same instant would
// each find nobody there.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	again := time.NewTicker(lockPace)
	defer again.Stop()
	for {
		unlock, err := tryLock(path)
		switch {
		case err != nil:
			return nil, fmt.Errorf("lock the socket's path: %w", err)
		case unlock != nil:
			return unlock, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("another agent keeps the socket's path locked: %w", ctx.Err())
		}
	}
}

// vacant returns an error if the path has anything except a socket on which
// nobody listens. Only an attempt to connect distinguishes a socket that was
// left behind from a socket in use. In doubt it counts as used: replacing a
// busy agent's socket would cut off its clients.
func vacant(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("the path holds a file that is not a socket")
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(errors.New("somebody listens there"), c.Close())
	case deserted(err):
		return nil
	default:
		return fmt.Errorf("somebody may listen there: %w", err)
	}
}
