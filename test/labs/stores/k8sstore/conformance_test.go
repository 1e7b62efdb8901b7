package k8sstore_test

import (
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/k8sstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// bed gives each claim of the contract a namespace of its own. Its clients have
// the configurations in turn.
func bed(srv *kubelab.Server, interrupt func() error, configs ...*rest.Config) storetest.Factory {
	return func(tb testing.TB) storetest.Harness {
		tb.Helper()
		var opened atomic.Int64
		namespace := newNamespace(srv)
		admin := newKubectl(tb, srv, namespace)
		name := open(tb, configs[0], k8sstore.Options{Namespace: namespace}).LeaseName
		return storetest.Harness{
			Open: func(tb testing.TB) store.Store {
				config := configs[int(opened.Add(1))%len(configs)]
				return open(tb, config, k8sstore.Options{Namespace: namespace})
			},
			Delete:    func(key string) error { return admin.delete(name(key)) },
			Put:       func(key string, value []byte) error { return admin.put(name(key), value) },
			Purge:     func(key string) error { return admin.delete(name(key)) },
			Interrupt: interrupt,
		}
	}
}

func caps() storetest.Caps {
	return storetest.Caps{
		NoVisible: "a Lease stays when its holder leaves: kubectl shows no HOLDER then, for which there is a test of its own",
		MaxValue:  k8sstore.MaxValue,
	}
}

// cut breaks all connections, and lets nobody connect for a while.
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

// What harms nobody else runs on one server, at the same time: it takes longer
// to start than most of the tests.
func TestOnOneServer(t *testing.T) {
	t.Parallel()
	srv := kubelab.Start(t)
	for name, test := range map[string]func(*testing.T, *kubelab.Server){
		"Elections":      everyElection,
		"Histories":      shortHistories,
		"Deletion":       deletion,
		"Retries":        retries,
		"Repetition":     repetition,
		"Unreachable":    unreachable,
		"Explained":      explained,
		"Forgotten":      forgotten,
		"Rights":         rights,
		"WellFormed":     wellFormed,
		"ForeignClocks":  foreignClocks,
		"Cleared":        cleared,
		"Prefixes":       prefixes,
		"Clientset":      clientset,
		"ComeAndGo":      comeAndGo,
		"Abandoned":      abandoned,
		"SeveralServers": severalServers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, srv)
		})
	}
}
