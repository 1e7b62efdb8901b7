package control_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// onEach runs a test on one server and on a cluster of three.
func onEach(t *testing.T, test func(t *testing.T, connect func() *nats.Conn)) {
	t.Run("R1", func(t *testing.T) {
		t.Parallel()
		srv := natslab.Start(t)
		test(t, func() *nats.Conn { return srv.Connect(t) })
	})
	t.Run("R3", func(t *testing.T) {
		t.Parallel()
		cluster := natslab.StartCluster(t, 3)
		test(t, func() *nats.Conn { return cluster.Connect(t) })
	})
}

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

func TestOperatorStepsALeaderDownAndSeesTheNext(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, connect func() *nats.Conn) {
		a := start(t, connect(), "a")
		awaitLeader(t, a)
		b := start(t, connect(), "b")
		awaitLeader(t, b)
		c := control(t, connect())
		h, err := c.StepDown(natslab.Within(t), group, "new kernel")
		if err != nil {
			t.Fatalf("%v: %+v", err, h)
		}
		if h.From.ID != "a" || h.To.ID != "b" || h.To.Address != "http://b" || h.To.Term <= h.From.Term || h.Gap < 0 {
			t.Errorf("%+v", h)
		}
		// The watch is told of every state that the bucket stored.
		if !h.Obeyed || h.Vacancy.By != "ann" || h.Vacancy.Why != "new kernel" {
			t.Errorf("%+v", h.Vacancy)
		}
		t.Logf("the work stopped after %v, and nobody led for %v", h.Drain, h.Gap)
	})
}

func TestOperatorHandsOverToAndFro(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, connect func() *nats.Conn) {
		ids := []string{"a", "b", "c"}
		for _, id := range ids {
			awaitLeader(t, start(t, connect(), id))
		}
		c := control(t, connect())
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
	})
}

func TestPauseOutlivesTheRestartOfEverything(t *testing.T) {
	t.Parallel()
	for name, lab := range map[string]func(t *testing.T) (connect func() *nats.Conn, restart func()){
		"R1": func(t *testing.T) (func() *nats.Conn, func()) {
			srv := natslab.Start(t)
			return func() *nats.Conn { return srv.Connect(t) }, srv.Restart
		},
		"R3": func(t *testing.T) (func() *nats.Conn, func()) {
			cluster := natslab.StartCluster(t, 3)
			return func() *nats.Conn { return cluster.Connect(t) }, func() { restartAll(cluster) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connect, restart := lab(t)
			a := start(t, connect(), "a")
			awaitLeader(t, a)
			h, err := control(t, connect()).Pause(natslab.Within(t), group, "migration")
			if err != nil || h.From.ID != "a" || a.IsLeader() {
				t.Fatalf("%v: %+v", err, h)
			}
			_ = a.Stop()
			restart()
			a, b := start(t, connect(), "a"), start(t, connect(), "b")
			awaitBarred(t, a)
			awaitBarred(t, b)
			c := control(t, connect())
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
		})
	}
}

func restartAll(c *natslab.Cluster) {
	for _, s := range c.Nodes {
		s.Stop()
	}
	for _, s := range c.Nodes {
		s.Run()
	}
	c.AwaitReady()
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

func TestObserversOfAPausedGroupSayByWhomAndWhy(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, connect func() *nats.Conn) {
		awaitLeader(t, start(t, connect(), "a"))
		if _, err := control(t, connect()).Pause(natslab.Within(t), group, "migration"); err != nil {
			t.Fatal(err)
		}
		// Also one that comes late.
		for info, err := range leader.Observe(natslab.Within(t), connect(), "leaders", group) {
			if err != nil {
				t.Fatal(err)
			}
			if info.ID != "" || info.Reason != leader.ReasonPaused || info.By != "ann" || info.Why != "migration" {
				t.Errorf("%+v", info)
			}
			break
		}
	})
}

// The rights of the table in docs/operations.md.
func operator(lacks string) []string {
	var may []string
	for _, s := range []string{
		"$KV.leaders._ctl." + group, "$JS.API.DIRECT.GET.KV_leaders.$KV.leaders._ctl." + group,
		"$JS.API.DIRECT.GET.KV_leaders.$KV.leaders." + group,
	} {
		if s != lacks {
			may = append(may, s)
		}
	}
	return may
}

// lab starts a server on which candidates may do everything.
func lab(t *testing.T, may []string) (admin, ops func() *nats.Conn) {
	t.Helper()
	srv := natslab.Start(t, natslab.Users(natslab.Admin(), natslab.User("ops", may, []string{"_INBOX_ops.>"})))
	admin = func() *nats.Conn { return srv.Connect(t, nats.UserInfo("admin", "admin")) }
	ops = func() *nats.Conn {
		return srv.Connect(t, nats.UserInfo("ops", "ops"), nats.CustomInboxPrefix("_INBOX_ops"),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	}
	return admin, ops
}

func TestOperatorWithoutTheRightToWatchReads(t *testing.T) {
	t.Parallel()
	admin, ops := lab(t, operator(""))
	awaitLeader(t, start(t, admin(), "a"))
	awaitLeader(t, start(t, admin(), "b"))
	h, err := control(t, ops()).StepDown(natslab.Within(t), group, "")
	if err != nil || h.From.ID != "a" || h.To.ID != "b" {
		t.Errorf("%v: %+v", err, h)
	}
}

func TestMissingPermissionIsNamedAndNothingIsDone(t *testing.T) {
	t.Parallel()
	for _, missing := range operator("") {
		t.Run(missing, func(t *testing.T) {
			admin, ops := lab(t, operator(missing))
			a := start(t, admin(), "a")
			awaitLeader(t, a)
			term := a.Term()
			h, err := control(t, ops()).StepDown(natslab.Within(t), group, "")
			if !errors.Is(err, store.ErrPermanent) || !strings.Contains(err.Error(), missing) {
				t.Errorf("%v: %+v", err, h)
			}
			if a.Term() != term {
				t.Errorf("the leader left: %+v", a.Status())
			}
		})
	}
}

func TestMissingBucketIsSaid(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	_, err := control(t, srv.Connect(t)).StepDown(natslab.Within(t), group, "")
	if !errors.Is(err, store.ErrPermanent) {
		t.Error(err)
	}
}

func TestNewControlRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, try := range []func() (*leader.Control, error){
		func() (*leader.Control, error) { return leader.NewControl(nil, "leaders", "ann") },
		func() (*leader.Control, error) { return leader.NewControl(&nats.Conn{}, "a.b", "ann") },
	} {
		if _, err := try(); !errors.Is(err, leader.ErrInvalidConfig) {
			t.Error(err)
		}
	}
}
