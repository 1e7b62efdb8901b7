package harness

import (
	"runtime"

	"github.com/seed-ff2cb582/leader/test/internal/reporting"
)

// A Machine is where a run took place.
type Machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Go    string `json:"go"`
	Load  string `json:"load"` // average of a minute, before the run
}

// ThisMachine describes where this process runs.
func ThisMachine() Machine {
	return Machine{
		CPU: reporting.CPU(), Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Load: reporting.Load(),
	}
}
