package mongostore_test

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/mongostore"
)

// A program that has a client elects over it. No server listens on the port of
// this example, so that its campaign ends with its context.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1").SetServerSelectionTimeout(100 * time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Disconnect(ctx) //nolint:errcheck // nothing is under way
	st, err := mongostore.New(client.Database("app"), mongostore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close() //nolint:errcheck // the client is the program's own
	cfg := leader.ElectionConfig{Group: "reports", InstanceID: "host-1", TTL: 20 * time.Second, HeartbeatInterval: 5 * time.Second}
	err = leader.RunWithStore(ctx, st, cfg, func(ctx context.Context, term leader.Term) error {
		fmt.Println("leading in term", term.Number)
		<-ctx.Done() // work here, until ctx ends
		return nil
	})
	fmt.Println(err)
	// Output: <nil>
}

// ExampleOpen opens a store that makes a connection, for programs that have
// none.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := mongostore.Open(ctx, "mongodb://127.0.0.1:1/app?collection=leaders")
	fmt.Println(store.Classify(err))
	// Output: transient
}
