package natsfence_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/fence/natsfence"
)

// A leader publishes to a stream, which refuses what a leader of before
// publishes late.
func Example() { //nolint:testableexamples // it needs a server
	nc, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1))
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
	cfg := leader.ElectionConfig{
		Bucket: "leaders", Group: "reports", InstanceID: "host-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
	}
	err = leader.Run(context.Background(), nc, cfg, func(ctx context.Context, term leader.Term) error {
		reports, err := natsfence.OpenStream(ctx, js, "REPORTS", "reports.guard", term)
		if err != nil {
			return err
		}
		_, err = reports.Publish(ctx, "reports.daily", []byte("42 orders"))
		if errors.Is(err, fence.ErrStale) {
			fmt.Println("another leads by now, and nothing was published")
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
}
