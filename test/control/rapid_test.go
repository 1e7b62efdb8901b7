package control_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/test/natslab"
)

// Each leader is asked as soon as it is seen, often before the one before it
// has heard that its own release was written. Who then sees the vacancy of the
// next, and never its record, has been succeeded all the same.
func TestStepDownsInARowCostNoLease(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	for _, id := range []string{"a", "b"} {
		awaitLeader(t, start(t, srv.Connect(t), id))
	}
	c := control(t, srv.Connect(t))
	for i := range 200 {
		// A lease that has to run out costs more than within has.
		if h, err := c.StepDown(natslab.Within(t), group, ""); err != nil {
			t.Fatalf("step-down %d: %v: %+v", i, err, h)
		}
	}
}
