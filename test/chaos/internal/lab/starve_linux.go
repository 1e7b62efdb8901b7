package lab

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

	"github.com/seed-ff2cb582/leader/test/chaos/internal/candidate"
)

// rivals is how many busy loops a starved process shares a processor with. They
// and it are of equal priority, for which nobody needs a right.
const rivals = 16

var starvingKinds = []kind{
	{"throttle", "the process runs for a tenth of the time only (SIGSTOP and SIGCONT, in turns of 20 to 200 ms)", false, everywhere, atSeat(func(r *round, s *seat, f fault) {
		p, rng := s.process(), f.rng()
		for end := time.Now().Add(2 * f.length); time.Now().Before(end) && r.ctx.Err() == nil; {
			turn := between(rng, 20*time.Millisecond, 200*time.Millisecond)
			p.signal(unix.SIGSTOP)
			r.sleep(turn * 9 / 10)
			p.signal(unix.SIGCONT)
			r.sleep(turn / 10)
		}
	})},
	{"starve", fmt.Sprintf("the process shares one processor with %d busy loops", rivals), false, everywhere, atSeat(starve)},
}

// starve has a candidate compete for a processor for twice the fault's length.
// It counts only if the process was ready to run, and waited for the processor,
// for a tenth of that.
func starve(r *round, s *seat, f fault) {
	p := s.process()
	before, all, err := affinity()
	r.check(err)
	load := candidate.Load{Threads: rivals, CPU: all[f.rng().IntN(len(all))]}
	end, err := r.launch.spin(load)
	r.check(err)
	defer end()
	var one unix.CPUSet
	one.Set(load.CPU)
	begun := p.waited()
	r.check(p.pin(&one))
	r.sleep(2 * f.length)
	waited := p.waited() - begun
	r.check(p.pin(before))
	if enough := f.length / 5; waited < enough && p.alive() && r.ctx.Err() == nil {
		r.Fatalf("a process that was to starve waited for its processor for %v, less than %v", waited, enough)
	}
}

// affinity returns on which processors the lab may run.
func affinity() (set *unix.CPUSet, all []int, err error) {
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

// spin starts a process of busy loops, and returns when they run. end ends it.
func (l *launcher) spin(load candidate.Load) (end func(), err error) {
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
func (p *process) threads(do func(tid int) error) error {
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

// pin confines the process to processors.
func (p *process) pin(to *unix.CPUSet) error {
	return p.threads(func(tid int) error { return unix.SchedSetaffinity(tid, to) })
}

// waited returns for how long the process's threads were ready to run and
// waited for a processor, as the kernel counts it.
func (p *process) waited() (sum time.Duration) {
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
