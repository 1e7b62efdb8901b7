package k8sstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

func leases(verbs []string, names ...string) kubelab.Rule {
	return kubelab.Rule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: names, Verbs: verbs}
}

func checked(t *testing.T, s *k8sstore.Store) (store.Report, error) {
	t.Helper()
	return s.Check(trial.Within(t), store.CheckRequest{TTL: 10 * time.Second, HeartbeatInterval: time.Second, Key: "g", Reads: []string{"_ctl.g"}})
}

// The rights that the package's documentation names are enough for an election,
// and no more than that.
func rights(t *testing.T, srv *kubelab.Server) {
	namespace := newNamespace(srv)
	opts := k8sstore.Options{Namespace: namespace}
	candidate := srv.ServiceAccount(namespace, "candidate",
		leases([]string{"get", "update", "watch"}, "g", "x--5fctl.g"), leases([]string{"create"}))
	s := open(t, candidate, opts)
	if report, err := checked(t, s); err != nil || len(report.Warnings) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	a, b := elect(t, s, "g", "a"), elect(t, open(t, candidate, opts), "g", "b")
	natslab.Eventually(t, "a candidate leads", leads(a, b))
	first := a
	if b.IsLeader() {
		first = b
	}
	if err := first.Resign(trial.Within(t)); err != nil {
		t.Error(err)
	}
	natslab.Eventually(t, "a candidate leads after the handover", leads(a, b))
	if _, err := s.Get(trial.Within(t), "other"); store.Classify(err) != store.Permanent {
		t.Errorf("another group may be read: %v", err)
	}
	if s.ConnState() != store.Connected {
		t.Error(s.ConnState())
	}

	observer := open(t, srv.ServiceAccount(namespace, "observer", leases([]string{"get", "list", "watch"})), opts)
	seen := make(chan store.Entry, 100)
	stop, err := observer.WatchPattern(trial.Within(t), ">", func(e store.Entry) { seen <- e }, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for e := range seen {
		if e.Key == "g" {
			break
		}
	}
}

func elect(t *testing.T, s *k8sstore.Store, group, id string) leader.Election {
	t.Helper()
	e, err := leader.NewElectionWithStore(s, leader.ElectionConfig{
		Group: group, InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: 500 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), natslab.Patience)
		defer cancel()
		_ = e.StopWithContext(ctx, leader.StopOptions{WaitForDemote: true, DeleteKey: true})
	})
	return e
}

func leads(all ...leader.Election) func(context.Context) error {
	return func(context.Context) error {
		for _, e := range all {
			if e.IsLeader() {
				return nil
			}
		}
		return errors.New("nobody leads")
	}
}

// A server of other settings: it ends each watch after 4 to 8 s, and has
// coordinated leader election.
func TestOnAnotherServer(t *testing.T) {
	t.Parallel()
	srv := kubelab.Start(t, "--min-request-timeout", "4",
		"--feature-gates", "CoordinatedLeaderElection=true", "--runtime-config", "coordination.k8s.io/v1beta1=true")
	t.Run("CheckNamesWhatIsMissing", func(t *testing.T) { t.Parallel(); missing(t, srv) })
	t.Run("EndsOfWatchesAreNoInterruptions", func(t *testing.T) { t.Parallel(); ends(t, srv) })
}

func ends(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	s, writing := open(t, srv.Admin(), opts), open(t, srv.Admin(), opts)
	rev := trial.Must(t, writing, store.Write{Key: "g", Value: []byte("1")})
	h := trial.Listen(t, s, "g")
	h.Value("1")
	trial.StaysConnected(t, s, 9*time.Second) // longer than a watch is open there
	trial.Must(t, writing, store.Write{Key: "g", Expected: rev, Value: []byte("2")})
	h.Value("2")
}

func missing(t *testing.T, srv *kubelab.Server) {
	namespace := newNamespace(srv)
	opts := k8sstore.Options{Namespace: namespace}
	for i, c := range []struct {
		verbs   []string
		outcome store.Outcome
		say     []string
	}{
		{[]string{"get", "create", "update", "watch"}, store.OK, nil},
		{[]string{"get", "create", "update"}, store.OK, nil}, // what client-go's own candidates have
		{[]string{"create", "update", "watch"}, store.Permanent, []string{"get"}},
		{[]string{"get", "update", "watch"}, store.Permanent, []string{"create"}},
		{[]string{"get", "create", "watch"}, store.Permanent, []string{"update g"}},
		{[]string{"delete"}, store.Permanent, []string{"a Role"}},
	} {
		s := open(t, srv.ServiceAccount(namespace, fmt.Sprintf("user-%d", i), leases(c.verbs)), opts)
		report, err := checked(t, s)
		trial.Outcome(t, err, c.outcome, c.say...)
		if warned := strings.Contains(strings.Join(report.Warnings, " "), "may not watch"); err == nil && warned != (i == 1) {
			t.Errorf("%v: %q", c.verbs, report.Warnings)
		}
	}
	// Without the right to watch, changes are found all the same.
	polling := open(t, srv.ServiceAccount(namespace, "polling", leases([]string{"get", "create", "update"})), opts)
	polling.Pace(200 * time.Millisecond)
	h := trial.Listen(t, polling, "polled")
	admin := open(t, srv.Admin(), opts)
	rev := trial.Must(t, admin, store.Write{Key: "polled", Value: []byte("1")})
	h.Value("1")
	trial.Must(t, admin, store.Write{Key: "polled", Expected: rev, Value: []byte("2")})
	h.Value("2")
	natslab.Eventually(t, "a store that may not watch is connected", func(context.Context) error {
		if c := polling.ConnState(); c != store.Connected {
			return errors.New(c.String())
		}
		return nil
	})

	kube := newKubectl(t, srv, namespace)
	kube.create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "g"}})
	exists := open(t, srv.ServiceAccount(namespace, "exists", leases([]string{"get", "update", "watch"})), opts)
	if report, err := checked(t, exists); err != nil || len(report.Warnings) > 0 {
		t.Errorf("a Lease that exists needs not be made: %v, %v", report, err)
	}
	if err := kube.patch("g", map[string]any{"spec": map[string]any{"strategy": "OldestEmulationVersion", "preferredHolder": "x"}}); err != nil {
		t.Fatal(err)
	}
	if report, err := checked(t, exists); err != nil || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "coordinated") {
		t.Errorf("%v, %v", report, err)
	}
	opened(t, srv, namespace)
}

// opened opens stores by URLs.
func opened(t *testing.T, srv *kubelab.Server, namespace string) {
	t.Helper()
	file := srv.Kubeconfig(t, srv.Admin(), namespace)
	query := "?kubeconfig=" + url.QueryEscape(file)
	named := newNamespace(srv)
	for raw, want := range map[string]string{
		"k8s://" + query:                    namespace,
		"k8s://" + named + query:            named,
		"k8s://" + named + "/team-" + query: named,
	} {
		s, err := k8sstore.Open(trial.Within(t), raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if s.Namespace() != want || strings.Contains(raw, "team") != (s.LeaseName("g") == "team-g") {
			t.Errorf("%s: namespace %s, group g is %s", raw, s.Namespace(), s.LeaseName("g"))
		}
		trial.Must(t, s, store.Write{Key: "mine", Value: []byte("1")})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	stranger := srv.Anonymous()
	stranger.BearerToken = "wrong"
	_, err := k8sstore.Open(trial.Within(t), "k8s://n?kubeconfig="+url.QueryEscape(srv.Kubeconfig(t, stranger, "")))
	trial.Outcome(t, err, store.Permanent, "Unauthorized")
	for _, raw := range []string{"k8s://n?kubeconfig=/none", "k8s://n?color=red", "k8s://user@n", "k8s://n:443", "k8s://n/Team" + query, "k8s://n" + query + "&context=none"} {
		if _, err := k8sstore.Open(trial.Within(t), raw); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
