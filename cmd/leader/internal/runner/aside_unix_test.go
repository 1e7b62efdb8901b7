//go:build unix

package runner

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
)

// What a guard that was killed has left is ended, and not the program by which
// a store's client gets its credentials: the term's release needs those.
func TestWhatALibraryStartsIsNoneOfTheProgram(t *testing.T) {
	r := &runner{shells: make(map[int]struct{}), session: new(app.Session)}
	for library, attr := range map[bool]*syscall.SysProcAttr{true: nil, false: {Setsid: true}} {
		cmd := exec.CommandContext(t.Context(), "cat")
		cmd.SysProcAttr = attr
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := r.aside(cmd.Process.Pid); got != library {
			t.Errorf("started by a library: %t, left alone: %t", library, got)
		}
		_ = in.Close()
		_ = cmd.Wait() // it ends with its input
	}
}
