package mysqlstore_test

import (
	"fmt"
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
	servers := 2
	failOver := func(r *rand.Rand) {
		trial.Part(r, p.link)
		p.failOver()
		p.primary = p.replica
		ways.Lead(p.primary.Addr())
		trial.Rejoin(p.link, p.primary.Addr())
		// Another replica joins, and is waited for from then on.
		p.primary.Exec("SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC", "SET GLOBAL rpl_semi_sync_master_timeout = 1",
			"SET GLOBAL rpl_semi_sync_master_enabled = 1")
		servers++
		p.replica = lab.Replica(t, p.primary, p.link.Addr(), fmt.Sprintf("--server-id=%d", servers), "--rpl-semi-sync-slave-enabled=1")
		p.awaitWaiting(endless)
	}
	trial.HistoryWithFaults(t, judge, trial.Faulted{
		Stores: ways.Stores(func(addr string) store.Store { return open(t, p.primary.URL("lab", addr), table) }),
		Keys:   8,
		Rounds: 2,
		Faults: append(trial.Spoil(spoiled...), []trial.Fault{
			{Name: "failover", Happen: failOver},
			{Name: "the primary is frozen", Happen: func(r *rand.Rand) { p.primary.Freeze(); trial.Last(r, 600); p.primary.Thaw() }},
			{Name: "the replica is frozen", Happen: func(r *rand.Rand) { p.replica.Freeze(); trial.Last(r, 600); p.replica.Thaw() }},
		}...),
	})
}
