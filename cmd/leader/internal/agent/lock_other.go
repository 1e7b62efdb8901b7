//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package agent

import "os"

// tryLock locks nothing: of two agents that begin at one instant on one socket,
// both may believe that they listen.
func tryLock(*os.File) (ok bool, err error) { return true, nil }

// deserted takes every error for the word that nobody listens.
func deserted(error) bool { return true }
