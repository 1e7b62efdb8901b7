package gcsstore_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/gcsstore"
)

// A program that has a client elects over it. No server listens on the port of
// this example, so that its campaign ends with its context.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	service, err := storage.NewService(ctx, option.WithoutAuthentication(), option.WithEndpoint("http://127.0.0.1:1/storage/v1/"))
	if err != nil {
		fmt.Println(err)
		return
	}
	st, err := gcsstore.New(service, gcsstore.Options{Bucket: "my-bucket"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close() //nolint:errcheck // it returns nil
	cfg := leader.ElectionConfig{Group: "reports", InstanceID: "host-1", TTL: 30 * time.Second, HeartbeatInterval: 10 * time.Second}
	err = leader.RunWithStore(ctx, st, cfg, func(ctx context.Context, term leader.Term) error {
		fmt.Println("leading in term", term.Number)
		<-ctx.Done() // work here, until ctx ends
		return nil
	})
	fmt.Println(err)
	// Output: <nil>
}

// ExampleOpen opens a store that makes a client, for programs that have none.
func ExampleOpen() {
	_, err := gcsstore.Open(context.Background(), "gs://my-bucket/elections?endpoint=http://127.0.0.1:1&auth=none")
	fmt.Println(store.Classify(err))
	// Output: transient
}
