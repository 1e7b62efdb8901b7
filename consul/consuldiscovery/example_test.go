package consuldiscovery_test

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/consul/consuldiscovery"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A candidate announces itself in Consul while it leads. The port of this
// example is closed, so that its entry waits for Consul, and the election does
// not.
func Example() {
	client, err := api.NewClient(&api.Config{Address: "127.0.0.1:1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := consuldiscovery.New(client, consuldiscovery.Options{Service: "reports"})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: "reports", InstanceID: "host-1", TTL: 10 * time.Second, HeartbeatInterval: 3 * time.Second,
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
