package leader_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// An operator asks the leader to step down, and sees who takes over. On NATS
// the Control is made by NewControl.
func ExampleControl_StepDown() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	st := memstore.New()
	for _, id := range []string{"worker-1", "worker-2"} {
		e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
			Group: "reports", InstanceID: id, TTL: 10 * time.Second, HeartbeatInterval: 2 * time.Second,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer e.Stop() //nolint:errcheck,gocritic // there are two of them, and the process ends
		if err := e.Start(ctx); err != nil {
			fmt.Println(err)
			return
		}
		for info := range e.Observe(ctx) {
			if info.ID != "" {
				break // worker-1 leads, and worker-2 knows it
			}
		}
	}

	ops, err := leader.NewControlWithStore(st, "ann")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ops.Close()
	h, err := ops.StepDown(ctx, "reports", "new kernel")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(h.From.ID, "handed over to", h.To.ID)
	// Output: worker-1 handed over to worker-2
}
