package candidate

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Starve is the argument by which the program is busy loops, and no candidate.
const Starve = "starve"

// A Load configures a process of busy loops, in one line of JSON.
type Load struct {
	Threads int
	CPU     int // on which all of them run
}

// Spin keeps a processor busy until the input ends. It writes a line when all
// threads run.
func Spin(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	var load Load
	if err := json.NewDecoder(lines).Decode(&load); err != nil {
		return fmt.Errorf("what to keep busy: %w", err)
	}
	var cpu unix.CPUSet
	cpu.Set(load.CPU)
	runtime.GOMAXPROCS(load.Threads + 1)
	ready := make(chan error)
	for range load.Threads {
		go func() {
			runtime.LockOSThread()
			ready <- unix.SchedSetaffinity(0, &cpu)
			for n := 0; ; n++ { // a busy loop is the point
			}
		}()
	}
	for range load.Threads {
		if err := <-ready; err != nil {
			return os.NewSyscallError("sched_setaffinity", err)
		}
	}
	if _, err := fmt.Fprintln(out, "busy"); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}
