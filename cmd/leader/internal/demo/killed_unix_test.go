//go:build unix

package demo

import (
	"os/exec"
	"testing"
)

// Who kills a worker from another terminal crashes the leader, but for one that
// another has followed already, whose own word of that has not come.
func TestAWorkerThatIsKilledElsewhereIsACrashIfItLeads(t *testing.T) {
	r := rehearse(1, 3)
	defer close(r.done) // nobody takes their places
	for i, term := range []uint64{5, 6} {
		p := r.processes[i]
		p.cmd = exec.CommandContext(t.Context(), "sh", "-c", "kill -KILL $$")
		if p.cmd.Run() == nil || p.failed() {
			t.Fatalf("%v was not killed", p.cmd)
		}
		for _, said := range reportsOf(truth{term: term, from: r.clock, to: r.clock + 1})[:3] {
			r.report(p, said)
		}
	}
	r.ended(r.processes[0], nil)
	if r.open() {
		t.Errorf("it hit %s, which another had followed", r.trials[0].Worker)
	}
	r.ended(r.processes[1], nil)
	if !r.open() || len(r.trials) != 1 || r.trials[0].Worker != "w2" || r.trials[0].Fault != Crash {
		t.Errorf("of a crash of w2: %+v", r.trials)
	}
}
