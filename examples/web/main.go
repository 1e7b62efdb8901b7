// Command web is an HTTP service of which one copy answers, its leader, and the
// others redirect there; and a client that knows the leader by itself.
//
//	go run ./examples/web -dev -id a -listen 127.0.0.1:8081
//
// The first copy runs a NATS server. In other terminals:
//
//	go run ./examples/web -id b -listen 127.0.0.1:8082
//	curl -L -d '' 127.0.0.1:8081/count        # at 8082 the same counter goes on
//	go run ./examples/web -id client -call    # 5 times a second, not redirected
//
// Then end the copy that counts, and see the client go on with the other.
//
// It serves the probes of package probe too: /livez, /readyz and /leader.
// deploy/kubernetes/web.yaml runs it. With -label and -service Kubernetes
// itself sends clients to the copy that leads, as deploy/label has it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/examples/internal/app"
	"github.com/seed-ff2cb582/leader/leaderhttp"
	"github.com/seed-ff2cb582/leader/probe"
	"github.com/seed-ff2cb582/leader/rollcall"
)

const group = "web"

const (
	// linger is how long a copy that leaves sends clients to the next leader:
	// until they know of it.
	linger = time.Second
	// drain is how long requests may take to end then.
	drain = 5 * time.Second
)

func main() { os.Exit(app.Main(run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f app.Flags
	var listen, address string
	var call bool
	var signs signpost
	err := f.Parse("web", args, stderr, func(fs *flag.FlagSet) {
		fs.StringVar(&listen, "listen", app.Env("LISTEN", "127.0.0.1:8080"), "the `address` to listen on ($LISTEN)")
		fs.StringVar(&address, "address", "", "the `address` at which clients reach this copy (default: the one of -listen, with $POD_IP)")
		fs.BoolVar(&call, "call", false, "be a client: have the leader count five times a second")
		signs.define(fs)
	})
	if err != nil {
		return err
	}
	nc, closeAll, err := f.Connect()
	if err != nil {
		return err
	}
	defer closeAll()
	if call {
		return client(ctx, nc, f.ID, stdout)
	}
	keep, err := signs.keeper(f.ID)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	cfg := leader.ElectionConfig{
		Bucket: app.Bucket, BucketAutoCreate: true, Group: group, InstanceID: f.ID, TTL: f.TTL, Logger: f.Logger(), AcquireGrace: f.Grace(),
		Address:       reachable(address, l.Addr()), // the others send clients here while we lead
		DeleteOnStop:  true,
		DemoteTimeout: drain,
		Hooks:         rollcall.Hooks(nc), // leader get lists the candidates that answer
	}.WithProfile(f.Profile)
	e, err := leader.NewElection(nc, cfg)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s := &service{id: f.ID, e: e, out: stdout}
	// Things that live as long as a term begin and end here. A count that must
	// outlive its leader belongs into a fenced store: see the scheduler.
	e.OnPromote(func(ctx context.Context, _ string) { s.begin(ctx) })
	e.OnDemote(s.end)
	srv := &http.Server{Handler: handler(e, s), ReadHeaderTimeout: 5 * time.Second}
	// Not ctx: the signs go when the election has ended, which serve sees to.
	keeping, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var signing sync.WaitGroup
	signing.Go(func() { keep(keeping, e, f.Logger()) })
	err = serve(ctx, e, srv, l)
	cancel() // for an election that never began
	signing.Wait()
	return err
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
// first, so that the next leader is there when clients are sent away. It sends
// them there for a while, since Shutdown closes connections at once that are
// idle: a request that is on its way by one fails, and its client cannot know
// whether it was served.
func serve(ctx context.Context, e leader.Election, srv *http.Server, l net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	// Not ctx: its end begins our own stop.
	err := e.Start(context.WithoutCancel(ctx))
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
		case <-e.Done(): // by itself; Stop returns why
		}
	}
	handOver(context.WithoutCancel(ctx), e)
	stopErr := e.Stop()
	app.Sleep(context.WithoutCancel(ctx), linger)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	return errors.Join(err, stopErr, srv.Shutdown(end))
}

// handOver gives up the leadership, if it is here, and waits for the next leader,
// but not for long: clients are sent to it, and an election that has stopped does
// not hear of it.
func handOver(ctx context.Context, e leader.Election) {
	ctx, cancel := context.WithTimeout(ctx, linger)
	defer cancel()
	if e.Resign(ctx) != nil {
		return // it does not lead; Stop returns other errors
	}
	for info := range e.Observe(ctx) {
		if info.ID != "" && !e.IsLeader() {
			return
		}
	}
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

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Once more, right before the act: the request may have waited since it was
	// let in.
	if s.term == nil || s.term.Err() != nil {
		probe.Refuse(w, r) // nothing was counted, so a client may ask again, as leaderhttp does
		return
	}
	term, _ := leader.TermFromContext(s.term)
	s.count++
	app.Say(s.out, s.id, term, "counts n=%d", s.count)
	fmt.Fprintf(w, "%s counts %d in term %d\n", s.id, s.count, term.Number)
}

// client has the leader count.
func client(ctx context.Context, nc *nats.Conn, id string, stdout io.Writer) error {
	t := leaderhttp.New(func(ctx context.Context) iter.Seq2[leader.LeaderInfo, error] {
		return leader.Observe(ctx, nc, app.Bucket, group)
	}, leaderhttp.Options{})
	defer t.Close()
	// A leader that is frozen answers nothing. The next request goes to the next
	// leader.
	c := &http.Client{Transport: t, Timeout: 2 * time.Second}
	for app.Sleep(ctx, 200*time.Millisecond) {
		answer, err := count(ctx, c)
		if err != nil {
			// It may have counted: a POST is not repeated if its connection
			// breaks.
			app.Say(stdout, id, leader.Term{}, "failed: %v", err)
			continue
		}
		app.Say(stdout, id, leader.Term{}, "was answered: %s", answer)
	}
	return nil
}

var errStatus = errors.New("the leader does not count")

func count(ctx context.Context, c *http.Client) (answer string, err error) {
	// The host is only a name: the transport goes to the leader's address.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+group+"/count", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	answer = strings.TrimSpace(string(body))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%w: %s: %s", errStatus, resp.Status, answer)
	}
	return answer, err
}
