//go:build !linux

package devserver

import "syscall"

// attributes are the usual ones.
func attributes() *syscall.SysProcAttr { return nil }
