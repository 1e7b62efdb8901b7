//go:build windows

package demo

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// canFreeze: there is no SIGSTOP here; a cut network replaces the freeze.
const canFreeze = false

// detach keeps the console's signals from a worker: an interrupt is the demo's
// to handle.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// freeze is not called here: see canFreeze.
func freeze(*os.Process) error { return errors.ErrUnsupported }

// thaw is not called here either.
func thaw(*os.Process) error { return nil }

// pinned has nothing to keep here.
func pinned() (unpin func()) { return func() {} }
