package telemetry_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
	"github.com/seed-ff2cb582/leader/telemetry"
)

// The instruments of some monitoring system. These print how terms ended, and
// leave all else out.
type instruments struct{ id telemetry.Identity }

func (i instruments) Add(m telemetry.Metric, labels ...string) {
	if m != telemetry.TermsEnded {
		return
	}
	d := m.Definition()
	fmt.Println(d.Prometheus(), "+1")
	values := i.id.Values(labels)
	for i, name := range append(telemetry.Labels(), d.Labels...) {
		fmt.Printf("  %s=%s\n", name, values[i])
	}
}

func (instruments) Observe(telemetry.Metric, float64, ...string) {}

// An adapter to another system: counters and observations are pushed into a
// Sink, gauges are asked for.
func Example() {
	var roster telemetry.Roster[*telemetry.Tracker]
	hooks := leader.Hooks{PerElection: func(e leader.Election, cfg leader.ElectionConfig) leader.Hooks {
		id := telemetry.IdentityOf(cfg)
		tracker := telemetry.Track(e, cfg, instruments{id})
		return leader.JoinHooks(tracker.Hooks(), roster.Show(id, tracker))
	}}
	cfg := leader.ElectionConfig{
		Bucket: "leaders", Group: "reports", InstanceID: "worker-1", Hooks: hooks,
		TTL: 3 * time.Second, HeartbeatInterval: time.Second,
	}
	err := leader.RunWithStore(context.Background(), memstore.New(), cfg, func(context.Context, leader.Term) error {
		for _, tracker := range roster.All() {
			tracker.Gauges(func(m telemetry.Metric, value float64, _ ...string) {
				if m == telemetry.IsLeader {
					fmt.Println(m.Definition().Prometheus(), value)
				}
			})
		}
		return nil
	})
	fmt.Println("error:", err)
	fmt.Println("elections shown after the end:", len(roster.All()))
	// Output:
	// election_is_leader 1
	// election_terms_ended_total +1
	//   role=reports
	//   instance_id=worker-1
	//   bucket=leaders
	//   reason=stopped
	// error: <nil>
	// elections shown after the end: 0
}
