package objects_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/objects"
)

// A bucket of any system whose writes take conditions becomes a store. The one
// here is in memory; store/s3store has one of Amazon S3.
func Example() {
	st, err := objects.New(&memory{}, objects.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close() //nolint:errcheck // it has no connection
	err = leader.RunWithStore(context.Background(), st, leader.ElectionConfig{
		Group: "reports", InstanceID: "host-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
	}, func(context.Context, leader.Term) error {
		fmt.Println("leading")
		return nil // the work is done: Run releases
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: leading
}
