package k8sstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/k8sstore"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/elections"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
	"github.com/seed-ff2cb582/leader/test/natslab"
	"github.com/seed-ff2cb582/leader/test/stores/kubelab"
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

// outliving has a group elect while its API server and its etcd are killed and
// frozen.
func outliving(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	watch := lookout.Keep(t)
	var members []leader.Election
	for _, id := range []string{"a", "b", "c"} {
		e := elect(t, open(t, srv.Admin(), opts), "g", id)
		watch.Add(id, e)
		members = append(members, e)
	}
	renewed := func(since time.Time) (term uint64) {
		t.Helper()
		natslab.Eventually(t, "a candidate leads and has renewed", func(context.Context) error {
			for _, e := range members {
				if st := e.Status(); st.IsLeader && st.LastHeartbeat.After(since) {
					term = st.Term
					return nil
				}
			}
			return errors.New("nobody")
		})
		return term
	}
	frozen := func(pause, resume func()) func() {
		return func() {
			pause()
			natslab.Eventually(t, "nobody leads", func(context.Context) error {
				if leads(members...)(t.Context()) == nil {
					return errors.New("somebody does")
				}
				return nil
			})
			resume()
		}
	}
	before := renewed(time.Time{})
	for name, fault := range map[string]func(){
		"the API server killed": func() { srv.Kill(); srv.Run() },
		"the API server frozen": frozen(srv.Freeze, srv.Thaw),
		"etcd killed":           func() { srv.Etcd.Kill(); srv.Etcd.Run() },
		"etcd frozen":           frozen(srv.Etcd.Nodes[0].Freeze, srv.Etcd.Nodes[0].Thaw),
	} {
		at := time.Now()
		fault()
		term := renewed(at)
		t.Logf("%s: led and renewed again after %v, term %d before, %d after", name, time.Since(at).Round(time.Millisecond), before, term)
		if term < before {
			t.Errorf("term %d after %d", term, before)
		}
		before = term
	}
}
