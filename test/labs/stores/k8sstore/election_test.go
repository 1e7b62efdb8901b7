package k8sstore_test

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/k8sstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/etcdlab"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
)

func everyElection(t *testing.T, srv *kubelab.Server) {
	namespace := newNamespace(srv)
	admin := newKubectl(t, srv, namespace)
	name := open(t, srv.Admin(), k8sstore.Options{Namespace: namespace}).LeaseName
	elections.Run(t, elections.Harness{
		Open:   func(tb testing.TB) store.Store { return open(tb, srv.Admin(), k8sstore.Options{Namespace: namespace}) },
		Delete: func(key string) error { return admin.delete(name(key)) },
	})
}

// outliving has a group elect while its API server, its etcd, and the ways to
// the former are harmed.
func outliving(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	trial.Outlive(t, 3*time.Second, trial.NewWays(t, 3, srv.Addr),
		func(addr string) store.Store { return open(t, kubelab.Through(srv.Admin(), addr), opts) },
		append(trial.Harms("the API server", srv), trial.Harms("etcd", etcd{srv.Etcd})...)...)
}

// etcd is one server of it.
type etcd struct{ *etcdlab.Cluster }

func (e etcd) Freeze() { e.Nodes[0].Freeze() }
func (e etcd) Thaw()   { e.Nodes[0].Thaw() }
