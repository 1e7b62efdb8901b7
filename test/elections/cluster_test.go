package elections_test

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/natsstore"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

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
	b.hears()
	old, losses, first := g.leading() // b by now, if the machine stalled for a's lease
	cluster.Nodes[0].Stop()
	cluster.Nodes[1].Stop()
	g.await("nobody leads", func() bool { return !a.IsLeader() && !b.IsLeader() })
	g.await(old.id+"'s term ends", func() bool { return old.losses() > losses })
	g.await(old.id+" is notified", func() bool { return !strings.HasSuffix(old.told(), "promote") })
	cluster.Nodes[0].Run()
	cluster.Nodes[1].Run()
	if again := g.leader().Term(); !again.Supersedes(first) {
		t.Errorf("term %v after %v", again, first)
	}
}

func TestElectionRunsInAJetStreamDomain(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t, natslab.Domain("hub"))
	g := newGroup(t, "b")
	hub := func(c *leader.ElectionConfig) { c.JetStreamDomain = "hub" }
	a := g.join(srv.Connect(t), "a", hub)
	g.leader()
	b := g.join(srv.Connect(t), "b", hub)
	b.follows(a)
	a.resign()
	g.await("b leads", b.IsLeader)
}
