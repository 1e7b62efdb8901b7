//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package tempdir

import (
	"os"
	"syscall"
)

// tryLock locks an open file, unless another process has. A process that
// inherits the file holds the lock with this one. Unlike locks of fcntl it
// belongs to the open file, and so outlives a process that has started another
// with it.
func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// mine reports whether a directory is of the user of this process.
func mine(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}
