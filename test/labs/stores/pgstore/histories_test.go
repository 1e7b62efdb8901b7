package pgstore_test

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// judge takes conflicts into the order: PostgreSQL reads what is committed.
var judge = histories.Judge{CurrentConflicts: true}

func TestShortHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t)
	table := newTable()
	trial.Histories(t, judge, 8, func(int) []store.Store {
		return []store.Store{made(t, srv.DSN("lab"), table), open(t, srv.DSN("lab"), table), open(t, srv.DSN("lab"), table)}
	})
}

func TestAHistoryWithFaultsIsLinearizable(t *testing.T) {
	t.Parallel()
	srv := lab.OwnPostgreSQL(t, lazy...)
	table := newTable()
	sound := made(t, srv.DSN("lab"), table)
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
			{Name: "a session is terminated", Happen: func(*rand.Rand) {
				srv.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leader' ORDER BY random() LIMIT 3")
			}},
		}...),
	})
}
