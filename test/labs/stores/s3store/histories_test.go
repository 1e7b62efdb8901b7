package s3store_test

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// judge takes conflicts into the order: what was refused was compared with what
// is there.
var judge = histories.Judge{CurrentConflicts: true}

func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	trial.Histories(t, judge, 8, func(int) []store.Store {
		return []store.Store{at(t, srv.Addr, ""), at(t, srv.Addr, ""), at(t, srv.Addr, "")}
	})
}

func TestAHistoryWithFaultsIsLinearizable(t *testing.T) {
	t.Parallel()
	srv, _ := made(t)
	var proxies []*natslab.Proxy
	var stores []store.Store
	for range 4 {
		p := natslab.NewProxy(t, srv.Addr)
		proxies = append(proxies, p)
		stores = append(stores, at(t, p.Addr(), ""))
	}
	trial.HistoryWithFaults(t, judge, trial.Faulted{
		Stores: append(stores, at(t, srv.Addr, "")),
		Faults: append(trial.Spoil(proxies...),
			trial.Fault{Name: "freeze", Happen: func(r *rand.Rand) { srv.Freeze(); trial.Last(r, 600); srv.Thaw() }},
			trial.Fault{Name: "kill -9 and restart", Happen: func(r *rand.Rand) { srv.Kill(); trial.Last(r, 100); srv.Run() }},
		),
		Rounds: 2,
	})
}
