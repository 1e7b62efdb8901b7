package redis_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/redisstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/databases"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// judge takes conflicts into the order: there is one server, whose reads and
// writes are in one order.
var judge = histories.Judge{CurrentConflicts: true}

func TestRedisIsLinearizable(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	trial.Histories(t, judge, 4, func(side int) (stores []store.Store) {
		for range 4 {
			stores = append(stores, over(t, dial(t, srv.Addr()), redisstore.Options{Prefix: fmt.Sprintf("side%d:", side)}))
		}
		return stores
	})
}

func TestRedisIsLinearizableUnderFaults(t *testing.T) {
	t.Parallel()
	srv := databases.StartRedis(t)
	proxy := natslab.NewProxy(t, srv.Addr())
	var stores []store.Store
	for range 4 {
		stores = append(stores, over(t, dial(t, proxy.Addr()), redisstore.Options{}))
	}
	trial.HistoryWithFaults(t, judge, trial.Faulted{
		Stores: append(stores, over(t, dial(t, srv.Addr()), redisstore.Options{})),
		Rounds: 3,
		Faults: append(trial.Spoil(proxy), []trial.Fault{
			{Name: "freeze", Happen: func(r *rand.Rand) { srv.Freeze(); trial.Last(r, 700); srv.Thaw() }},
			{Name: "kill -9 and restart", Happen: func(*rand.Rand) { srv.Kill(); srv.Run() }},
		}...),
	})
}
