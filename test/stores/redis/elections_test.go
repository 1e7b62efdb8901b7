package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
	"github.com/seed-ff2cb582/leader/test/databases"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestElections(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	elections.Run(t, elections.Harness{
		Open:   func(t testing.TB) store.Store { return over(t, dial(t, srv.Addr()), redisstore.Options{}) },
		Delete: func(key string) error { _, err := srv.Say("DEL", "leader:"+key); return err },
	})
}

// TestCoolDownSurvivesAFailoverThatLosesTheLeader: the replica that is promoted
// has never heard of the leader, and nor has the candidate that starts there.
func TestCoolDownSurvivesAFailoverThatLosesTheLeader(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	watch := lookout.Keep(t)
	join := func(id string, srv *databases.Redis) leader.Election {
		e, err := leader.NewElectionWithStore(over(t, dial(t, srv.Addr()), redisstore.Options{}), leader.ElectionConfig{
			Group: "reports", InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: 300 * time.Millisecond,
			Hooks: leader.Hooks{Transition: func(leader.Transition) { watch.Look() }},
		})
		if err != nil {
			t.Fatal(err)
		}
		watch.Add(id, e)
		if err := e.Start(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Stop() })
		return e
	}
	p.link.Hold(natslab.ToServer, natslab.ToClient)
	a := join("a", p.master)
	trial.Await(t, "a leads", a.IsLeader)
	first := a.Term()
	p.failOver()
	next := over(t, dial(t, p.replica.Addr()), redisstore.Options{})
	if e := trial.Get(t, next, "reports"); e.Revision != 0 || !a.IsLeader() {
		t.Fatalf("a leads: %t, and the promoted replica knows %+v", a.IsLeader(), e)
	}
	b := join("b", p.replica)
	trial.Await(t, "b leads", b.IsLeader)
	if !b.Term().Supersedes(first) {
		t.Errorf("term %v after %v", b.Term(), first)
	}
	p.master.Thaw() // so that a can be stopped
}
