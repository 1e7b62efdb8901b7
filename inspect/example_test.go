package inspect_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A tool reads a group's entry by itself.
func ExampleReadRecord() {
	ctx := context.Background()
	st := memstore.New()
	err := leader.RunWithStore(ctx, st, leader.ElectionConfig{
		Group: "reports", InstanceID: "host-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
	}, func(ctx context.Context, _ leader.Term) error {
		entry, err := st.Get(ctx, "reports")
		fmt.Println(inspect.ReadRecord(entry).ID)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	entry, err := st.Get(ctx, "reports")
	fmt.Printf("%q %v\n", inspect.ReadRecord(entry).ID, err) // released: a vacancy
	// Output:
	// host-1
	// "" <nil>
}
