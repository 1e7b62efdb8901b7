package etcdstore_test

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/etcdstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// bed gives each claim of the contract registers of its own on the servers,
// reached by these URLs, which interrupt cuts.
func bed(cluster *etcdlab.Cluster, urls []string, interrupt func() error) storetest.Factory {
	return func(tb testing.TB) storetest.Harness {
		prefix := newPrefix()
		admin := cluster.Client(tb)
		return storetest.Harness{
			Open: func(tb testing.TB) store.Store {
				return open(tb, etcdlab.Client(tb, urls), etcdstore.Options{Prefix: prefix})
			},
			Delete: func(key string) error {
				_, err := admin.Delete(trial.Within(tb), prefix+key)
				return err
			},
			Put: func(key string, value []byte) error {
				_, err := admin.Put(trial.Within(tb), prefix+key, string(value))
				return err
			},
			Purge: func(key string) error {
				_, err := admin.Delete(trial.Within(tb), prefix+key, clientv3.WithRange(prefix+key+","))
				return err
			},
			Visible: func(key string) (bool, error) {
				answer, err := admin.Get(trial.Within(tb), prefix+key)
				return err == nil && len(answer.Kvs) > 0, err
			},
			Interrupt: interrupt,
		}
	}
}

// cut breaks all connections, and lets nobody connect for a while: a client
// connects when it is first used, and one that has not begun to would notice
// nothing of a shorter interruption.
func cut(proxies ...*natslab.Proxy) func() error {
	return func() error {
		for _, p := range proxies {
			p.Cut()
		}
		<-time.After(200 * time.Millisecond) // this is the fault, not a wait for something
		for _, p := range proxies {
			p.Resume()
		}
		return nil
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	proxy := natslab.NewProxy(t, cluster.Nodes[0].Addr)
	storetest.Run(t, bed(cluster, []string{"http://" + proxy.Addr()}, cut(proxy)), storetest.Caps{MaxValue: etcdstore.MaxValue})
}

func TestConformanceInACluster(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 3)
	var urls []string
	var proxies []*natslab.Proxy
	for _, node := range cluster.Nodes {
		proxy := natslab.NewProxy(t, node.Addr)
		proxies, urls = append(proxies, proxy), append(urls, "http://"+proxy.Addr())
	}
	storetest.Run(t, bed(cluster, urls, cut(proxies...)), storetest.Caps{MaxValue: etcdstore.MaxValue})
}

// The server dies as processes do, and comes back with what it had synced.
func TestConformanceAcrossTheServersDeath(t *testing.T) {
	t.Parallel()
	cluster := etcdlab.Start(t, 1)
	kill := func() error {
		cluster.Kill()
		cluster.Run()
		return nil
	}
	storetest.Run(t, bed(cluster, cluster.URLs(), kill), storetest.Caps{MaxValue: etcdstore.MaxValue})
}
