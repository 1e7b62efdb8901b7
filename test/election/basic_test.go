package election_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestFirstCandidateLeadsAndTheOthersFollow(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a")
	if got := g.leader(); got != a {
		t.Fatalf("%s leads", got.id)
	}
	for i := range 3 {
		g.join(srv.Connect(t), fmt.Sprint("follower", i)).follows(a)
	}
	g.await("the promotion is told", func() bool { return a.told() == "promote" })
	s := a.Status()
	if s.State != leader.StateLeader || s.LeaderID != "a" || s.Token == "" || s.Term == 0 || s.ConnectionStatus != "CONNECTED" {
		t.Errorf("status of the leader: %+v", s)
	}
	if err := a.ValidateToken(natslab.Within(t)); err != nil {
		t.Errorf("validating the leader's token: %v", err)
	}
}

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

func TestLeaderWithoutAConnectionIsSucceeded(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	lost, sound := srv.Connect(t), srv.Connect(t)
	g := newGroup(t, "b")
	a := g.join(lost, "a", ttl(short))
	g.leader()
	b := g.join(sound, "b", ttl(short))
	a.succeed() // a stall may have ended its term meanwhile
	b.follows(a)
	lost.Close()
	g.await("b leads", b.IsLeader)
	if s := a.Status(); s.IsLeader || s.ConnectionStatus != "CLOSED" {
		t.Errorf("a, whose connection is closed: %+v", s)
	}
}

func TestReleaseHandsOverAtOnce(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	for name, release := range map[string]func(*member){
		"Stop":   func(m *member) { _ = m.Stop() },
		"Resign": (*member).resign,
		"Cancel": nil, // of the context given to Start
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, name)
			a := g.candidate(srv.Connect(t), "a")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := a.Start(ctx); err != nil {
				t.Fatal(err)
			}
			g.leader()
			b := g.join(srv.Connect(t), "b")
			b.follows(a)
			g.await("a's work has begun", func() bool { return a.told() == "promote" }) // a term that ends before has no OnDemote
			if release == nil {
				cancel()
			} else {
				release(a)
			}
			g.await("b leads, long before a's lease runs out", b.IsLeader)
			g.await("the callbacks are told", func() bool { return a.told() == "promote demote" && b.told() == "promote" })
		})
	}
}

// Handing over is fast enough for a successor's record to overtake the answer
// to the release, and so on: whatever arrives first, somebody leads long before
// a lease is over.
func TestLeadershipIsHandedToAndFro(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a")
	g.leader()
	b := g.join(srv.Connect(t), "b")
	for range 150 {
		g.handover(a, b)
		g.handover(b, a)
	}
}

func TestTransferReachesTheNamedSuccessor(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a")
	g.leader()
	for i := range 5 {
		g.join(srv.Connect(t), fmt.Sprint("other", i)).follows(a)
	}
	heir := g.join(srv.Connect(t), "heir")
	heir.follows(a)
	if err := a.Transfer(natslab.Within(t), "heir"); err != nil {
		t.Fatal(err)
	}
	if got := g.leader(); got != heir {
		t.Errorf("%s leads instead of the heir\n%s", got.id, g.report())
	}
	if why := a.lost(); why != leader.ReasonTransferred {
		t.Errorf("the reason is %q", why)
	}
	if err := a.Transfer(natslab.Within(t), "heir"); !errors.Is(err, leader.ErrNotLeader) {
		t.Errorf("a transfer by a follower: %v", err)
	}
}

func TestTransferToNobodyCostsAHeadStartOnly(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a")
	g.leader()
	b := g.join(srv.Connect(t), "b")
	b.follows(a)
	if err := a.Transfer(natslab.Within(t), "ghost"); err != nil {
		t.Fatal(err)
	}
	g.await("b leads", b.IsLeader)
}

func TestCrashedCandidateThatRestartsUnderItsNameWaitsForItsOldLease(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	proxy := natslab.NewProxy(t, srv.Addr())
	cut, sound := natslab.Connect(t, proxy.URL()), srv.Connect(t)
	g := newGroup(t, "b")
	old := g.join(cut, "a", ttl(short))
	g.leader()
	// The old incarnation cannot be told from a process that hangs, and goes on
	// leading for as long as it may: the new one must not count as the same.
	proxy.Hold(natslab.ToServer, natslab.ToClient)
	first := old.Term()
	again := g.join(sound, "a", ttl(short))
	g.await("the new incarnation leads", again.IsLeader)
	if second := again.Term(); second.Number <= first.Number || second.Token == first.Token {
		t.Errorf("term %v after %v", second, first)
	}
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

func TestObserverSeesEachChangeWithoutWriting(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	nc := srv.Connect(t)
	g := newGroup(t, "b")
	tag := func(c *leader.ElectionConfig) {
		c.Address, c.Meta, c.Priority = "10.0.0.1:80", map[string]string{"zone": "x"}, 7
	}
	a := g.join(srv.Connect(t), "a", tag)
	g.leader()
	b := g.join(srv.Connect(t), "b")
	b.follows(a)
	seen := make(chan leader.LeaderInfo)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	go func() {
		defer close(done)
		for info, err := range leader.Observe(ctx, nc, "b", "g") {
			if err != nil {
				t.Errorf("observing: %v", err)
			}
			select {
			case seen <- info:
			case <-ctx.Done():
			}
		}
	}()
	await := func(what string, ok func(leader.LeaderInfo) bool) leader.LeaderInfo {
		t.Helper()
		for limit := natslab.Within(t); ; {
			select {
			case info := <-seen:
				if ok(info) {
					return info
				}
			case <-limit.Done():
				t.Fatalf("the observer never saw %s", what)
			}
		}
	}
	info := await("a", func(i leader.LeaderInfo) bool { return i.ID == "a" })
	if info.Address != "10.0.0.1:80" || info.Meta["zone"] != "x" || info.Priority != 7 ||
		info.Term != a.Term().Number || !info.Until.After(time.Now()) {
		t.Errorf("what is seen of a: %+v", info)
	}
	before := nc.Stats().OutMsgs
	a.resign()
	await("b", func(i leader.LeaderInfo) bool { return i.ID == "b" })
	if after := nc.Stats().OutMsgs; after != before {
		t.Errorf("the observer sent %d messages", after-before)
	}
}

func TestObservingFromWithinAnElection(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a")
	g.leader()
	b := g.join(srv.Connect(t), "b")
	b.follows(a)
	ctx := natslab.Within(t)
	var ids []string
	for info := range b.Observe(ctx) {
		if info.ID == "" {
			continue // a slow reader may miss it
		}
		ids = append(ids, info.ID)
		if info.ID == "b" {
			break
		}
		a.resign()
	}
	if fmt.Sprint(ids) != "[a b]" {
		t.Errorf("leaders seen: %v", ids)
	}
}
