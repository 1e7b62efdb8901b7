package leaderprom_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderprom"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The metrics are made once, and their hooks given to every election.
func Example() {
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	metrics, err := leaderprom.New(registry)
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := leader.ElectionConfig{
		Group: "scheduler", InstanceID: "worker-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
		Hooks: metrics.Hooks(), // beside other hooks: leader.JoinHooks(other, metrics.Hooks())
	}
	err = leader.RunWithStore(context.Background(), memstore.New(), cfg, func(context.Context, leader.Term) error {
		const want = `
			# HELP election_is_leader 1 if this instance leads at the instant of the scrape, 0 otherwise.
			# TYPE election_is_leader gauge
			election_is_leader{bucket="",instance_id="worker-1",role="scheduler"} 1
		`
		return testutil.GatherAndCompare(registry, strings.NewReader(want), "election_is_leader")
	})
	fmt.Println("as expected:", err == nil)
	// Output:
	// as expected: true
}
