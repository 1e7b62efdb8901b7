package etcdstore_test

import (
	"math/rand/v2"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/etcd/etcdstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var caps = storetest.Caps{MaxValue: etcdstore.MaxValue}

// registers are those below a new prefix of the servers, reached by these URLs,
// which interrupt cuts.
func registers(tb testing.TB, cluster *etcdlab.Cluster, urls []string, interrupt func() error) judge.Registers {
	tb.Helper()
	opts := etcdstore.Options{Prefix: newPrefix()}
	admin := cluster.Client(tb)
	through := func(tb testing.TB, urls ...string) store.Store { return open(tb, etcdlab.Client(tb, urls), opts) }
	return judge.Registers{
		Harness: storetest.Harness{
			Open: func(tb testing.TB) store.Store { return through(tb, urls...) },
			Delete: func(key string) error {
				_, err := admin.Delete(trial.Within(tb), opts.Prefix+key)
				return err
			},
			Put: func(key string, value []byte) error {
				_, err := admin.Put(trial.Within(tb), opts.Prefix+key, string(value))
				return err
			},
			Purge: func(key string) error {
				_, err := admin.Delete(trial.Within(tb), opts.Prefix+key, clientv3.WithRange(opts.Prefix+key+","))
				return err
			},
			Visible: func(key string) (bool, error) {
				answer, err := admin.Get(trial.Within(tb), opts.Prefix+key)
				return err == nil && len(answer.Kvs) > 0, err
			},
			Interrupt: interrupt,
		},
		At: func(tb testing.TB, addr string) store.Store { return through(tb, "http://"+addr) },
		Lend: func(tb testing.TB) judge.Loan {
			client := cluster.Client(tb)
			return judge.Loan{
				Store: open(tb, client, opts),
				Works: func() error { _, err := client.Get(trial.Within(tb), "x"); return err },
				End:   client.Close,
			}
		},
	}
}

// single is one server.
func single(tb testing.TB) judge.Subject {
	cluster := etcdlab.Start(tb, 1)
	node := cluster.Nodes[0]
	proxy := natslab.NewRelay(tb, node.Addr)
	return judge.Subject{
		Registers: func(tb testing.TB) judge.Registers {
			return registers(tb, cluster, []string{"http://" + proxy.Addr()}, trial.Cut(proxy))
		},
		Addrs:     []string{node.Addr},
		Processes: []judge.Process{{Name: "the server", Kill: cluster.Kill, Run: cluster.Run, Freeze: node.Freeze, Thaw: node.Thaw}},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	judge.Run(t, single, trial.Flags(judge.Options{Caps: caps}))
}

// The server dies as processes do, and comes back with what it had synced.
func TestConformanceAcrossTheServersDeath(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	kill := func() error { cluster.Kill(); cluster.Run(); return nil }
	storetest.Run(t, func(tb testing.TB) storetest.Harness { return registers(tb, cluster, cluster.URLs(), kill).Harness }, caps)
}

// ofThree is a cluster, whose clients know all servers.
func ofThree(tb testing.TB) judge.Subject {
	cluster := etcdlab.Start(tb, 3)
	var urls []string
	var proxies []*natslab.Relay
	for _, node := range cluster.Nodes {
		proxy := natslab.NewRelay(tb, node.Addr)
		proxies, urls = append(proxies, proxy), append(urls, "http://"+proxy.Addr())
	}
	var down *etcdlab.Node
	freeze := func(node *etcdlab.Node) { down = node; node.Freeze() }
	thaw := func() { down.Thaw() }
	return judge.Subject{
		Registers: func(tb testing.TB) judge.Registers { return registers(tb, cluster, urls, trial.Cut(proxies...)) },
		Processes: []judge.Process{
			{
				Name: "etcd's leader", Kill: func() { cluster.Leader().Kill() }, Run: cluster.Run,
				Freeze: func() { freeze(cluster.Leader()) }, Thaw: thaw, Spare: true,
			},
			{Name: "a member", Freeze: func() { freeze(cluster.Nodes[rand.IntN(3)]) }, Thaw: thaw, Spare: true},
			{Name: "the majority", Kill: func() { cluster.Nodes[0].Kill(); cluster.Nodes[1].Kill() }, Run: cluster.Run},
		},
	}
}

func TestACluster(t *testing.T) {
	t.Parallel()
	judge.Run(t, ofThree, trial.Flags(judge.Options{
		Caps: caps, Cases: []judge.Case{judge.Contract, judge.Faults, judge.Outlived}, Lease: 2 * time.Second,
	}))
}

// The client of each knows one server, so that a fault of that one does not
// meet the others.
func TestAClusterWhoseClientsKnowOneServerEach(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		cluster := etcdlab.Start(tb, 3)
		s := judge.Subject{Registers: func(tb testing.TB) judge.Registers { return registers(tb, cluster, cluster.URLs(), nil) }}
		for _, node := range cluster.Nodes {
			s.Addrs = append(s.Addrs, node.Addr)
			s.Processes = append(s.Processes, judge.Process{Name: "a member", Kill: node.Kill, Run: cluster.Run, Freeze: node.Freeze, Thaw: node.Thaw, Spare: true})
		}
		return s
	}, trial.Flags(judge.Options{Cases: []judge.Case{judge.Faults}}))
}
