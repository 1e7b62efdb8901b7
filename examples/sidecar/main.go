// Command sidecar campaigns for a program beside it that is not written in Go,
// and answers it over HTTP whether it leads:
//
//	go run ./examples/sidecar -group reports -listen 127.0.0.1:8081 \
//	    -health http://127.0.0.1:8080/healthz
//
// The program asks before each piece of work:
//
//	curl -fs http://127.0.0.1:8081/leader      # 200 on the leader, 503 elsewhere
//
// The answer has the number of the term in its header Leader-Term, which a
// database or a service can compare with the largest that it has seen, and
// refuse smaller ones. Without that a piece of work may outlast the term. So
// that none does in the ordinary course, a piece takes less than -drain, which
// is how long the sidecar waits between the last 200 and the release. If the
// lease is lost (NATS is out of reach), a piece that takes up to TTL/5 ends
// before another leads where the clocks run alike. As far as they run apart
// less is left, and nothing where they do so by ClockDrift.
//
// If the program does not answer at -health, its copy is not fit to lead, and
// another takes over.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/examples/internal/app"
	"github.com/seed-ff2cb582/leader/probe"
)

func main() { os.Exit(app.Main(run)) }

type settings struct {
	group, listen, health string
	drain                 time.Duration
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f app.Flags
	var s settings
	err := f.Parse("sidecar", args, stderr, func(fs *flag.FlagSet) {
		fs.StringVar(&s.group, "group", app.Env("LEADER_GROUP", "app"), "the election's `name` ($LEADER_GROUP)")
		fs.StringVar(&s.listen, "listen", app.Env("LISTEN", "127.0.0.1:8081"), "the `address` to listen on ($LISTEN)")
		fs.StringVar(&s.health, "health", app.Env("HEALTH_URL", ""), "a `URL` of the program that answers 200 while it is well ($HEALTH_URL)")
		fs.DurationVar(&s.drain, "drain", time.Second, "how long the program may go on with what it began when the leadership is given up")
	})
	if err != nil {
		return err
	}
	nc, closeAll, err := f.Connect()
	if err != nil {
		return err
	}
	defer closeAll()

	cfg := leader.ElectionConfig{
		Bucket: app.Bucket, BucketAutoCreate: true, Group: s.group, InstanceID: f.ID, TTL: f.TTL, Logger: f.Logger(), AcquireGrace: f.Grace(),
		DeleteOnStop: true, DemoteTimeout: s.drain + time.Second,
	}.WithProfile(f.Profile)
	if s.health != "" {
		cfg.HealthChecker = checker(s.health)
	}
	e, err := leader.NewElection(nc, cfg)
	if err != nil {
		return err
	}
	e.OnPromote(func(ctx context.Context, _ string) {
		term, _ := leader.TermFromContext(ctx)
		app.Say(stdout, f.ID, term, "begins")
	})
	// /leader answers 503 from before this is called, and the release follows
	// after.
	e.OnDemote(func() { <-time.After(s.drain) })
	return serve(ctx, e, s.listen)
}

// serve serves the probes until ctx is done, and a little longer: the program
// beside us asks until the end.
func serve(ctx context.Context, e leader.Election, listen string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: probe.Handler(e, probe.Options{}), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	err = e.Start(context.WithoutCancel(ctx))
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
		case <-e.Done(): // by itself; Stop returns why
		}
	}
	return errors.Join(err, e.Stop(), srv.Close())
}

// A checker asks a URL whether the program is well.
type checker string

// Check implements leader.HealthChecker.
func (c checker) Check(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, string(c), http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
