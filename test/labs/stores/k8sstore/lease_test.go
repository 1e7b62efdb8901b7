package k8sstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

// The fields that kubectl and dashboards show of a group.
func wellFormed(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	admin := newKubectl(t, srv, opts.Namespace)
	a := elect(t, open(t, srv.Admin(), opts), "g", "host-a")
	natslab.Eventually(t, "a leads", leads(a))
	spec := admin.get("g").Spec
	if *spec.HolderIdentity != "host-a" || *spec.LeaseDurationSeconds != 4 || *spec.LeaseTransitions != 0 || spec.AcquireTime == nil {
		t.Errorf("%v", spec.String())
	}
	natslab.Eventually(t, "a renews", func(context.Context) error {
		now := admin.get("g").Spec
		if !now.AcquireTime.Equal(spec.AcquireTime) || *now.LeaseTransitions != 0 {
			t.Fatalf("%v", now.String())
		}
		if !now.RenewTime.After(spec.RenewTime.Time) {
			return errors.New(now.String())
		}
		return nil
	})
	if err := a.StopWithContext(trial.Within(t), leader.StopOptions{WaitForDemote: true, DeleteKey: true}); err != nil {
		t.Fatal(err)
	}
	if l := admin.get("g"); l.Spec.HolderIdentity != nil {
		t.Errorf("kubectl shows a holder that has left: %v", l.Spec.String())
	}
	b := elect(t, open(t, srv.Admin(), opts), "g", "host-b")
	natslab.Eventually(t, "b leads", leads(b))
	if spec := admin.get("g").Spec; *spec.HolderIdentity != "host-b" || *spec.LeaseTransitions != 1 {
		t.Errorf("%v", spec.String())
	}
	// Labels and annotations of others stay, though to add them costs the
	// leader its term.
	if err := admin.patch("g", map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "x"}, "annotations": map[string]any{"note": "y"}}}); err != nil {
		t.Fatal(err)
	}
	natslab.Eventually(t, "b keeps what an operator has labelled", func(context.Context) error {
		if l := admin.get("g"); *l.Spec.LeaseTransitions != 2 || l.Labels["team"] != "x" || l.Annotations["note"] != "y" || !b.IsLeader() {
			return fmt.Errorf("%v %v", l.Labels, l.Annotations)
		}
		return nil
	})
}

// The clock of a holder's machine may differ by years from the clock here: only
// the time at which its renewal was seen counts.
func foreignClocks(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	admin := newKubectl(t, srv, opts.Namespace)
	for group, at := range map[string]time.Time{"past": time.Unix(1e9, 0), "future": time.Unix(4e9, 0)} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			renewed := metav1.NewMicroTime(at)
			admin.create(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: group},
				Spec: coordinationv1.LeaseSpec{
					HolderIdentity: new("pod-1"), LeaseDurationSeconds: new(int32(2)), AcquireTime: &renewed, RenewTime: &renewed, LeaseTransitions: new(int32(7)),
				},
			})
			begun := time.Now()
			e := elect(t, open(t, srv.Admin(), opts), group, "ours")
			natslab.Eventually(t, "its leader is known", func(context.Context) error {
				if st := e.Status(); st.LeaderID != "pod-1" {
					return fmt.Errorf("%q", st.LeaderID)
				}
				return nil
			})
			natslab.Eventually(t, "ours leads", leads(e))
			if d := time.Since(begun); d < 2200*time.Millisecond {
				t.Errorf("a lease of 2 s was waited out in %v", d)
			}
			if n := *admin.get(group).Spec.LeaseTransitions; n != 8 {
				t.Errorf("%d transitions", n)
			}
		})
	}
}

// An operator who clears the holder of a Lease gives no permission to lead
// beside it.
func cleared(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	admin := newKubectl(t, srv, opts.Namespace)
	s := open(t, srv.Admin(), opts)
	h := trial.Listen(t, s, "g")
	trial.Must(t, s, store.Write{Key: "g", Value: []byte(`{"id":"a","token":"1","ttl":60000}`)})
	if err := admin.patch("g", map[string]any{"spec": map[string]any{"holderIdentity": nil}}); err != nil {
		t.Fatal(err)
	}
	h.Until("a deletion without a word", func(e store.Entry) bool { return e.Tombstone && len(e.Value) == 0 })
}

// Other Leases of the namespace, and other prefixes, are not ours.
func prefixes(t *testing.T, srv *kubelab.Server) {
	namespace := newNamespace(srv)
	one := open(t, srv.Admin(), k8sstore.Options{Namespace: namespace, Prefix: "one-"})
	other := open(t, srv.Admin(), k8sstore.Options{Namespace: namespace, Prefix: "other-"})
	seen := make(chan store.Entry, 1000)
	stop, err := one.WatchPattern(trial.Within(t), ">", func(e store.Entry) { seen <- e }, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	long := strings.Repeat("a_", 128)
	for _, key := range []string{"g", "_ctl.g", "Upper/Case=1", long} {
		trial.Must(t, other, store.Write{Key: key, Value: []byte("other's")})
		trial.Must(t, one, store.Write{Key: key, Value: []byte("one's")})
		e := <-seen
		if e.Key != key || string(e.Value) != "one's" {
			t.Errorf("%q: %+v", key, e)
		}
	}
}

// A program's own client speaks JSON and may be slowed down by its limiter,
// which is not for renewals.
func clientset(t *testing.T, srv *kubelab.Server) {
	config := srv.Admin()
	config.QPS, config.Burst = 0.001, 1
	client, err := rest.RESTClientFor(coordination(t, config)) // made like the client of a clientset
	if err != nil {
		t.Fatal(err)
	}
	s, err := k8sstore.New(client, k8sstore.Options{Namespace: newNamespace(srv)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		client.Client.CloseIdleConnections()
	})
	if report, err := checked(t, s); err != nil || len(report.Warnings) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	h := trial.Listen(t, s, "g")
	var rev uint64
	for i := range 20 {
		value := fmt.Sprintf("%d \xff", i)
		rev = trial.Must(t, s, store.Write{Key: "g", Expected: rev, Value: []byte(value), Tombstone: i%2 == 1})
		if e := h.Value(value); e.Revision != rev || e.Tombstone != (i%2 == 1) {
			t.Errorf("%+v", e)
		}
	}
	core := srv.Admin()
	core.GroupVersion, core.APIPath, core.NegotiatedSerializer = &schema.GroupVersion{Version: "v1"}, "/api", serializer.NewCodecFactory(runtime.NewScheme())
	other, err := rest.RESTClientFor(core)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k8sstore.New(other, k8sstore.Options{Namespace: "n"}); err == nil || !strings.Contains(err.Error(), "CoordinationV1") {
		t.Errorf("a client of another group: %v", err)
	}
}

// A name that is no longer watched before its watch is open delays nothing, and
// the remaining names are followed.
func comeAndGo(t *testing.T, srv *kubelab.Server) {
	opts := k8sstore.Options{Namespace: newNamespace(srv)}
	proxy := natslab.NewRelay(t, srv.Addr)
	s := open(t, kubelab.Through(srv.Admin(), proxy.Addr()), opts)
	proxy.Hold(natslab.ToClient)
	if _, err := s.Watch(trial.Brief(t), []string{"gone"}, func(store.Entry) {}); store.Classify(err) != store.Transient {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { // the first name, while the second comes
		_, err := s.Watch(ctx, []string{"gone"}, func(store.Entry) {})
		trial.Outcome(t, err, store.Transient)
	})
	kept := make(chan store.Entry, 100)
	begun := make(chan func(), 1)
	all.Go(func() {
		<-time.After(50 * time.Millisecond)
		stop, err := s.Watch(trial.Within(t), []string{"kept"}, func(e store.Entry) { kept <- e })
		if err != nil {
			t.Error(err)
		}
		begun <- stop
	})
	<-time.After(200 * time.Millisecond) // both have been asked for
	cancel()
	proxy.Resume()
	defer (<-begun)()
	all.Wait()
	trial.Await(t, "connected", func() bool { return s.ConnState() == store.Connected })
	rev := trial.Must(t, s, store.Write{Key: "kept", Value: []byte("1")})
	for e := range kept {
		if e.Revision == rev {
			break
		}
	}

	// And to and fro between single names and all of them.
	h := trial.Listen(t, s, "kept")
	for i := range 10 {
		stop, err := s.WatchPattern(trial.Within(t), "*", func(store.Entry) {}, func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			stop()
		}
		rev = trial.Must(t, s, store.Write{Key: "kept", Expected: rev, Value: fmt.Append(nil, "round ", i)})
		h.Value(fmt.Sprint("round ", i))
		if i%2 == 1 {
			stop()
		}
	}
}
