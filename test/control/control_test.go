package control_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// start starts a candidate of group "jobs/eu.west", whose TTL no test waits
// for. An answer that a server took with it is given up long before.
func start(t *testing.T, nc *nats.Conn, id string) leader.Election {
	t.Helper()
	e, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: "leaders", Group: "jobs/eu.west", InstanceID: id, Address: "http://" + id,
		TTL: 2 * time.Minute, HeartbeatInterval: time.Second, ConnectionTimeout: 5 * time.Second, BucketAutoCreate: true, DeleteOnStop: true,
		AcquireGrace: leader.GraceOff,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() })
	return e
}

// awaitLeader waits until e sees a leader, and returns its InstanceID.
func awaitLeader(t *testing.T, e leader.Election) string {
	t.Helper()
	for info := range e.Observe(natslab.Within(t)) {
		if info.ID != "" {
			return info.ID
		}
	}
	t.Fatal("nobody leads")
	return ""
}

func control(t *testing.T, nc *nats.Conn) *leader.Control {
	t.Helper()
	c, err := leader.NewControl(nc, "leaders", "ann")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

const group = "jobs/eu.west"

// In a cluster the reads of an operator may come from a replica that lags.
func TestOperatorHandsOverToAndFro(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartCluster(t, 3)
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		awaitLeader(t, start(t, cluster.Connect(t), id))
	}
	c := control(t, cluster.Connect(t))
	for i := range 6 {
		to := ids[(i+1)%3]
		ctx := natslab.Within(t)
		h, err := c.Transfer(ctx, group, to, "round")
		// Replicas that lag may still show the vacancy before the present
		// term, or the term before, to the read and to the watch.
		for !h.Filed && (errors.Is(err, leader.ErrNoLeader) || errors.Is(err, leader.ErrTermOver)) && ctx.Err() == nil {
			h, err = c.Transfer(ctx, group, to, "round")
		}
		if err != nil || h.To.ID != to {
			t.Fatalf("to %s: %v: %+v", to, err, h)
		}
	}
}

func TestPauseOutlivesTheRestartOfEverything(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	a := start(t, srv.Connect(t), "a")
	awaitLeader(t, a)
	h, err := control(t, srv.Connect(t)).Pause(natslab.Within(t), group, "migration")
	if err != nil || h.From.ID != "a" || a.IsLeader() {
		t.Fatalf("%v: %+v", err, h)
	}
	_ = a.Stop()
	srv.Restart()
	a, b := start(t, srv.Connect(t), "a"), start(t, srv.Connect(t), "b")
	awaitBarred(t, a)
	awaitBarred(t, b)
	c := control(t, srv.Connect(t))
	s, err := c.State(natslab.Within(t), group)
	if err != nil || !s.Paused || s.PausedBy != "ann" || s.PausedWhy != "migration" || s.Leader.ID != "" {
		t.Fatalf("%v: %+v", err, s)
	}
	if s.Leader.Reason != leader.ReasonPaused || s.Leader.By != "ann" || s.Leader.Why != "migration" {
		t.Errorf("the vacancy says %+v", s.Leader)
	}
	if h, err = c.Resume(natslab.Within(t), group); err != nil || h.To.ID == "" {
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
