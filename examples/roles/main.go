// Command roles spreads many roles over its copies: each role is worked for by
// one copy, and each copy has its fair share.
//
//	go run ./examples/roles -dev -id a      # with its own NATS server; in other terminals:
//	go run ./examples/roles -id b
//	go run ./examples/roles -id c
//
// The first has all roles. As others join, it hands roles over, one after the
// other, until all have as many; when one ends, the rest take over what it had.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/examples/internal/app"
)

func main() { os.Exit(app.Main(run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f app.Flags
	var count int
	err := f.Parse("roles", args, stderr, func(fs *flag.FlagSet) {
		fs.IntVar(&count, "roles", 6, "the `number` of roles")
	})
	if err != nil {
		return err
	}
	nc, closeAll, err := f.Connect()
	if err != nil {
		return err
	}
	defer closeAll()

	// All roles share one connection, one watch and one configuration.
	roles, err := leader.NewRoleManager(nc, leader.RoleManagerConfig{
		Election: leader.ElectionConfig{
			Bucket: app.Bucket, BucketAutoCreate: true, InstanceID: f.ID, TTL: f.TTL, Logger: f.Logger(), DeleteOnStop: true,
			AcquireGrace: f.Grace(),
		}.WithProfile(f.Profile),
		Spread: leader.SpreadConfig{Enabled: true, Pace: 0.5},
	})
	if err != nil {
		return err
	}
	for i := range count {
		name := fmt.Sprintf("shard.%d", i)
		err := roles.Add(ctx, leader.Role{Name: name, OnPromote: func(ctx context.Context, _ string) {
			work(ctx, stdout, f.ID, name)
		}})
		if err != nil {
			return err
		}
	}
	if err := roles.Start(ctx); err != nil { // the end of ctx stops it, too
		return err
	}
	select {
	case <-ctx.Done():
	case <-roles.Done(): // by itself; Stop returns why
	}
	return roles.Stop() // waits until all work has stopped and all roles are released
}

// work lasts as long as the term. The next callback of the role waits for it to
// return.
func work(ctx context.Context, out io.Writer, id, role string) {
	term, _ := leader.TermFromContext(ctx)
	app.Say(out, id, term, "begins role=%s", role)
	for item := 1; app.Sleep(ctx, 100*time.Millisecond); item++ {
		app.Say(out, id, term, "works role=%s item=%d", role, item)
	}
}
