package leader_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A program that does not take part follows who leads all groups of a bucket.
// It needs the right to read alone.
//
//nolint:testableexamples // it needs a server
func ExampleObserve() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	for info, err := range leader.Observe(context.Background(), nc, "leaders", ">") {
		switch {
		case err != nil:
			fmt.Println(err) // the last one: what has to be repaired in NATS
		case info.ID == "":
			fmt.Println(info.Group, "is vacant:", info.Reason)
		default:
			fmt.Println(info.Group, "is led by", info.ID, "at", info.Address)
		}
	}
}

// List who leads each of many groups.
func ExampleSnapshotWithStore() {
	st := memstore.New() // with NATS, leader.Snapshot(ctx, nc, "leaders", "billing.*") does all of this
	holds(st, "billing.eu", "host-1")
	holds(st, "billing.us", "host-2")
	holds(st, "reports", "host-3")

	infos, err := leader.SnapshotWithStore(context.Background(), st, "billing.*")
	if err != nil {
		fmt.Println(err)
	}
	for _, info := range infos {
		fmt.Println(info.Group, info.ID)
	}
	// Output:
	// billing.eu host-1
	// billing.us host-2
}

// A program that shows who leads learns when its list is complete.
func ExampleObserveFuncWithStore() {
	st := memstore.New()
	holds(st, "reports", "host-3")

	ctx, cancel := context.WithCancel(context.Background())
	err := leader.ObserveFuncWithStore(ctx, st, ">", leader.Observer{
		Leader: func(info leader.LeaderInfo) {
			if info.ID == "" {
				fmt.Println(info.Group, "is vacant:", info.Reason)
				cancel() // enough for an example
				return
			}
			fmt.Println(info.Group, "is led by", info.ID)
		},
		Present: func() {
			fmt.Println("that was all")
			st.Delete("reports") // as an operator does
		},
	})
	fmt.Println(err)
	// Output:
	// reports is led by host-3
	// that was all
	// reports is vacant: deleted
	// <nil>
}

// holds writes the record of a leader.
func holds(st store.Store, group, id string) {
	_, _ = st.CompareAndSwap(context.Background(), store.Write{Key: group, Value: fmt.Appendf(nil, `{"id":%q,"ttl":3000}`, id)})
}

// An instance takes part in the elections of many roles. On NATS,
// NewRoleManager is given the connection.
func ExampleRoleManager() {
	m, err := leader.NewRoleManagerWithStore(memstore.New(), leader.RoleManagerConfig{
		Election: leader.ElectionConfig{
			InstanceID: "host-1", TTL: 3 * time.Second, HeartbeatInterval: time.Second, DeleteOnStop: true,
		},
		MaxRoles: 50,
		Spread:   leader.SpreadConfig{Enabled: true},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, tenant := range []string{"acme", "globex"} {
		err := m.Add(ctx, leader.Role{Name: "billing." + tenant, OnPromote: func(ctx context.Context, _ string) {
			<-ctx.Done() // the work of this role, for as long as the term lasts
		}})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := m.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	led := 0
	for role := range m.Observe(ctx) {
		if role.IsLeader {
			led++
			fmt.Println("leads", role.Name)
		}
		if led == 2 {
			break
		}
	}
	if err := m.Stop(); err != nil {
		fmt.Println(err)
		return
	}
	// Unordered output:
	// leads billing.acme
	// leads billing.globex
}
