package consulstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/consul/consulstore"
	"github.com/seed-ff2cb582/leader/store"
)

// A program that has a client elects over it. The port of this example is
// closed, so that its campaign ends with its context.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	config := api.DefaultConfig()
	config.Address = "127.0.0.1:1"
	config.Transport.MaxIdleConnsPerHost, config.Transport.MaxConnsPerHost = 48, 112
	client, err := api.NewClient(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	st, err := consulstore.New(client, consulstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close() //nolint:errcheck // it never fails
	cfg := leader.ElectionConfig{Group: "reports", InstanceID: "host-1", TTL: 20 * time.Second, HeartbeatInterval: 5 * time.Second}
	err = leader.RunWithStore(ctx, st, cfg, func(ctx context.Context, term leader.Term) error {
		fmt.Println("leading in term", term.Number)
		<-ctx.Done() // work here, until ctx ends
		return nil
	})
	fmt.Println(err)
	// Output: <nil>
}

// A store with its own connection, for programs that have none.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := consulstore.Open(ctx, "consul://127.0.0.1:1/leader/")
	fmt.Println(store.Classify(err))
	// Output: transient
}
