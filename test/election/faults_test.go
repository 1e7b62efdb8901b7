package election_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// handover has the leader resign and waits for the other: whoever has gone deaf
// in an interruption does not pass.
func (g *group) handover(from, to *member) {
	g.tb.Helper()
	to.follows(from)
	from.resign()
	g.await(to.id+" leads", to.IsLeader)
}

func TestTermOutlivesAServerRestart(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a")
	g.leader()
	b := g.join(srv.Connect(t), "b")
	b.follows(a)
	term := a.Term()
	renewals := a.count("renew ok")
	srv.Restart()
	g.await("a renews after the restart", func() bool { return a.count("renew ok") > renewals })
	if a.Term() != term {
		t.Errorf("term %v, was %v", a.Term(), term)
	}
	g.handover(a, b)
	g.handover(b, a)
}

func TestOutageLongerThanTheLeaseEndsTheTermAndStrandsNobody(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a", ttl(short))
	g.leader()
	b := g.join(srv.Connect(t), "b", ttl(short))
	g.await("b hears who leads", func() bool { return b.LeaderID() != "" })
	first := g.leader().Term()
	srv.Stop()
	for _, m := range []*member{a, b} {
		g.await(m.id+" is demoted, if it led", func() bool { return !strings.HasSuffix(m.told(), "promote") })
	}
	if a.IsLeader() || b.IsLeader() {
		t.Error("somebody leads without a server")
	}
	srv.Run()
	if again := g.leader().Term(); !again.Supersedes(first) {
		t.Errorf("term %v after %v", again, first)
	}
}

func TestTermOutlivesLostConnections(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a")
	g.leader()
	b := g.join(srv.Connect(t), "b")
	b.follows(a)
	term := a.Term()
	for range 3 {
		renewals := a.count("renew ok")
		srv.DropClients()
		g.await("a renews", func() bool { return a.count("renew ok") > renewals })
	}
	if a.Term() != term {
		t.Errorf("term %v, was %v", a.Term(), term)
	}
	g.handover(a, b)
}

// The caller's connection may keep what is published while it is down, and send
// it after reconnecting. Nothing of that may make or depose a leader.
func TestReconnectBufferMakesNoLeader(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxy := natslab.NewProxy(t, srv.Addr())
	buffered := natslab.Connect(t, proxy.URL(), nats.ReconnectBufSize(8<<20))
	g := newGroup(t, "b")
	a := g.join(buffered, "a", ttl(short))
	g.leader()
	b := g.join(srv.Connect(t), "b", ttl(short))
	g.await("b hears who leads", func() bool { return b.LeaderID() != "" })
	for range 3 {
		old := g.leader()
		proxy.Hold(natslab.ToServer) // the client still believes in its connection
		if old == a {
			g.await("b leads", b.IsLeader)
		}
		proxy.Cut()
		proxy.Resume()
		g.await("a is connected", func() bool { return a.Status().ConnectionStatus == "CONNECTED" })
		g.await("somebody leads", func() bool { return a.IsLeader() || b.IsLeader() })
		if b.IsLeader() {
			g.await("a follows", func() bool { return a.LeaderID() == "b" || a.IsLeader() })
			a.succeed()
		}
	}
}

func TestElectionsInACluster(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartCluster(t, 3)
	ensure(t, cluster.Connect(t), natsstore.BucketConfig{Bucket: "b"})
	admin := cluster.Connect(t)
	g := newGroup(t, "b")
	// An answer that a node took with it is not waited for until half of the
	// lease has passed.
	impatient := func(c *leader.ElectionConfig) { c.ConnectionTimeout = long / 24 }
	a := g.join(cluster.Connect(t), "a", impatient)
	g.leader()
	b := g.join(cluster.Connect(t), "b", impatient)
	b.follows(a)

	t.Run("TermOutlivesAStepDownOfTheStreamLeader", func(t *testing.T) {
		term, renewals := a.Term(), a.count("renew ok")
		cluster.StepDownStreamLeader(admin, "KV_b")
		g.await("a renews", func() bool { return a.count("renew ok") > renewals })
		if a.Term() != term {
			t.Errorf("term %v, was %v", a.Term(), term)
		}
		g.handover(a, b)
		g.handover(b, a)
	})

	t.Run("TermOutlivesTheStreamLeadersNode", func(t *testing.T) {
		node := cluster.StreamLeader("KV_b")
		term, renewals := a.Term(), a.count("renew ok")
		node.Stop()
		g.await("a renews", func() bool { return a.count("renew ok") > renewals })
		if a.Term() != term {
			t.Errorf("term %v, was %v", a.Term(), term)
		}
		g.handover(a, b)
		node.Run()
		cluster.AwaitReady()
		g.handover(b, a)
	})

	t.Run("TermOutlivesARollingRestart", func(t *testing.T) {
		term := a.Term()
		for _, node := range cluster.Nodes {
			renewals := a.count("renew ok")
			node.Restart()
			cluster.AwaitReady()
			g.await("a renews", func() bool { return a.count("renew ok") > renewals })
		}
		if a.Term() != term {
			t.Errorf("term %v, was %v", a.Term(), term)
		}
		g.handover(a, b)
	})
}

func TestClusterThatLosesItsMajorityElectsNobodyUntilItIsBack(t *testing.T) {
	t.Parallel()
	cluster := natslab.StartCluster(t, 3)
	ensure(t, cluster.Connect(t), natsstore.BucketConfig{Bucket: "b"})
	g := newGroup(t, "b")
	a := g.join(cluster.Connect(t), "a", ttl(short))
	g.leader()
	b := g.join(cluster.Connect(t), "b", ttl(short))
	b.follows(a)
	first := a.Term()
	cluster.Nodes[0].Stop()
	cluster.Nodes[1].Stop()
	g.await("nobody leads", func() bool { return !a.IsLeader() && !b.IsLeader() })
	if a.told() == "promote" {
		g.await("a is told", func() bool { return a.told() != "promote" })
	}
	cluster.Nodes[0].Run()
	cluster.Nodes[1].Run()
	if again := g.leader().Term(); !again.Supersedes(first) {
		t.Errorf("term %v after %v", again, first)
	}
}

func TestTermsGrowAcrossADeletedBucket(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	admin := natslab.JetStream(t, srv.Connect(t))
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a", ttl(short))
	g.leader()
	b := g.join(srv.Connect(t), "b", ttl(short))
	b.follows(a)
	for range 3 {
		before := g.leader().Term()
		if err := admin.DeleteKeyValue(natslab.Within(t), "b"); err != nil {
			t.Fatal(err)
		}
		g.await("a leader of a later term", func() bool {
			return a.Term().Number > before.Number || b.Term().Number > before.Number
		})
	}
	// Nobody has gone deaf.
	from := g.leader()
	to := a
	if from == a {
		to = b
	}
	g.handover(from, to)
}
