package round

import (
	"testing"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
)

// The lab would lose its hold on the margins if a rate left the drift, and with
// it the protocol's assumption A3.
func TestClocksStayWithinTheDriftOfTheCandidates(t *testing.T) {
	for _, rate := range []int{schedule.SlowClock, schedule.TrueClock, schedule.FastClock} {
		if r := float64(rate) / schedule.TrueClock; r <= 1-drift || r >= 1+drift {
			t.Errorf("a rate of %v", r)
		}
	}
}
