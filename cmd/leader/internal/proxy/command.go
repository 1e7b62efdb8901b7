// Package proxy is leader proxy: TCP connections, carried to the leader of a
// group. The library's package proxy decides which host leads and which
// connections are cut, once for each group; here are their command line, their
// listeners and their metrics.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
	"github.com/seed-ff2cb582/leader/proxy"
	"github.com/seed-ff2cb582/leader/store"
)

// A Command is the command line of leader proxy.
type Command struct {
	app.Target
	web.Hosts

	Group    string        `arg:"" optional:"" help:"The group."`
	Listen   string        `placeholder:"ADDRESS" help:"Where clients connect to, as HOST:PORT."`
	Port     int           `placeholder:"N" help:"The port of the leader's host to connect to (default: the port in its record's address)."`
	File     string        `placeholder:"PATH" help:"Many groups, a line each: GROUP LISTEN [PORT]. It takes the place of GROUP, --listen and --port."`
	Wait     time.Duration `default:"10s" placeholder:"TIME" help:"How long a new connection waits for a leader; 0s gives it one try."`
	Grace    time.Duration `default:"0s" placeholder:"TIME" help:"How long connections to a leader go on when it is seen to lead no more."`
	Drain    time.Duration `default:"10s" placeholder:"TIME" help:"How long connections have to end by themselves at a signal."`
	MaxConns int           `default:"4096" placeholder:"N" help:"How many clients are connected at a time, for each group; more are reset. On Linux each takes up to six file descriptors (ulimit -n)."`
	Metrics  string        `placeholder:"ADDRESS" help:"Where to serve Prometheus metrics, at /metrics (default: nowhere)."`
	Verbose  bool          `short:"v" help:"Log who leads, and each connection that is refused."`
}

// Help is shown below the flags.
func (Command) Help() string {
	return `Carries TCP connections to the leader of a group, so that a client in any language, psql included, has one address for the leader.
The leader's record contains its address (leader run --address), or its host, and --port the port. The command is no
candidate; it needs an observer's rights to each group and writes nothing.

A connection belongs to one term. When the leader releases, when its lease has run out as seen from here, or when another
leads, the connection is reset on both sides, --grace later. A new one waits up to --wait for a leader, and is then reset.
A record that is there at the start counts from its next renewal on, since it does not contain its age.

It is not a fence: a leader may still execute what it was sent before it was deposed, and what must not be done twice, the
protected resource has to refuse by the term. A proxy that is cut off from the server sees every lease run out, and
serves nobody until it is back. There is no access control and no TLS of its own: bytes are passed on as they are.

At SIGINT or SIGTERM it accepts no more, lets connections end for --drain, and cuts the rest.

A file for --file, in which # begins a comment:

      # group     listen            port
      postgres    127.0.0.1:5432    5432
      reports     :8080

It prints a line for each group, with the address that it listens on, and one for the metrics. These are named
election_proxy_… and carry the labels bucket, role (the group) and listen.

Exit status: 0 when interrupted, 1 no server or no address to listen on, 2 wrong usage, 5 a server without JetStream.

Examples:

  leader proxy postgres --listen 127.0.0.1:5432 --port 5432
  leader proxy --file /etc/leader/routes --metrics 127.0.0.1:9466
  leader run postgres --address db-1:5432 -- postgres -D /data    on each host`
}

// Validate checks what the parser cannot, the file included.
func (c Command) Validate() error {
	errs := []error{c.Target.Validate(), c.CheckHosts()}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Wait >= 0, "--wait %v: must not be negative", c.Wait)
	check(c.Grace >= 0, "--grace %v: must not be negative", c.Grace)
	check(c.Drain >= 0, "--drain %v: must not be negative", c.Drain)
	check(c.MaxConns > 0, "--max-conns %d: must be positive", c.MaxConns)
	if c.Metrics != "" {
		errs = append(errs, web.CheckAddress("--metrics", c.Metrics))
	}
	// Also the file's content, so that a mistake in it is reported like a
	// mistake in a flag, and before anything is connected.
	_, err := c.routes()
	return errors.Join(append(errs, err)...)
}

// routes returns what the command line asks for. A line of the file and the
// flags go through the same checks, and mean the same. Both together are
// refused: which of them counts would be a guess.
func (c Command) routes() ([]route, error) {
	if c.File == "" {
		if c.Group == "" {
			return nil, errors.New("<group>: is required, or --file")
		}
		errs := []error{app.ValidGroup(c.Group)}
		if c.Listen == "" {
			errs = append(errs, errors.New("--listen: is required, as HOST:PORT"))
		} else {
			errs = append(errs, validListen("--listen", c.Listen))
		}
		if c.Port < 0 || c.Port > maxPort {
			errs = append(errs, fmt.Errorf("--port %d: must be from 1 to %d", c.Port, maxPort))
		}
		return []route{{c.Group, c.Listen, c.Port}}, errors.Join(errs...)
	}
	if c.Group != "" || c.Listen != "" || c.Port != 0 {
		return nil, errors.New("--file: names the groups, and so takes the place of <group>, --listen and --port")
	}
	file, err := os.Open(c.File)
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was read
	return readRoutes(c.File, file)
}

// A serving is one proxy with its listener.
type serving struct {
	group string
	proxy *proxy.Proxy
	ln    net.Listener
}

// Run serves until it is interrupted.
//
// All listen before any serves: an address that is taken ends the command with
// nobody connected. The addresses are printed then, since the system may have
// chosen a port.
func (c Command) Run(ctx context.Context, std app.Streams) error {
	routes, err := c.routes()
	if err != nil {
		return fmt.Errorf("%w: %w", app.ErrUsage, err) // it has changed since it was validated
	}
	session, err := c.Await(ctx, "proxy")
	if err != nil {
		return err
	}
	defer session.Close()
	st, err := session.Store()
	if err != nil {
		return err
	}
	serves, err := c.listen(ctx, st, routes, app.NewLogger(std.Err, c.Verbose))
	// Also after an error of listen, which returns those before it.
	defer func() {
		for _, s := range serves {
			_ = s.ln.Close() // of those that do not serve
		}
	}()
	if err != nil {
		return err
	}
	metrics, err := web.ListenMetrics(ctx, c.Metrics, c.Hosts, &collector{bucket: session.Bucket, serves: serves})
	if err != nil {
		return err
	}
	for _, s := range serves {
		fmt.Fprintln(std.Out, s.group, s.ln.Addr())
	}
	if metrics != nil {
		fmt.Fprintln(std.Out, "metrics", metrics.URL()+"/metrics")
	}
	return serveAll(ctx, serves, metrics)
}

// listen begins to listen for each route. The listeners are the caller's to
// close, also with an error. All share one store, and so one connection to its
// servers.
func (c Command) listen(ctx context.Context, st store.Store, routes []route, log *slog.Logger) (serves []*serving, _ error) {
	for _, r := range routes {
		opts := proxy.Options{
			Port: r.port, Wait: orNone(c.Wait), Grace: c.Grace, Drain: orNone(c.Drain), MaxConns: c.MaxConns,
			Logger: log.With(app.Of, r.group),
		}
		p, err := proxy.NewWithStore(st, r.group, opts)
		if err != nil {
			return serves, err
		}
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", r.listen)
		if err != nil {
			return serves, fmt.Errorf("--listen %s: %w", r.listen, err)
		}
		serves = append(serves, &serving{r.group, p, ln})
	}
	return serves, nil
}

// orNone is a time as the library takes it, to which zero means its default. On
// the command line it means none.
func orNone(d time.Duration) time.Duration { return cmp.Or(d, -1) }

// serveAll serves until ctx is done or one of them fails. The metrics are
// served until the last connection has ended.
//
// A proxy that fails ends them all. A command that went on without some of its
// groups would look well to its supervisor, which would not restart it. All
// errors are returned: which came first is chance.
//
// The metrics have a context of their own, since how connections drain is what
// one wants to see at the end.
func serveAll(ctx context.Context, serves []*serving, metrics *web.Server) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var errs []error
	note := func(err error) {
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			stop()
		}
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var proxies, others sync.WaitGroup
	if metrics != nil {
		others.Go(func() { note(metrics.Serve(life)) })
	}
	for _, s := range serves {
		proxies.Go(func() { note(s.proxy.Serve(ctx, s.ln)) })
	}
	proxies.Wait()
	end()
	others.Wait()
	return errors.Join(errs...)
}
