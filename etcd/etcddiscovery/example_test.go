package etcddiscovery_test

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/discovery"
	"github.com/seed-ff2cb582/leader/etcd/etcddiscovery"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A candidate announces itself in etcd while it leads. The port of this example
// is closed, so that its entry waits for etcd, and the election does not.
func Example() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:1"}, Logger: zap.NewNop()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close() //nolint:errcheck // nothing is under way
	a, err := etcddiscovery.New(client, etcddiscovery.Options{})
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
