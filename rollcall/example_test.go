package rollcall_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/rollcall"
)

// Candidates answer a roll call.
func Example() { //nolint:testableexamples // it needs a server
	nc, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	election, err := leader.NewElection(nc, leader.ElectionConfig{
		Bucket: "leaders", Group: "reports", InstanceID: "host-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
		Hooks: rollcall.Hooks(nc),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer election.Stop() //nolint:errcheck // the program ends
	if err := election.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	for candidate, err := range rollcall.Ask(context.Background(), nc, "leaders", "reports") {
		fmt.Println(candidate.Instance, candidate.State, err)
	}
}
