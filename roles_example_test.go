package leader_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

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
