// Package tempdir makes temporary directories that do not outlast their
// process for long, even if it is killed.
package tempdir

import (
	"errors"
	"os"
	"path/filepath"
)

// lockName is the file in a directory that its process keeps locked. A program
// that the process has started with the file keeps it locked, too. The system
// releases the lock when both have ended, however they did.
const lockName = "lock"

// A Dir is a temporary directory that its user alone may enter.
type Dir struct {
	Path string
	Lock *os.File // nil where there are no locks
}

// New makes a directory whose name begins with the prefix, and removes those
// that killed processes of this user have left behind under such names: a
// killed process removes nothing, and nobody else would.
func New(prefix string) (*Dir, error) {
	removeAbandoned(os.TempDir(), prefix)
	path, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	lock, err := hold(path)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &Dir{path, lock}, nil
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
func removeAbandoned(parent, prefix string) {
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
func (d *Dir) Remove() error {
	err := os.RemoveAll(d.Path)
	if d.Lock != nil {
		_ = d.Lock.Close() // nothing was written
	}
	return err
}
