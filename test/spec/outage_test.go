package spec_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// A bucket that is deleted under its elections is noticed and told of; the
// elections wait for it.
func TestDeletedBucketIsToldOfAndAwaited(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	admin := srv.Connect(t)
	ensure(t, admin, "b")
	g := newGroup(t, "b")
	a := g.join(srv.Connect(t), "a", ttl(short))
	a.leads()
	b := g.join(srv.Connect(t), "b", ttl(short))
	g.await("b hears who leads", func() bool { return b.LeaderID() != "" })
	_, _, term := g.leading() // b by now, if the machine stalled for a's lease
	if err := natslab.JetStream(t, admin).DeleteKeyValue(within(t), "b"); err != nil {
		t.Fatal(err)
	}
	g.await("the term ends", func() bool { return g.leader() == nil })
	for _, m := range []*member{a, b} {
		g.await(m.id+" says what is wrong", func() bool {
			err := m.Status().LastError
			return errors.Is(err, store.ErrPermanent) && strings.Contains(err.Error(), "leader bucket create --bucket b")
		})
	}
	if l := g.leader(); l != nil {
		t.Errorf("%s leads without a bucket", l.id)
	}
	ensure(t, admin, "b")
	g.leaderAfter(term)
}

// A leader that has lost its connection stops after the grace, and before its
// lease is over for the others.
func TestLeaderWithoutAConnectionIsDemotedAfterTheGrace(t *testing.T) {
	t.Parallel()
	srv := natslab.Start(t)
	ensure(t, srv.Connect(t), "b")
	proxy := natslab.NewProxy(t, srv.Addr())
	g := newGroup(t, "b")
	grace := func(c *leader.ElectionConfig) { c.DisconnectGracePeriod = 200 * time.Millisecond }
	a := g.join(natslab.Connect(t, proxy.URL()), "a", grace)
	a.leads()
	if s := a.Status().ConnectionStatus; s != "CONNECTED" {
		t.Errorf("connection %s", s)
	}
	proxy.Cut()
	g.await("a is demoted", func() bool { return len(a.lost()) > 0 })
	if why, s := a.lost()[0], a.Status().ConnectionStatus; why != leader.ReasonDisconnected || s != "DISCONNECTED" {
		t.Errorf("demoted by %q, connection %s", why, s)
	}
	proxy.Resume()
	a.leads()
}
