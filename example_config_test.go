package leader_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A group and a profile are enough to begin with.
func ExampleConfigFor() {
	cfg := leader.ConfigFor("reports", leader.ProfileLowLatency)
	fmt.Println(cfg.Bucket, cfg.Group, cfg.TTL, cfg.HeartbeatInterval, cfg.Validate())
	// Output: leaders reports 3s 1s <nil>
}

// A profile is a set of initial values. Fields that are set already stay.
func ExampleElectionConfig_WithProfile() {
	cfg := leader.ElectionConfig{Bucket: "leaders", Group: "scheduler", InstanceID: "worker-1"}
	for _, p := range []leader.Profile{leader.ProfileLowLatency, leader.ProfileStable, leader.ProfileHighThroughput} {
		c := cfg.WithProfile(p)
		fmt.Printf("%v: TTL %v, heartbeat %v\n", p, c.TTL, c.HeartbeatInterval)
	}
	cfg.TTL = 6 * time.Second
	fmt.Println("mine:", cfg.WithProfile(leader.ProfileLowLatency).TTL)
	// Output:
	// low-latency: TTL 3s, heartbeat 1s
	// stable: TTL 20s, heartbeat 4s
	// high-throughput: TTL 15s, heartbeat 5s
	// mine: 6s
}

// A configuration is refused with every fault named.
func ExampleElectionConfig_Validate() {
	err := leader.ElectionConfig{Group: "scheduler", TTL: 2 * time.Second, HeartbeatInterval: time.Second}.Validate()
	fmt.Println(errors.Is(err, leader.ErrInvalidConfig))
	if fault, ok := errors.AsType[*leader.ConfigError](err); ok {
		fmt.Printf("the first fault: %s %s\n", fault.Field, fault.Rule)
	}
	// Output:
	// true
	// the first fault: InstanceID is required
}

// Where one machine is better suited than the others, its candidate has a
// higher priority, and takes over from the current leader when it has come up.
// The work of the other stops first.
func ExampleElectionConfig_priority() {
	ctx := context.Background()
	st := memstore.New()
	promoted := make(chan string, 2)
	candidate := func(id string, priority int) leader.Election {
		e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
			Group: "scheduler", InstanceID: id, TTL: 5 * time.Second, HeartbeatInterval: 50 * time.Millisecond,
			Priority: priority, AllowPriorityTakeover: true,
			MinTenure: 100 * time.Millisecond, // the default, 10 × TTL, keeps leadership from flapping
		})
		if err != nil {
			panic(err)
		}
		e.OnPromote(func(context.Context, string) { promoted <- id })
		e.OnDemote(func() { fmt.Println(id, "is demoted:", e.Status().Reason) })
		_ = e.Start(ctx)
		return e
	}
	small := candidate("small", 0)
	fmt.Println(<-promoted, "leads")
	large := candidate("large", 10)
	fmt.Println(<-promoted, "leads")
	_ = small.Stop()
	_ = large.Stop()
	// Output:
	// small leads
	// small is demoted: outranked
	// large leads
	// large is demoted: stopped
}

// Where a program is back soon after it was restarted, its leadership can stay
// where it is: the others leave what it released alone for the back-off. The
// failover of a host that does not come back takes that much longer. With a
// splay, programs that are started together do not all claim at once.
func ExampleCampaignConfig() {
	ctx := context.Background()
	st := memstore.New()
	promoted := make(chan string)
	candidate := func(id string) leader.Election {
		e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
			Group: "scheduler", InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: time.Second, DeleteOnStop: true,
			Campaign: leader.CampaignConfig{Splay: 20 * time.Millisecond, Backoff: time.Minute},
		})
		if err != nil {
			panic(err)
		}
		e.OnPromote(func(context.Context, string) { promoted <- id })
		_ = e.Start(ctx)
		return e
	}
	first := candidate("worker-1")
	fmt.Println(<-promoted, "leads")
	second := candidate("worker-2")
	for info := range second.Observe(ctx) {
		if info.ID == "worker-1" {
			break // worker-2 has seen that another leads
		}
	}
	_ = first.Stop()
	again := candidate("worker-1")
	fmt.Println(<-promoted, "leads")
	_ = again.Stop()
	_ = second.Stop()
	// Output:
	// worker-1 leads
	// worker-1 leads
}

// In a rollout the new version takes over as soon as it is there; with
// PreferOlder the old one would lead until the last of it is gone.
func ExampleVersionPolicy() {
	ctx := context.Background()
	st := memstore.New()
	candidate := func(id, version string) leader.Election {
		e, err := leader.NewElectionWithStore(st, leader.ElectionConfig{
			Group: "scheduler", InstanceID: id, TTL: 5 * time.Second, HeartbeatInterval: 50 * time.Millisecond,
			Version: version, VersionPolicy: leader.PreferNewer,
			AllowPriorityTakeover: true, MinTenure: 100 * time.Millisecond,
		})
		if err != nil {
			panic(err)
		}
		_ = e.Start(ctx)
		return e
	}
	older := candidate("worker-1", "1.9.0")
	newer := candidate("worker-2", "1.10.0")
	for info := range older.Observe(ctx) {
		if info.Version == "1.10.0" {
			fmt.Println(info.ID, "leads, version", info.Version)
			break
		}
	}
	_ = older.Stop()
	_ = newer.Stop()
	// Output:
	// worker-2 leads, version 1.10.0
}

// A fitness holds what a program knows of its own health.
type fitness struct{ ill atomic.Bool }

// Check implements leader.HealthChecker.
func (f *fitness) Check(context.Context) bool { return !f.ill.Load() }

// A leader that is not well stops its work and hands over. It campaigns again
// when it is well.
func ExampleHealthChecker() {
	ctx := context.Background()
	health := &fitness{}
	e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
		Group: "scheduler", InstanceID: "worker-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second,
		HealthChecker: health, HealthCheckInterval: 10 * time.Millisecond, MaxConsecutiveFailures: 3,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	e.OnPromote(func(context.Context, string) {
		fmt.Println("promoted")
		health.ill.Store(true)
	})
	demoted := make(chan leader.ElectionStatus)
	e.OnDemote(func() { demoted <- e.Status() })
	_ = e.Start(ctx)
	status := <-demoted
	fmt.Println("demoted:", status.Reason, "- does not campaign:", status.Barred)
	_ = e.Stop()
	// Output:
	// promoted
	// demoted: unhealthy - does not campaign: unhealthy
}

// A store that may forget what it acknowledged, such as one that keeps its data
// in memory, could show two leaders. With a cool-down a new leader holds the
// record for a whole lease before it is promoted, and the old one's lease has
// run out by then. GraceAuto does so where the store reports that it may
// forget.
func ExampleAcquireGrace() {
	cfg := leader.ElectionConfig{
		Group: "scheduler", InstanceID: "worker-1", TTL: 200 * time.Millisecond, HeartbeatInterval: 50 * time.Millisecond,
		AcquireGrace: leader.GraceOn,
	}
	e, err := leader.NewElectionWithStore(memstore.New(), cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	promoted := make(chan struct{})
	e.OnPromote(func(context.Context, string) { close(promoted) })
	start := time.Now()
	_ = e.Start(context.Background())
	<-promoted
	fmt.Println("after a whole lease:", time.Since(start) >= cfg.TTL)
	_ = e.Stop()
	// Output: after a whole lease: true
}
