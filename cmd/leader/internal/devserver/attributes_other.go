//go:build !unix

package devserver

import "syscall"

// attributes are the usual ones.
func attributes(syscall.Signal, *user) *syscall.SysProcAttr { return nil }
