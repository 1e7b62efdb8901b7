package k8sstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store/storetest"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/lookout"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// severalServers lets clients reach one etcd through two API servers, each of
// which has its own cache. The contract is judged only here: it holds as well
// for clients of one server, of which each claim with three has two.
func severalServers(t *testing.T, srv *kubelab.Server) {
	other := srv.Another(t)
	t.Run("Conformance", func(t *testing.T) { conformanceAcross(t, srv, other) })
	t.Run("Elections", func(t *testing.T) { electionAcross(t, srv, other) }) // which harms the other
}

// conformanceAcross has every second client of a claim reach the other server.
func conformanceAcross(t *testing.T, servers ...*kubelab.Server) {
	var proxies []*natslab.Relay
	var configs []*rest.Config
	for _, srv := range servers {
		p := natslab.NewRelay(t, srv.Addr)
		proxies, configs = append(proxies, p), append(configs, kubelab.Through(srv.Admin(), p.Addr()))
	}
	storetest.Run(t, func(tb testing.TB) storetest.Harness {
		return registers(tb, servers[0], trial.Cut(proxies...), configs...).Harness
	}, caps)
}

// electionAcross freezes and kills the server of the leader, whose candidate is
// cut off by that while the other goes on.
func electionAcross(t *testing.T, srv, other *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	watch := lookout.Keep(t)
	await := func(what string, holds func() bool) {
		t.Helper()
		natslab.Eventually(t, what, func(context.Context) error {
			if !holds() {
				return errors.New("not yet")
			}
			return nil
		})
	}
	b := elect(t, open(t, other.Admin(), opts), "g", "b")
	watch.Add("b", b)
	a := elect(t, open(t, srv.Admin(), opts), "g", "a")
	watch.Add("a", a)
	follows := func(e leader.Election, id string) func() bool {
		return func() bool { st := e.Status(); return st.State == leader.StateFollower && st.LeaderID == id }
	}
	// If the machine stalls for a lease, the other candidate takes over,
	// rightly, and gives it back.
	begins := func() (term uint64) {
		await("b leads, and a follows", func() bool {
			if a.IsLeader() {
				_ = a.Resign(natslab.Within(t)) // unless it has lost it
			}
			term = b.Status().Term
			return b.IsLeader() && follows(a, "b")()
		})
		return term
	}
	for name, fault := range map[string]struct{ begin, end func() }{
		"frozen": {other.Freeze, other.Thaw},
		"killed": {other.Kill, other.Run},
	} {
		term := begins()
		at := time.Now()
		fault.begin()
		await("a leads, whose server serves", a.IsLeader)
		if b.IsLeader() {
			t.Errorf("%s: b leads without its server", name)
		}
		if next := a.Status().Term; next <= term {
			t.Errorf("%s: term %d after %d", name, next, term)
		}
		t.Logf("the leader's API server %s: the other candidate led after %v", name, time.Since(at).Round(time.Millisecond))
		fault.end()
		await("each knows the leader, from its own server", func() bool {
			return a.IsLeader() && follows(b, "a")() || b.IsLeader() && follows(a, "b")()
		})
		at = time.Now()
		begins()
		t.Logf("handover from one API server to the other: %v", time.Since(at).Round(time.Millisecond))
	}
}
