package redis_test

import (
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
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
	trial.FailoverThatForgets(t, trial.Failover{
		Before: func(tb testing.TB) store.Store {
			return over(tb, dial(tb, p.master.Addr()), redisstore.Options{Fenced: true})
		},
		After: func(tb testing.TB) store.Store {
			return over(tb, dial(tb, p.replica.Addr()), redisstore.Options{Fenced: true})
		},
		Part:   func() { p.link.Hold(natslab.ToServer, natslab.ToClient) },
		Happen: p.failOver,
	})
	p.master.Thaw() // so that a can be stopped
}
