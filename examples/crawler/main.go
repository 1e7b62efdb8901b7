// Command crawler crawls a site with tasks: of all copies one leads and hands
// them out, and all copies work.
//
//	go run ./examples/crawler -dev -id a -crawl 500    # with its own NATS server; 500 pages
//
// In other terminals, meanwhile or before, further copies with workers of their
// own, any of which may be killed:
//
//	go run ./examples/crawler -id b
//	go run ./examples/crawler -id c
//
// A page is a task, whose ID is the page's name: that many pages link to it
// does no harm. The handler fetches it and submits the pages that it links to.
// The pages of one section go to one worker (a key), so that no part of a site
// is fetched by many at once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/examples/internal/app"
	"github.com/seed-ff2cb582/leader/tasks"
)

const group = "crawler"

func main() { os.Exit(app.Main(run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f app.Flags
	var workers, pages int
	err := f.Parse("crawler", args, stderr, func(fs *flag.FlagSet) {
		fs.IntVar(&workers, "workers", 10, "how many workers this copy has")
		fs.IntVar(&pages, "crawl", 0, "serve a site with so many pages, crawl it, and end")
	})
	if err != nil {
		return err
	}
	nc, closeAll, err := f.Connect()
	if err != nil {
		return err
	}
	defer closeAll()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	st, err := tasks.OpenBucket(ctx, js, tasks.BucketConfig{Bucket: "tasks", Group: group, Create: true})
	if err != nil {
		return err
	}
	defer st.Close()

	// The parts of this copy end together.
	ctx, end := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	begin := func(part func(context.Context) error) {
		all.Go(func() { end(part(ctx)) })
	}
	wire, c := tasks.NewNATS(nc), &crawler{st: st, id: f.ID, out: stdout}
	d := tasks.NewDispatcher(st, tasks.DispatcherOptions{Group: group, Logger: f.Logger()}, wire)
	begin(func(ctx context.Context) error {
		return leader.Run(ctx, nc, leader.ElectionConfig{
			Bucket: app.Bucket, BucketAutoCreate: true, Group: group, InstanceID: f.ID, TTL: f.TTL, Logger: f.Logger(), AcquireGrace: f.Grace(),
		}.WithProfile(f.Profile), func(ctx context.Context, term leader.Term) error {
			app.Say(stdout, f.ID, term, "hands out")
			return d.Lead(ctx, term)
		})
	})
	for i := range workers {
		name := fmt.Sprintf("%s-%d", f.ID, i)
		fetch := func(ctx context.Context, t tasks.Task) ([]byte, error) { return c.fetch(ctx, name, t) }
		begin(tasks.NewWorker(wire, fetch, tasks.WorkerOptions{
			Group: group, Name: name, Capacity: 2, Lease: time.Second, Logger: f.Logger(),
		}).Run)
	}
	if pages > 0 {
		begin(func(ctx context.Context) error { return c.crawl(ctx, pages) })
	}
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil // by a signal, or since all is crawled
}
