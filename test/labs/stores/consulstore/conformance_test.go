package consulstore_test

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/consulstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/consullab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	node := consullab.Start(t, 1).Nodes[0]
	proxy := natslab.NewProxy(t, node.Addr)
	storetest.Run(t, bed(node, proxy), storetest.Caps{
		MaxValue: consulstore.MaxValue, NoVisible: "Consul's own tools show a tombstone as a key whose flags are odd",
	})
}

// bed gives each claim of the contract registers of its own on the server,
// reached by the proxy.
func bed(node *consullab.Node, proxy *natslab.Proxy) storetest.Factory {
	return func(tb testing.TB) storetest.Harness {
		prefix := newPrefix()
		kv := node.Client(tb).KV()
		remove := func(key string) error {
			_, err := kv.Delete(prefix+key, (&api.WriteOptions{}).WithContext(trial.Within(tb)))
			return err
		}
		return storetest.Harness{
			Open: func(tb testing.TB) store.Store {
				return open(tb, consullab.Client(tb, proxy.Addr(), consullab.Root), consulstore.Options{Prefix: prefix})
			},
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
		}
	}
}
