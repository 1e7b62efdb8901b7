package etcdstore_test

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/etcdstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// judge takes conflicts into the order: etcd decides them in the order of its
// writes.
var judge = histories.Judge{CurrentConflicts: true}

func TestShortHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	trial.Histories(t, judge, 6, func(int) (stores []store.Store) {
		for range 3 {
			stores = append(stores, open(t, cluster.Client(t), etcdstore.Options{}))
		}
		return stores
	})
}

func TestAHistoryWithFaultsIsLinearizable(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	node := cluster.Nodes[0]
	proxies := []*natslab.Proxy{natslab.NewProxy(t, node.Addr), natslab.NewProxy(t, node.Addr), natslab.NewProxy(t, node.Addr)}
	var stores []store.Store
	for _, p := range proxies {
		stores = append(stores, open(t, etcdlab.Client(t, []string{"http://" + p.Addr()}), etcdstore.Options{}))
	}
	trial.HistoryWithFaults(t, judge, trial.Faulted{
		Stores: append(stores, open(t, cluster.Client(t), etcdstore.Options{})),
		Faults: append(trial.Spoil(proxies...), []trial.Fault{
			{Name: "freeze", Happen: func(r *rand.Rand) { node.Freeze(); trial.Last(r, 700); node.Thaw() }},
			{Name: "kill -9 and restart", Happen: func(r *rand.Rand) { node.Kill(); trial.Last(r, 100); cluster.Run() }},
		}...),
	})
}

func TestAHistoryWithFaultsOfAClusterIsLinearizable(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 3)
	var stores []store.Store
	for i := range 4 {
		// Each by one member, so that the faults of one do not meet all, and
		// one by all of them.
		urls := cluster.URLs()
		if i < 3 {
			urls = urls[i : i+1]
		}
		stores = append(stores, open(t, etcdlab.Client(t, urls), etcdstore.Options{}))
	}
	some := func(r *rand.Rand) *etcdlab.Node { return cluster.Nodes[r.IntN(3)] }
	trial.HistoryWithFaults(t, judge, trial.Faulted{Stores: stores, Faults: []trial.Fault{
		{Name: "the leader is frozen", Happen: func(r *rand.Rand) { n := cluster.Leader(); n.Freeze(); trial.Last(r, 1500); n.Thaw() }},
		{Name: "the leader is killed", Happen: func(r *rand.Rand) { n := cluster.Leader(); n.Kill(); trial.Last(r, 500); cluster.Run() }},
		{Name: "a member is frozen", Happen: func(r *rand.Rand) { n := some(r); n.Freeze(); trial.Last(r, 700); n.Thaw() }},
		{Name: "two members are killed", Happen: func(r *rand.Rand) {
			i := r.IntN(3)
			cluster.Nodes[i].Kill()
			cluster.Nodes[(i+1)%3].Kill()
			trial.Last(r, 500)
			cluster.Run()
		}},
	}})
}
