//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package agent

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// tryLock locks an open directory, unless another process has.
func tryLock(dir *os.File) (ok bool, err error) {
	err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// deserted reports whether the error of a connection says that nobody listens.
// That of one that listens and is busy is another.
func deserted(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}
