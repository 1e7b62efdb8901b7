package k8sstore_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sstore"
	"github.com/seed-ff2cb582/leader/store"
)

// A program that has a configuration of client-go elects over it. The port of
// this example is closed, so that its campaign ends with its context.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	config := &rest.Config{Host: "https://127.0.0.1:1"} // in a pod: rest.InClusterConfig()
	st, err := k8sstore.NewForConfig(config, k8sstore.Options{Namespace: "default"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close() //nolint:errcheck // it does not fail
	cfg := leader.ElectionConfig{Group: "reports", InstanceID: "pod-1", TTL: 10 * time.Second, HeartbeatInterval: 3 * time.Second}
	err = leader.RunWithStore(ctx, st, cfg, func(ctx context.Context, term leader.Term) error {
		fmt.Println("leading in term", term.Number)
		<-ctx.Done() // work here, until ctx ends
		return nil
	})
	fmt.Println(err)
	// Output: <nil>
}

// A store with its own connections, by $KUBECONFIG, or in a pod.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := k8sstore.Open(ctx, "k8s://default?kubeconfig=/nowhere")
	fmt.Println(store.Classify(err))
	// Output: permanent
}
