package mysqlstore_test

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// judge takes conflicts into the order: an update reads what is committed.
var judge = histories.Judge{CurrentConflicts: true}

func TestShortHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	trial.Histories(t, judge, 8, func(int) []store.Store {
		return []store.Store{made(t, url(srv), table), open(t, url(srv), table), open(t, url(srv), table)}
	})
}

func TestAHistoryWithFaultsIsLinearizable(t *testing.T) {
	t.Parallel()
	srv := lab.OwnMariaDB(t)
	table := newTable()
	sound := made(t, url(srv), table)
	var proxies []*natslab.Proxy
	var stores []store.Store
	for range 4 {
		p := natslab.NewProxy(t, srv.Addr())
		proxies = append(proxies, p)
		stores = append(stores, open(t, srv.URL("lab", p.Addr()), table))
	}
	trial.HistoryWithFaults(t, judge, trial.Faulted{
		Stores: append(stores, sound),
		Rounds: 2,
		Faults: append(trial.Spoil(proxies...), []trial.Fault{
			{Name: "freeze", Happen: func(r *rand.Rand) { srv.Freeze(); trial.Last(r, 600); srv.Thaw() }},
			{Name: "kill -9 and restart", Happen: func(r *rand.Rand) { srv.Kill(); trial.Last(r, 100); srv.Run() }},
			{Name: "sessions are killed", Happen: func(*rand.Rand) { srv.Exec("KILL SOFT USER lab@'%'") }},
		}...),
	})
}
