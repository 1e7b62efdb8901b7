package k8sstore_test

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/k8sstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/test/natslab"
	"github.com/seed-ff2cb582/leader/test/stores/kubelab"
)

// bed gives each claim of the contract a namespace of its own.
func bed(srv *kubelab.Server, config *rest.Config, interrupt func() error) storetest.Factory {
	return func(tb testing.TB) storetest.Harness {
		namespace := newNamespace(srv)
		admin := newKubectl(tb, srv, namespace)
		name := open(tb, config, k8sstore.Options{Namespace: namespace}).LeaseName
		return storetest.Harness{
			Open: func(tb testing.TB) store.Store {
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
func cut(p *natslab.Proxy) func() error {
	return func() error {
		p.Cut()
		<-time.After(200 * time.Millisecond) // this is the fault, not a wait for something
		p.Resume()
		return nil
	}
}

// What harms nobody else runs on one server, at the same time: it takes longer to start than most of the tests.
func TestOnOneServer(t *testing.T) {
	t.Parallel()
	srv := kubelab.Start(t)
	for name, test := range map[string]func(*testing.T, *kubelab.Server){
		"Conformance":   conformance,
		"Elections":     everyElection,
		"Histories":     shortHistories,
		"Deletion":      deletion,
		"Retries":       retries,
		"Repetition":    repetition,
		"Unreachable":   unreachable,
		"Explained":     explained,
		"Forgotten":     forgotten,
		"Rights":        rights,
		"WellFormed":    wellFormed,
		"ForeignClocks": foreignClocks,
		"Cleared":       cleared,
		"Prefixes":      prefixes,
		"Clientset":     clientset,
		"ComeAndGo":     comeAndGo,
		"Abandoned":     abandoned,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, srv)
		})
	}
}

func conformance(t *testing.T, srv *kubelab.Server) {
	proxy := natslab.NewProxy(t, srv.Addr)
	storetest.Run(t, bed(srv, kubelab.Through(srv.Admin(), proxy.Addr()), cut(proxy)), caps())
}
