package once_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/once"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// Each host calls RunWithStore when a day begins. One of them runs the backup.
func ExampleRunWithStore() {
	st := memstore.New()
	for _, host := range []string{"host-1", "host-2"} {
		cfg := leader.ElectionConfig{Group: "backup", InstanceID: host, TTL: time.Second, HeartbeatInterval: 100 * time.Millisecond}
		ran, err := once.RunWithStore(context.Background(), st, cfg, once.Every(1000*time.Hour),
			func(_ context.Context, _ leader.Term) error {
				fmt.Println("backup on", host)
				return nil
			})
		fmt.Println(host, ran, err)
	}
	// Output:
	// backup on host-1
	// host-1 true <nil>
	// host-2 false <nil>
}
