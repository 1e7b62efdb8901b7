package faults

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/candidate"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/process"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/round"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
)

// rivals is how many busy loops a starved process shares a processor with. They
// and it are of equal priority, for which nobody needs a right.
const rivals = 16

var starvingKinds = []kind{
	{at("throttle", "the process runs for a tenth of the time only (SIGSTOP and SIGCONT, in turns of 20 to 200 ms)"), atContender(func(r *round.Round, s *round.Contender, f schedule.Fault) {
		p, rng := s.Process(), f.RNG()
		for end := time.Now().Add(2 * f.Length); time.Now().Before(end) && !r.Done(); {
			turn := schedule.Between(rng, 20*time.Millisecond, 200*time.Millisecond)
			p.Signal(unix.SIGSTOP)
			r.Sleep(turn * 9 / 10)
			p.Signal(unix.SIGCONT)
			r.Sleep(turn / 10)
		}
	})},
	{at("starve", fmt.Sprintf("the process shares one processor with %d busy loops", rivals)), atContender(starve)},
}

// starve has a candidate compete for a processor for twice the fault's length.
// It counts only if the process was ready to run, and waited for the processor,
// for a tenth of that.
func starve(r *round.Round, s *round.Contender, f schedule.Fault) {
	p := s.Process()
	before, all, err := process.Affinity()
	r.Check(err)
	load := candidate.Load{Threads: rivals, CPU: all[f.RNG().IntN(len(all))]}
	end, err := r.Launcher.Spin(load)
	r.Check(err)
	defer end()
	var one unix.CPUSet
	one.Set(load.CPU)
	begun := p.Waited()
	r.Check(p.Pin(&one))
	r.Sleep(2 * f.Length)
	waited := p.Waited() - begun
	r.Check(p.Pin(before))
	if enough := f.Length / 5; waited < enough && p.Alive() && !r.Done() {
		r.Fatalf("a process that was to starve waited for its processor for %v, less than %v", waited, enough)
	}
}
