// Package devserver is servers on the loopback interface for trying the commands
// out: a [Process] is one of another kind than NATS, by a program that the
// machine has. Package devnats has that of NATS.
package devserver

import (
	"errors"
	"os"
	"path/filepath"
)

// prefix begins the names of the servers' directories.
const prefix = "leader-dev-"

// lockName is the file in a directory that its process keeps locked. A server
// that the process has started keeps it locked, too. The system releases the
// lock when both have ended, however they did.
const lockName = "lock"

// A Directory is a temporary one for the files of a server.
type Directory struct {
	Path string
	lock *os.File // nil where there are no locks
}

// NewDirectory makes a directory, and removes those that processes have left
// behind that were killed. Nobody else would: who is killed removes nothing,
// and a store's files may be many megabytes.
func NewDirectory() (*Directory, error) {
	removeAbandoned(os.TempDir())
	path, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	lock, err := hold(path)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &Directory{path, lock}, nil
}

// hold locks a directory that was just made. The lock gets its name when it is
// locked: a directory without one is of a process that is at this point.
// Without that step, another process could take a directory for abandoned
// between the making of the file and its lock.
func hold(dir string) (*os.File, error) {
	unnamed := filepath.Join(dir, lockName+".new")
	f, err := os.OpenFile(filepath.Clean(unnamed), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = tryLock(f); err == nil {
		err = os.Rename(unnamed, filepath.Join(dir, lockName))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(unnamed))
	}
	return f, nil
}

// removeAbandoned removes the directories of this user below parent whose locks
// nobody holds any more. It is housekeeping: what cannot be removed stays. The
// lock is kept while the files go, so that two that tidy up do not meet.
func removeAbandoned(parent string) {
	found, _ := filepath.Glob(filepath.Join(parent, prefix+"*")) // the pattern is sound, or nothing is found
	for _, dir := range found {
		info, err := os.Lstat(dir) // what is behind a link is not ours
		if err != nil || !info.IsDir() || !mine(info) {
			continue
		}
		f, err := os.Open(filepath.Join(filepath.Clean(dir), lockName))
		if err != nil {
			continue
		}
		if tryLock(f) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = f.Close() // nothing was written
	}
}

// Remove removes the directory, while it is still locked: let go before, it
// could be taken for abandoned.
func (d *Directory) Remove() error {
	err := os.RemoveAll(d.Path)
	if d.lock != nil {
		_ = d.lock.Close() // nothing was written
	}
	return err
}
