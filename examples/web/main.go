// Command web is an HTTP service of which one copy answers, its leader, and the
// others redirect there.
//
//	go run ./web -dev -id a -listen 127.0.0.1:8081     # with a NATS server of its own; in another terminal:
//	go run ./web -id b -listen 127.0.0.1:8082
//	curl -L -d '' 127.0.0.1:8081/count                 # and again at 8082: the same counter goes on
//
// It serves the probes of package probe too: /livez, /readyz and /leader.
// deploy/kubernetes/web.yaml runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/examples/internal/app"
	"github.com/seed-ff2cb582/leader/probe"
)

// drain is how long requests may take to end after a stop.
const drain = 5 * time.Second

func main() { os.Exit(app.Main(run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f app.Flags
	var listen, address string
	err := f.Parse("web", args, stderr, func(fs *flag.FlagSet) {
		fs.StringVar(&listen, "listen", app.Env("LISTEN", "127.0.0.1:8080"), "the `address` to listen on ($LISTEN)")
		fs.StringVar(&address, "address", "", "the `address` at which clients reach this copy (default: that of -listen, with $POD_IP)")
	})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	nc, closeAll, err := f.Connect()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer closeAll()

	cfg := leader.ElectionConfig{
		Bucket: app.Bucket, BucketAutoCreate: true, Group: "web", InstanceID: f.ID, TTL: f.TTL, Logger: f.Logger(), AcquireGrace: f.Grace(),
		Address:       reachable(address, l.Addr()), // the others send clients here while we lead
		DeleteOnStop:  true,
		DemoteTimeout: drain,
	}.WithProfile(f.Profile)
	e, err := leader.NewElection(nc, cfg)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s := &service{id: f.ID, e: e, out: stdout}
	// What lives as long as a term begins and ends here. A count that must
	// outlive its leader belongs into a fenced store: see the scheduler.
	e.OnPromote(func(ctx context.Context, _ string) { s.begin(ctx) })
	e.OnDemote(s.end)
	srv := &http.Server{Handler: handler(e, s), ReadHeaderTimeout: 5 * time.Second}
	return serve(ctx, e, srv, l)
}

// handler has the probes beside the service, which is the leader's alone.
func handler(e leader.Election, service http.Handler) http.Handler {
	mux := http.NewServeMux()
	probes := probe.Handler(e, probe.Options{})
	for _, path := range []string{"/livez", "/readyz", "/leader"} {
		mux.Handle(path, probes)
	}
	mux.Handle("/", probe.Redirect(e, service, probe.RedirectOptions{}))
	return mux
}

// serve serves until ctx is done, and then leaves in order: the leadership
// first, so that the next leader is there when clients are sent away.
func serve(ctx context.Context, e leader.Election, srv *http.Server, l net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	// Not ctx: its end is the beginning of ours.
	err := e.Start(context.WithoutCancel(ctx))
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
		case <-e.Done(): // by itself; Stop says why
		}
	}
	stopErr := e.Stop()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	return errors.Join(err, stopErr, srv.Shutdown(end))
}

// reachable is where clients reach what listens at an address: in Kubernetes at
// the pod's.
func reachable(address string, l net.Addr) string {
	ip := os.Getenv("POD_IP")
	tcp, ok := l.(*net.TCPAddr)
	switch {
	case address != "":
		return address
	case ip == "" || !ok:
		return l.String()
	default:
		return net.JoinHostPort(ip, fmt.Sprint(tcp.Port))
	}
}

// A service counts, from 1 on in each term.
type service struct {
	id  string
	e   leader.Election
	out io.Writer

	mu    sync.Mutex
	term  context.Context //nolint:containedctx // nil if we do not lead; ends with the term
	count int
}

func (s *service) begin(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term, s.count = ctx, 0
}

// end waits for the request that is under way, so that nobody else leads before
// it is done.
func (s *service) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term = nil
}

func (s *service) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Once more, right before the act: the request may have waited since it was
	// let in.
	if s.term == nil || s.term.Err() != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "this copy does not lead any more", http.StatusServiceUnavailable)
		return
	}
	term, _ := leader.TermFromContext(s.term)
	s.count++
	app.Say(s.out, s.id, term, "counts n=%d", s.count)
	fmt.Fprintf(w, "%s counts %d in term %d\n", s.id, s.count, term.Number)
}
