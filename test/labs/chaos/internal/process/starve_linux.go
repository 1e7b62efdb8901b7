package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/candidate"
)

// Affinity returns on which processors the lab may run.
func Affinity() (set *unix.CPUSet, all []int, err error) {
	set = new(unix.CPUSet)
	if err := unix.SchedGetaffinity(0, set); err != nil {
		return nil, nil, os.NewSyscallError("sched_getaffinity", err)
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return set, all, nil
}

// Spin starts a process of busy loops, and returns when they run. end ends it.
func (l *Launcher) Spin(load candidate.Load) (end func(), err error) {
	cmd := exec.Command(l.binary, candidate.Starve)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := l.start(cmd); err != nil {
		return nil, err
	}
	end = func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
	}
	err = json.NewEncoder(in).Encode(load)
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("busy loops: %w", err)
	}
	return end, nil
}

// threads calls do for each thread of the process, until it meets none that is
// new: a thread begins with what the one that made it has.
func (p *Process) threads(do func(tid int) error) error {
	seen := map[string]bool{}
	for fresh := true; fresh; {
		fresh = false
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.cmd.Process.Pid))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it has ended
		}
		if err != nil {
			return err
		}
		for _, task := range tasks {
			if seen[task.Name()] {
				continue
			}
			seen[task.Name()], fresh = true, true
			tid, err := strconv.Atoi(task.Name())
			if err == nil {
				err = do(tid)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Pin confines the process to processors.
func (p *Process) Pin(to *unix.CPUSet) error {
	return p.threads(func(tid int) error { return unix.SchedSetaffinity(tid, to) })
}

// Waited returns for how long the process's threads were ready to run and
// waited for a processor, as the kernel counts it.
func (p *Process) Waited() (sum time.Duration) {
	_ = p.threads(func(tid int) error { // a process that has ended waits no more
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", p.cmd.Process.Pid, tid))
		if fields := strings.Fields(string(stat)); err == nil && len(fields) > 1 {
			ns, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += time.Duration(ns)
		}
		return err
	})
	return sum
}
