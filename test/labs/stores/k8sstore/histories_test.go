package k8sstore_test

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/k8sstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// judge takes conflicts into the order: etcd decides them in the order of its
// writes.
var judge = histories.Judge{CurrentConflicts: true}

func shortHistories(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	trial.Histories(t, judge, 4, func(int) (stores []store.Store) {
		for range 3 {
			stores = append(stores, open(t, srv.Admin(), opts))
		}
		return stores
	})
}

func TestAHistoryWithFaultsIsLinearizable(t *testing.T) {
	t.Parallel()
	srv := kubelab.Start(t)
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	proxies := []*natslab.Proxy{natslab.NewProxy(t, srv.Addr), natslab.NewProxy(t, srv.Addr), natslab.NewProxy(t, srv.Addr)}
	var stores []store.Store
	for _, p := range proxies {
		stores = append(stores, open(t, kubelab.Through(srv.Admin(), p.Addr()), opts))
	}
	stores = append(stores, open(t, srv.Admin(), opts))
	etcd := srv.Etcd.Nodes[0]
	trial.HistoryWithFaults(t, judge, trial.Faulted{Stores: stores, Faults: append(trial.Spoil(proxies...), []trial.Fault{
		{Name: "the API server is frozen", Happen: func(r *rand.Rand) { srv.Freeze(); trial.Last(r, 1000); srv.Thaw() }},
		{Name: "the API server is killed and restarted", Happen: func(r *rand.Rand) { srv.Kill(); trial.Last(r, 100); srv.Run() }},
		{Name: "etcd is frozen", Happen: func(r *rand.Rand) { etcd.Freeze(); trial.Last(r, 1000); etcd.Thaw() }},
		{Name: "etcd is killed and restarted", Happen: func(r *rand.Rand) { etcd.Kill(); trial.Last(r, 100); srv.Etcd.Run() }},
	}...)})
}
