package figure

import (
	"context"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// A Machine is where the run took place.
type Machine struct {
	harness.Machine

	LoadEnd string `json:"load_end"` // the load average after the run
	Nice    int    `json:"nice"`     // with which the run was started, 0 usually
}

// ThisMachine describes where this process runs.
func ThisMachine() Machine {
	m := Machine{Machine: harness.ThisMachine(), Nice: nice()}
	m.Go = strings.TrimPrefix(m.Go, "go")
	return m
}

// nice is the priority of this process, which those that it starts inherit.
func nice() int {
	p, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	return 20 - p // the kernel does not return negative numbers
}

// Commit returns the commit of the repository in a directory, so that a page
// which is older than the code shows. It is empty where git does not know.
func Commit(ctx context.Context, dir string) string {
	git := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD")
	git.Dir = dir
	out, err := git.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
