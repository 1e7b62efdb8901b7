//go:build !unix

package databases

import "syscall"

func dropsPrivileges() bool { return false }

func unprivileged() *syscall.SysProcAttr { return nil }

func own(string) error { return nil }
