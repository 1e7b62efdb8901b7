// Package k8sstore_test judges the Kubernetes store on real API servers.
package k8sstore_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/test/internal/leaks"
	"github.com/seed-ff2cb582/leader/test/internal/trial"
	"github.com/seed-ff2cb582/leader/test/labs/stores/kubelab"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // of client-go's own candidates
	_ = flag.Set("writes", "20")   // a default that the command line overrides; a write takes longer here than elsewhere
	leaks.Crowd()
	trial.Main(m)
}

// numbers make the names of namespaces unique.
var numbers atomic.Int64

func newNamespace(srv *kubelab.Server) string {
	return srv.Namespace(fmt.Sprintf("n%d", numbers.Add(1)))
}

// open returns a store with its own connections that is closed when the test
// ends.
func open(tb testing.TB, config *rest.Config, opts k8sstore.Options) *k8sstore.Store {
	tb.Helper()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler) // interruptions are what the tests are about
	}
	s, err := k8sstore.NewForConfig(config, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// A kubectl does to the Leases of a namespace what an operator does.
type kubectl struct {
	tb        testing.TB
	client    *rest.RESTClient
	namespace string
}

// coordination makes a configuration one of the API group
// coordination.k8s.io/v1.
func coordination(tb testing.TB, c *rest.Config) *rest.Config {
	tb.Helper()
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		tb.Fatal(err)
	}
	c.GroupVersion, c.APIPath = &coordinationv1.SchemeGroupVersion, "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return c
}

func newKubectl(tb testing.TB, srv *kubelab.Server, namespace string) *kubectl {
	tb.Helper()
	client, err := rest.RESTClientFor(coordination(tb, srv.Admin()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Client.CloseIdleConnections)
	return &kubectl{tb, client, namespace}
}

func (k *kubectl) request(verb, name string) *rest.Request {
	return k.client.Verb(verb).Namespace(k.namespace).Resource("leases").Name(name)
}

func (k *kubectl) delete(name string) error {
	return k.request(http.MethodDelete, name).Do(trial.Within(k.tb)).Error()
}

func (k *kubectl) get(name string) *coordinationv1.Lease {
	k.tb.Helper()
	var l coordinationv1.Lease
	if err := k.request(http.MethodGet, name).Do(trial.Within(k.tb)).Into(&l); err != nil {
		k.tb.Fatal(err)
	}
	return &l
}

// patch changes a Lease without a condition.
func (k *kubectl) patch(name string, change map[string]any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	return k.request(http.MethodPatch, name).SetHeader("Content-Type", string(types.MergePatchType)).Body(body).Do(trial.Within(k.tb)).Error()
}

func (k *kubectl) create(l *coordinationv1.Lease) {
	k.tb.Helper()
	if err := k.client.Post().Namespace(k.namespace).Resource("leases").Body(l).Do(trial.Within(k.tb)).Error(); err != nil {
		k.tb.Fatal(err)
	}
}

// put overwrites a register, as somebody does who has read how it is kept.
func (k *kubectl) put(name string, value []byte) error {
	err := k.patch(name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{
			"leader/record": string(value), "leader/record-base64": nil, "leader/tombstone": nil, "leader/written": nil,
		}},
		"spec": nil,
	})
	if apierrors.IsNotFound(err) {
		k.create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"leader/record": string(value)}}})
		return nil
	}
	return err
}
