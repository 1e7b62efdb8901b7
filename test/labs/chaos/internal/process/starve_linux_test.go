package process

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/candidate"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A process that is pinned beside busy loops waits, in all its threads, and is
// free again afterwards.
func TestAProcessCanBeStarved(t *testing.T) {
	p, err := Build(t.Context(), t.TempDir(), nil, errors.New("it takes long to build others"))
	if err != nil {
		t.Fatal(err)
	}
	l := NewLauncher(p.Binary)
	defer close(l.work)
	before, all, err := Affinity()
	if err != nil {
		t.Fatal(err)
	}
	victim := &Process{cmd: exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")}
	if err := l.start(victim.cmd); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = victim.cmd.Process.Kill()
		_ = victim.cmd.Wait()
	}()
	end, err := l.Spin(candidate.Load{Threads: 16, CPU: all[0]})
	if err != nil {
		t.Fatal(err)
	}
	defer end()

	var one unix.CPUSet
	one.Set(all[0])
	begun := victim.Waited()
	if err := victim.Pin(&one); err != nil {
		t.Fatal(err)
	}
	confined(t, victim, 1)
	natslab.Await(natslab.Within(t), t, "it waits for its processor", nil,
		func() bool { return victim.Waited() > begun+200*time.Millisecond }, func() string { return victim.Waited().String() })
	if err := victim.Pin(before); err != nil {
		t.Fatal(err)
	}
	confined(t, victim, len(all))
}

// confined fails the test unless each thread may run on so many processors.
func confined(t *testing.T, p *Process, want int) {
	t.Helper()
	err := p.threads(func(tid int) error {
		var set unix.CPUSet
		err := unix.SchedGetaffinity(tid, &set)
		if err == nil && set.Count() != want {
			t.Errorf("thread %d may run on %d processors, not %d", tid, set.Count(), want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
