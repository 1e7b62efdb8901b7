package quorumstore

import (
	"testing"
	"time"
)

func TestPausesGrowAndDiffer(t *testing.T) {
	const trip, patience = 20 * time.Millisecond, 2 * time.Second
	for _, c := range []struct {
		waits  int
		random float64
		want   time.Duration
	}{
		{0, 0, trip},
		{0, 1, 3 * trip},
		{1, 0, 2 * trip},
		{3, 0.5, 16 * trip},
		{100, 0, patience / 3},
		{100, 1, patience},
	} {
		if got := pause(trip, c.waits, patience, c.random); (got - c.want).Abs() > time.Microsecond {
			t.Errorf("after %d waits, at random %v: %v, want %v", c.waits, c.random, got, c.want)
		}
	}
}
