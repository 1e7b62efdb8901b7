package mysqlstore_test

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
)

// No acknowledged write is lost, and none that was read.
func TestAHistoryWithFailoversOfASemiSynchronousPairIsLinearizable(t *testing.T) {
	t.Parallel()
	p := newWaitingPair(t, "AFTER_SYNC", endless)
	table := newTable()
	made(t, url(p.primary), table)
	ways := trial.NewWays(t, 4, p.primary.Addr())
	spoiled := ways[:len(ways)-1]
	trial.HistoryWithFaults(t, judge, trial.Faulted{
		Stores: ways.Stores(func(addr string) store.Store { return open(t, p.primary.URL("lab", addr), table) }),
		Keys:   8,
		Rounds: 2,
		Faults: append(trial.Spoil(spoiled...), []trial.Fault{
			{Name: "failover", Happen: func(r *rand.Rand) { p.succeed(r, ways) }},
			{Name: "the primary is frozen", Happen: func(r *rand.Rand) { p.primary.Freeze(); trial.Last(r, 600); p.primary.Thaw() }},
			{Name: "the replica is frozen", Happen: func(r *rand.Rand) { p.replica.Freeze(); trial.Last(r, 600); p.replica.Thaw() }},
		}...),
	})
}
