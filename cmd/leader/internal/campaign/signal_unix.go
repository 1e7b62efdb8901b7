//go:build unix

package campaign

import (
	"os"
	"os/exec"
	"syscall"
)

// toggleSignal is what turns a healthy candidate into an unhealthy one, and
// back.
func toggleSignal() os.Signal { return syscall.SIGUSR1 }

// endTogether has a command be killed together with what it has started, but
// for what has left its process group.
func endTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		// Its number may be another's once it has been waited for.
		if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
			return err
		}
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
