package candidate

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
)

// vitals collects garbage, and reports the resources that the process uses.
func vitals() history.Vitals {
	debug.FreeOSMemory() // a full collection
	runtime.GC()         // what finalizers let go
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	v := history.Vitals{HeapBytes: int64(heap[0].Value.Uint64()), Goroutines: int64(runtime.NumGoroutine())}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		v.Descriptors = int64(len(entries))
	}
	return v
}

// leaveTime is how long the library's goroutines may take to be gone after
// Stop: no more than it takes the scheduler to run them to their last
// instruction, on the busiest machine.
const leaveTime = 10 * time.Second

// leftovers returns the stacks of the library's goroutines that do not end.
func leftovers() []string {
	deadline := time.Now().Add(leaveTime)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		left := ours()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		<-tick.C
	}
}

// ours returns the stacks in which the library occurs.
func ours() (stacks []string) {
	buf := make([]byte, 16<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if isOurs(stack) {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// isOurs reports whether a goroutine runs, or was started by, the library.
func isOurs(stack string) bool {
	const root = "github.com/seed-ff2cb582/leader"
	for _, part := range []string{".", "/store/", "/internal/"} {
		if strings.Contains(stack, root+part) {
			return true
		}
	}
	return false
}
