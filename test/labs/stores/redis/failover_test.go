package redis_test

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

// A store that waits for the only replica loses no acknowledged write, and none
// that was read, when that takes the master's place.
func TestRedisIsLinearizableAcrossFailovers(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ways := trial.NewWays(t, 4, p.master.Addr())
	spoiled := ways[:len(ways)-1]
	trial.HistoryWithFaults(t, judge, trial.Faulted{
		Stores: ways.Stores(func(addr string) store.Store { return over(t, dial(t, addr), redisstore.Options{Wait: 1}) }),
		Keys:   8,
		Rounds: 3,
		Faults: append(trial.Spoil(spoiled...), []trial.Fault{
			{Name: "failover", Happen: func(r *rand.Rand) { p.succeed(r, ways) }},
			{Name: "the master is frozen", Happen: func(r *rand.Rand) { p.master.Freeze(); trial.Last(r, 600); p.master.Thaw() }},
			{Name: "the replica is frozen", Happen: func(r *rand.Rand) { p.replica.Freeze(); trial.Last(r, 600); p.replica.Thaw() }},
		}...),
	})
}
