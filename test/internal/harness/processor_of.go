package harness

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat.
const tick = 10 * time.Millisecond

// ProcessorOf returns the processor time that a process has used since it
// began, in user mode and in the kernel, and whether this system reports it.
func ProcessorOf(pid int) (used time.Duration, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The second field is a name in parentheses, which may have spaces in it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.Atoi(fields[11])
	kernel, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+kernel) * tick, err1 == nil && err2 == nil
}
