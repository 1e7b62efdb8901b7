package k8sstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store"
)

func TestNewRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	if _, err := k8sstore.New(nil, k8sstore.Options{Namespace: "n"}); err == nil {
		t.Error("no client")
	}
	if _, err := k8sstore.New((*rest.RESTClient)(nil), k8sstore.Options{Namespace: "n"}); err == nil {
		t.Error("a fake clientset's client")
	}
	if _, err := k8sstore.NewForConfig(nil, k8sstore.Options{Namespace: "n"}); err == nil {
		t.Error("no configuration")
	}
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	for _, opts := range []k8sstore.Options{{}, {Namespace: "n", Timeout: -1}, {Namespace: "n", Prefix: "Team"}} {
		if _, err := k8sstore.NewForConfig(config, opts); err == nil {
			t.Errorf("%+v", opts)
		}
	}
}

// Errors that can be decided without a server are.
func TestKeysAndValuesAreJudgedWithoutAServer(t *testing.T) {
	t.Parallel()
	s, err := k8sstore.NewForConfig(&rest.Config{Host: "https://127.0.0.1:1"}, k8sstore.Options{Namespace: "n", Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it does not fail
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, w := range []store.Write{{Key: ""}, {Key: "a+b"}, {Key: "a", Value: make([]byte, k8sstore.MaxValue+1)}} {
		if _, err := s.CompareAndSwap(ctx, w); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("key %q, %d bytes: %v", w.Key, len(w.Value), err)
		}
	}
	if _, err := s.Get(ctx, "a b"); !errors.Is(err, store.ErrInvalid) {
		t.Error(err)
	}
	// The port is closed, and nothing left.
	if _, err := s.CompareAndSwap(ctx, store.Write{Key: "a"}); store.Classify(err) != store.Transient {
		t.Error(err)
	}
}
