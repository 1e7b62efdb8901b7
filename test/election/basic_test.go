package election_test

import (
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestLeaderThatIsCutOffStopsBeforeItsSuccessorLeads(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxy := natslab.NewProxy(t, srv.Addr())
	cut, sound := natslab.Connect(t, proxy.URL()), srv.Connect(t)
	g := newGroup(t, "b")
	a := g.join(cut, "a", ttl(short))
	g.leader()
	b := g.join(sound, "b", ttl(short))
	a.succeed() // a stall may have ended its term meanwhile
	b.follows(a)
	first := a.Term()

	proxy.Hold(natslab.ToServer, natslab.ToClient)
	g.await("b leads", b.IsLeader)
	if a.IsLeader() {
		t.Error("a still leads")
	}
	g.await("a is told", func() bool { return strings.HasSuffix(a.told(), "promote demote") })
	if !b.Term().Supersedes(first) {
		t.Errorf("term %v after %v", b.Term(), first)
	}

	// What a wrote into the black hole arrives now, and must not depose b.
	proxy.Resume()
	a.follows(b)
}

func TestElectionInAJetStreamDomain(t *testing.T) {
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
