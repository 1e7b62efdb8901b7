package consulstore_test

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/consul/consulstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/consullab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestStore(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject { return alone(tb, consullab.Start(tb, 1)) }, trial.Flags(judge.Options{
		Keys: 8,
		Caps: storetest.Caps{
			MaxValue: consulstore.MaxValue, NoVisible: "Consul's own tools show a tombstone as a key whose flags are odd",
		},
	}))
}

// alone is a cluster of one server.
func alone(tb testing.TB, cluster *consullab.Cluster) judge.Subject {
	tb.Helper()
	node := cluster.Nodes[0]
	proxy := natslab.NewRelay(tb, node.Addr)
	return judge.Subject{
		Registers: func(tb testing.TB) judge.Registers { return registers(tb, node, proxy) },
		Addrs:     []string{node.Addr},
		Processes: []judge.Process{{Name: "the server", Kill: cluster.Kill, Run: cluster.Run, Freeze: node.Freeze, Thaw: node.Thaw}},
	}
}

// registers are those below a new prefix, reached by the proxy.
func registers(tb testing.TB, node *consullab.Node, proxy *natslab.Relay) judge.Registers {
	tb.Helper()
	prefix := newPrefix()
	kv := node.Client(tb).KV()
	remove := func(key string) error {
		_, err := kv.Delete(prefix+key, (&api.WriteOptions{}).WithContext(trial.Within(tb)))
		return err
	}
	return judge.Registers{
		Harness: storetest.Harness{
			Open:   func(tb testing.TB) store.Store { return by(tb, proxy.Addr(), prefix) },
			Delete: remove,
			Purge:  remove,
			Put: func(key string, value []byte) error {
				_, err := kv.Put(&api.KVPair{Key: prefix + key, Value: value}, (&api.WriteOptions{}).WithContext(trial.Within(tb)))
				return err
			},
			Interrupt: func() error {
				proxy.Cut()
				<-time.After(200 * time.Millisecond) // this is the fault, not a wait for something
				proxy.Resume()
				return nil
			},
		},
		At: func(tb testing.TB, addr string) store.Store { return by(tb, addr, prefix) },
		Lend: func(tb testing.TB) judge.Loan {
			client := node.Client(tb)
			return judge.Loan{
				Store: open(tb, client, consulstore.Options{Prefix: prefix}),
				Works: func() error { _, err := client.Status().Leader(); return err },
			}
		},
	}
}

// A server in development mode keeps nothing on its disk: a restart forgets who
// leads, and gives indexes again.
func TestAServerThatForgets(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		s := alone(tb, consullab.StartDev(tb))
		s.Processes[0].Forgets, s.Processes[0].Again = true, true
		return s
	}, trial.Flags(judge.Options{
		CoolsDown: true, Cases: []judge.Case{judge.Elections, judge.Outlived, judge.Forgotten},
		Lease: 2 * time.Second, // several of them run at once, against one server
	}))
}

// Each client reaches a different server: the leader's server may be the one
// that is harmed.
func TestACluster(t *testing.T) {
	t.Parallel()
	judge.Run(t, func(tb testing.TB) judge.Subject {
		cluster := consullab.Start(tb, 3)
		s := alone(tb, cluster)
		s.Addrs = nil
		for _, node := range append(cluster.Nodes[:3:3], cluster.Agent()) {
			s.Addrs = append(s.Addrs, node.Addr)
		}
		var frozen *consullab.Node
		s.Processes = []judge.Process{
			{
				Name: "Consul's leader", Kill: func() { cluster.Leader().Kill() }, Run: cluster.Run,
				Freeze: func() { frozen = cluster.Leader(); frozen.Freeze() }, Thaw: func() { frozen.Thaw() }, Spare: true,
			},
			{Name: "the majority", Kill: func() { cluster.Nodes[0].Kill(); cluster.Nodes[1].Kill() }, Run: cluster.Run},
		}
		return s
	}, trial.Flags(judge.Options{Cases: []judge.Case{judge.Faults, judge.Outlived}, Keys: 24, Lease: 2 * time.Second}))
}
