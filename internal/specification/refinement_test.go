package specification

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
)

func TestEveryActOfTheCoreIsAllowedByTheSpecification(t *testing.T) {
	seeds, length := uint64(400), 20*time.Second
	if *large {
		seeds, length = 20_000, time.Minute
	}
	seen := map[string]int{}
	for seed := range seeds {
		l := newLab(seed, machine.Machine.Step)
		if err := l.run(length); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for what, n := range l.seen {
			seen[what] += n
		}
	}
	t.Logf("%d schedules of %v: %v", seeds, length, seen)
}
