//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// tryLock locks a path, unless another process has: unlock is nil then. The
// lock is a file beside the path that its owner alone may open. Any user who may
// open a file may lock it, and so keep the agent from starting.
//
// The file is removed with the lock. So one that is locked counts only if it
// still has its name, or two agents could lock two files of one name.
func tryLock(path string) (unlock func(), err error) {
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && named(f, name) {
		return func() {
			_ = os.Remove(name)
			_ = f.Close() // which unlocks it
		}, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return nil, errors.Join(err, f.Close())
}

// named reports whether the name refers to the open file.
func named(f *os.File, name string) bool {
	own, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(name)
	return err == nil && os.SameFile(own, now)
}

// deserted reports whether the error of a connection means that nobody listens.
// A busy listener causes another error.
func deserted(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}
