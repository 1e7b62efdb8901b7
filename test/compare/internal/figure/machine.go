package figure

import (
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/internal/reporting"
)

// ThisMachine describes where this process runs.
func ThisMachine() Machine {
	return Machine{
		CPU: reporting.CPU(), Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: strings.TrimPrefix(runtime.Version(), "go"),
		Load: reporting.Load(), Nice: nice(),
	}
}

// nice is the priority of this process, which those that it starts inherit.
func nice() int {
	p, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	return 20 - p // the kernel does not return negative numbers
}
