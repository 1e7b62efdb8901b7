package consulstore_test

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/consulstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/test/natslab"
	"github.com/seed-ff2cb582/leader/test/stores/consullab"
)

// bed gives each claim of the contract registers of its own on the server, reached at this address, which interrupt cuts.
func bed(node *consullab.Node, addr string, interrupt func() error) storetest.Factory {
	return func(tb testing.TB) storetest.Harness {
		prefix := newPrefix()
		kv := node.Client(tb).KV()
		remove := func(key string) error {
			_, err := kv.Delete(prefix+key, (&api.WriteOptions{}).WithContext(natslab.Within(tb)))
			return err
		}
		return storetest.Harness{
			Open: func(tb testing.TB) store.Store {
				return open(tb, consullab.Client(tb, addr, consullab.Root), consulstore.Options{Prefix: prefix})
			},
			Delete: remove,
			Purge:  remove,
			Put: func(key string, value []byte) error {
				_, err := kv.Put(&api.KVPair{Key: prefix + key, Value: value}, (&api.WriteOptions{}).WithContext(natslab.Within(tb)))
				return err
			},
			Interrupt: interrupt,
		}
	}
}

var caps = storetest.Caps{MaxValue: consulstore.MaxValue, NoVisible: "Consul's own tools show a tombstone as a key whose flags are odd"}

func TestConformance(t *testing.T) {
	t.Parallel()
	cluster := consullab.Start(t, 1)
	proxy := natslab.NewProxy(t, cluster.Nodes[0].Addr)
	cut := func() error {
		proxy.Cut()
		<-time.After(200 * time.Millisecond) // this is the fault, not a wait for something
		proxy.Resume()
		return nil
	}
	storetest.Run(t, bed(cluster.Nodes[0], proxy.Addr(), cut), caps)
}

// The server dies as processes do, and comes back with what it had synced.
func TestConformanceAcrossTheServersDeath(t *testing.T) {
	t.Parallel()
	cluster := consullab.Start(t, 1)
	kill := func() error {
		cluster.Kill()
		cluster.Run()
		return nil
	}
	storetest.Run(t, bed(cluster.Nodes[0], cluster.Nodes[0].Addr, kill), caps)
}
