package elections_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// In a cluster the reads of an operator may come from a replica that lags.
func TestTransferInAClusterReachesEachSuccessor(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartCluster(t, 3)
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		awaitLeader(t, stand(t, cluster.Connect(t), id))
	}
	c := control(t, cluster.Connect(t))
	for i := range 6 {
		to := ids[(i+1)%3]
		ctx := natslab.Within(t)
		h, err := c.Transfer(ctx, jobs, to, "round")
		// Replicas that lag may still show the vacancy before the present
		// term, or the term before, to the read and to the watch.
		for !h.Filed && (errors.Is(err, leader.ErrNoLeader) || errors.Is(err, leader.ErrTermOver)) && ctx.Err() == nil {
			h, err = c.Transfer(ctx, jobs, to, "round")
		}
		if err != nil || h.To.ID != to {
			t.Fatalf("to %s: %v: %+v", to, err, h)
		}
	}
}

func TestPauseOutlivesTheRestartOfServersAndCandidates(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	a := stand(t, srv.Connect(t), "a")
	awaitLeader(t, a)
	h, err := control(t, srv.Connect(t)).Pause(natslab.Within(t), jobs, "migration")
	if err != nil || h.From.ID != "a" || a.IsLeader() {
		t.Fatalf("%v: %+v", err, h)
	}
	_ = a.Stop()
	srv.Restart()
	a, b := stand(t, srv.Connect(t), "a"), stand(t, srv.Connect(t), "b")
	awaitBarred(t, a)
	awaitBarred(t, b)
	c := control(t, srv.Connect(t))
	s, err := c.State(natslab.Within(t), jobs)
	if err != nil || !s.Paused || s.PausedBy != "ann" || s.PausedWhy != "migration" || s.Leader.ID != "" {
		t.Fatalf("%v: %+v", err, s)
	}
	if s.Leader.Reason != leader.ReasonPaused || s.Leader.By != "ann" || s.Leader.Why != "migration" {
		t.Errorf("the vacancy is %+v", s.Leader)
	}
	if h, err = c.Resume(natslab.Within(t), jobs); err != nil || h.To.ID == "" {
		t.Fatalf("%v: %+v", err, h)
	}
	awaitLeader(t, b)
}

// awaitBarred waits until a candidate knows that the group is paused.
func awaitBarred(t *testing.T, e leader.Election) {
	t.Helper()
	natslab.Eventually(t, "the candidate knows of the pause", func(context.Context) error {
		if s := e.Status(); s.Barred != leader.ReasonPaused || s.IsLeader {
			return errors.New(s.State)
		}
		return nil
	})
}

// Each leader is asked as soon as it is seen, often before its predecessor
// knows that its own release was written. A leader that then sees its
// successor's vacancy, and never its record, has been succeeded all the same.
func TestStepDownsInARowCostNoLease(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	for _, id := range []string{"a", "b"} {
		awaitLeader(t, stand(t, srv.Connect(t), id))
	}
	c := control(t, srv.Connect(t))
	for i := range 200 {
		// A lease that has to run out costs more than within has.
		if h, err := c.StepDown(natslab.Within(t), jobs, ""); err != nil {
			t.Fatalf("step-down %d: %v: %+v", i, err, h)
		}
	}
}
