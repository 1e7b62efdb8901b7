package s3store_test

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/s3store"
)

// A program that has a client elects over it. No server listens on the port of
// this example, so that its campaign ends with its context.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	client := s3.New(s3.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String("http://127.0.0.1:1"), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
	})
	st, err := s3store.New(client, s3store.Options{Bucket: "my-bucket"})
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
	_, err := s3store.Open(context.Background(), "s3://key:secret@my-bucket/elections?endpoint=http://127.0.0.1:1")
	fmt.Println(store.Classify(err))
	// Output: transient
}
