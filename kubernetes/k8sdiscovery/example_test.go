package k8sdiscovery_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/kubernetes/k8sdiscovery"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A candidate announces its pod while it leads. A program in a cluster has its
// configuration from rest.InClusterConfig. The port of this example is closed,
// so that its entry waits for an API server, and the election does not.
func Example() {
	a, err := k8sdiscovery.New(&rest.Config{Host: "http://127.0.0.1:1"}, k8sdiscovery.Options{
		Namespace: "apps", Service: "reports-leader", Pod: "reports-0", PodUID: "4f1e5d1c-8a52-4a0e-9d5c-1b8e1d6f2a3b",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close() //nolint:errcheck // nothing is under way
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: "reports", InstanceID: "reports-0", TTL: 10 * time.Second, HeartbeatInterval: 3 * time.Second,
		Address: "10.0.0.7:8080",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := e.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	// Until ctx ends.
	fmt.Println(discovery.Keep(ctx, e, a, discovery.Options{Timeout: 50 * time.Millisecond}))
	// Output: <nil>
}
