//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package tempdir

import (
	"errors"
	"os"
)

// tryLock locks nothing: directories that are left behind stay here.
func tryLock(*os.File) error { return errors.ErrUnsupported }

// mine claims no directory: without locks nobody knows whether one is in use.
func mine(os.FileInfo) bool { return false }
