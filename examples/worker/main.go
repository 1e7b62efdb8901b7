// Command worker is the smallest active/passive program: of all its copies one
// works, and when that one ends, for whatever reason, another goes on.
//
//	go run ./examples/worker -dev -id a      # with its own NATS server; in other terminals:
//	go run ./examples/worker -id b
//	go run ./examples/worker -id c
//
// End the one that works with ^C: another works within milliseconds. Kill it
// with kill -9: another works when the lease has run out, 3.3 s after its last
// renewal. Stop it with kill -STOP, wait, and let it go on with kill -CONT: it
// finds its term over, and works no more.
package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/examples/internal/app"
)

func main() { os.Exit(app.Main(run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f app.Flags
	if err := f.Parse("worker", args, stderr, nil); err != nil {
		return err
	}
	nc, closeAll, err := f.Connect()
	if err != nil {
		return err
	}
	defer closeAll()

	cfg := leader.ElectionConfig{
		Bucket: app.Bucket, BucketAutoCreate: true, Group: "worker", InstanceID: f.ID, TTL: f.TTL, Logger: f.Logger(), AcquireGrace: f.Grace(),
	}.WithProfile(f.Profile)
	return leader.Run(ctx, nc, cfg, func(ctx context.Context, term leader.Term) error {
		app.Say(stdout, f.ID, term, "begins")
		// The context is looked at right before each step, and each step is
		// short: so long, and no longer, may the work outlast the term. Where
		// even that is too long, fence the resource: see the scheduler.
		for item := 1; app.Sleep(ctx, 100*time.Millisecond); item++ {
			app.Say(stdout, f.ID, term, "works item=%d", item)
		}
		return nil // the term is over, and Run campaigns again
	})
}
