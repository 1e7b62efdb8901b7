// Package exporter is leader exporter: Prometheus metrics of all groups of a
// bucket, by one who only observes.
package exporter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
)

// A Command is the command line of leader exporter.
type Command struct {
	app.Target
	web.Hosts

	HTTP string `name:"http" default:"127.0.0.1:9464" placeholder:"ADDRESS" help:"Where to serve the metrics."`
	All  bool   `help:"With the groups that are marked as gone (leader forget)."`
}

// Help is shown below the flags.
func (Command) Help() string {
	return `Serves Prometheus metrics of every group in the bucket, at /metrics, without being a candidate for any. It
needs a viewer's rights and writes nothing. /livez answers 200 while the exporter runs.

The metrics of groups are named election_group_… and carry the labels bucket and role (the group), as those of the
library do, so that they can be joined with those of the candidates. Those of the exporter itself are named
election_observer_… and carry bucket alone. Labels that hold what people write into records (leader, address, version)
are cut at 128 bytes, and have one series per group:

` + describe() + `
A group that has no record and is not paused, or that is marked as gone (leader forget) unless --all is given, has no series. Counters start with the exporter.

The exporter has no access control of its own: serve other than loopback addresses to those who may see who leads. A request for a
name that may be a web site's is refused (403). A Prometheus that scrapes by a name of the domain name system needs --allow-host NAME.

Exit status: 0 when interrupted, 1 no server or no address to listen on, 2 wrong usage, 5 a server without JetStream.

Examples:

  leader exporter           for a Prometheus on this host
  leader exporter --dev     with sample elections
  leader exporter -s nats://nats:4222 -b leaders --http :9464`
}

// Validate checks what the parser cannot.
func (c Command) Validate() error {
	return errors.Join(c.Target.Validate(), web.CheckAddress("--http", c.HTTP), c.CheckHosts())
}

// Run serves until it is interrupted.
func (c Command) Run(ctx context.Context, std app.Streams) error {
	session, err := c.Await(ctx, "exporter")
	if err != nil {
		return err
	}
	defer session.Close()
	st, err := session.WholeStore()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &board.Board{}
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	handler, err := newHandler(&collector{board: b, store: st, bucket: session.Bucket, connected: session.Connected, all: c.All})
	if err != nil {
		return err
	}
	srv, err := web.ListenOpen(ctx, "--http", c.HTTP, c.Hosts, handler)
	if err != nil {
		return err
	}
	following.Go(func() {
		// The metrics show failures, too.
		_ = b.Follow(ctx, st, ">", func(news board.News) {
			if news.Failed != nil {
				app.Say(std.Err, news.Failed)
			}
		})
	})
	fmt.Fprintln(std.Out, srv.URL()+"/metrics")
	return srv.Serve(ctx)
}

func newHandler(c *collector) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	for _, one := range []prometheus.Collector{
		c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector(),
	} {
		if err := registry.Register(one); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/metrics", http.StatusFound)
	})
	return mux, nil
}
