package natsstore_test

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// An administrator's program makes the bucket, so that candidates need no right
// to make streams.
func ExampleEnsureBucket() { //nolint:testableexamples // it needs a server
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := natsstore.EnsureBucket(context.Background(), js, natsstore.BucketConfig{Bucket: "leaders", Replicas: 3}); err != nil {
		fmt.Println(err)
	}
}
