package consulstore_test

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/consulstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/consullab"
)

// alone is a cluster of one server.
type alone struct{ *consullab.Cluster }

func (a alone) Freeze() { a.Nodes[0].Freeze() }
func (a alone) Thaw()   { a.Nodes[0].Thaw() }

func TestAnElectionOutlivesItsOnlyServer(t *testing.T) {
	t.Parallel()
	cluster := consullab.Start(t, 1)
	trial.Outlive(t, time.Second, trial.NewWays(t, 3, cluster.Nodes[0].Addr), func(addr string) store.Store { return by(t, addr, "") },
		trial.Harms("the server", alone{cluster})...)
}

// Each candidate reaches a server of its own: that of the leader's may be the
// one that is harmed.
func TestAnElectionOutlivesConsulsOwnLeaders(t *testing.T) {
	t.Parallel()
	cluster := consullab.Start(t, 3)
	var ways trial.Ways
	for _, node := range cluster.Nodes {
		ways = append(ways, trial.NewWays(t, 1, node.Addr)...)
	}
	killed := trial.Harm{Name: "Consul's leader is killed, and restarted when somebody leads", Happen: func(p *trial.Party) {
		cluster.Leader().Kill()
		p.Renewed(time.Now())
		cluster.Run()
	}}
	frozen := trial.Harm{Name: "Consul's leader is frozen until somebody leads", Happen: func(p *trial.Party) {
		node := cluster.Leader()
		node.Freeze()
		t.Cleanup(node.Thaw) // if nobody does
		p.Renewed(time.Now())
		node.Thaw()
	}}
	minority := trial.Lasting("two servers are killed until nobody leads", func() { cluster.Nodes[0].Kill(); cluster.Nodes[1].Kill() }, cluster.Run)
	trial.Outlive(t, 2*time.Second, ways, func(addr string) store.Store { return by(t, addr, "") }, killed, frozen, killed, minority)
}

// A server in development mode keeps nothing on its disk: a restart forgets who
// leads, and gives indexes again.
func TestAnElectionOutlivesAServerThatForgets(t *testing.T) {
	t.Parallel()
	cluster := consullab.StartDev(t)
	harms := trial.HarmsThatForget("the server", alone{cluster})
	for i := range harms {
		harms[i].Forgets, harms[i].Again = false, harms[i].Forgets
	}
	trial.Outlive(t, time.Second, trial.NewWays(t, 3, cluster.Nodes[0].Addr), func(addr string) store.Store { return by(t, addr, "") }, harms...)
}

func TestCoolDownSurvivesARestartThatForgets(t *testing.T) {
	t.Parallel()
	cluster := consullab.StartDev(t)
	open := func(tb testing.TB, addr string) store.Store {
		return open(tb, consullab.Client(tb, addr, consullab.Root), consulstore.Options{})
	}
	trial.RestartThatForgets(t, cluster.Nodes[0].Addr, open, func() { cluster.Kill(); cluster.Run() }, true)
}

func TestElectionsThatCoolDown(t *testing.T) {
	t.Parallel()
	node := consullab.StartDev(t).Nodes[0]
	kv := node.Client(t).KV()
	elections.Run(t, elections.Harness{
		Open: func(tb testing.TB) store.Store { return open(tb, node.Client(tb), consulstore.Options{}) },
		Delete: func(key string) error {
			_, err := kv.Delete(consulstore.DefaultPrefix+key, (&api.WriteOptions{}).WithContext(trial.Within(t)))
			return err
		},
		CoolsDown: true,
		TTL:       2 * time.Second, // several of them run at once, against one server
	})
}
