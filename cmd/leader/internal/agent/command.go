package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	candidates "github.com/seed-ff2cb582/leader/cmd/leader/internal/candidate"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
	"github.com/seed-ff2cb582/leader/proof"
)

// A Command is the command line of leader agent.
type Command struct {
	app.Target
	web.Hosts

	Create        bool          `help:"Make the bucket if there is none. The bucket of the default name is made in any case."`
	Listen        string        `default:"127.0.0.1:9467" placeholder:"ADDRESS" help:"Where programs reach the agent: HOST:PORT, or unix:///PATH."`
	SocketMode    string        `default:"0600" placeholder:"MODE" help:"The mode of the file of a Unix socket: who may connect."`
	TokenFile     string        `type:"existingfile" placeholder:"FILE" help:"A file with a token that every request must carry."`
	AllowRemote   bool          `help:"Listen on an address that is not this machine's own alone. Needs --token-file; the token crosses the network in clear."`
	Profile       string        `enum:"low-latency,stable,high-throughput" default:"low-latency" placeholder:"low-latency" help:"Values for what a campaign leaves out: low-latency, stable, high-throughput."`
	TTL           time.Duration `name:"ttl" placeholder:"TIME" help:"The length of a lease, for campaigns that leave it out."`
	Heartbeat     time.Duration `placeholder:"TIME" help:"The time from one renewal to the next, likewise (default: a fifth of --ttl, and without that the profile's)."`
	Grace         string        `env:"LEADER_GRACE" enum:"auto,on,off" default:"auto" placeholder:"auto" help:"Whether to lead only a lease after the claim: auto (where the bucket may forget, or is new), on, off."`
	ForeignTTL    time.Duration `name:"foreign-ttl" placeholder:"TIME" help:"How long the record of another program is believed, which does not contain the length of its lease."`
	MaxCandidates int           `default:"256" placeholder:"N" help:"How many candidates there are at a time; more are refused."`
	MaxStreams    int           `default:"256" placeholder:"N" help:"How many streams of events there are at a time; more are refused."`
	ProofKey      string        `placeholder:"FILE" type:"existingfile" help:"Sign proofs for clients that lead, by the key in FILE (leader token keygen)."`
	Metrics       string        `placeholder:"ADDRESS" help:"Where to serve Prometheus metrics, at /metrics (default: nowhere)."`
	Advisories    bool          `help:"Publish transitions on leader-advisory.<bucket>.>, as leader history keeps them."`
	Verbose       bool          `short:"v" help:"Log what the elections do."`
}

// Help is shown below the flags.
func (Command) Help() string {
	return `Campaigns on behalf of programs in any language, which speak HTTP and JSON to it over loopback or a Unix socket: campaign,
keep alive, resign, watch. docs/reference/agent.md has the safety argument, examples/agent short clients in Python and Node, and
/openapi.yaml the description for tools.

Each answer about a candidate contains how long its client may act: trust_for_ms, which counts from the instant before the
request was sent, by the client's own clock. A client that is frozen or cut off stops by that clock, and before anybody else leads. The candidate
of a client that is silent for its lease (lease_ms) is withdrawn. A term is released when its client reports that the work has
stopped, or when the trust that it was given has run out.

Without --token-file every program that may connect may campaign: on a loopback address those of every user of the machine,
on a Unix socket those that its mode lets in. What comes from a browser is refused. There is no TLS: off the machine put a
proxy with TLS in front. It keeps one connection for each stream, two for each candidate and 64 more; a further one takes
the place of that which has been idle for the longest.

At SIGINT or SIGTERM it takes no more candidates, ends every term, waits until the clients have stopped or are trusted no
more, and releases.

Exit status: 0 when interrupted, 1 no address to listen on, 2 wrong usage, 5 refused by the server. It waits for a server
that is not there.

Examples:

  leader agent --dev                                        to try it out
  leader agent --listen unix:///run/leader/agent.sock --socket-mode 0660
  curl -d '{"instance_id":"a"}' -H 'Content-Type: application/json' \
    localhost:9467/v1/groups/jobs/candidates`
}

// Validate checks what the parser cannot.
func (c Command) Validate() error {
	errs := []error{c.Target.Validate(), checkListen(c.Listen), c.CheckHosts()}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for name, d := range map[string]time.Duration{"--ttl": c.TTL, "--heartbeat": c.Heartbeat, "--foreign-ttl": c.ForeignTTL} {
		check(d >= 0, "%s %v: must not be negative", name, d)
	}
	_, err := c.socketMode()
	check(err == nil, "--socket-mode %q: must be an octal number up to 0777", c.SocketMode)
	check(c.MaxCandidates > 0, "--max-candidates %d: must be positive", c.MaxCandidates)
	check(c.MaxStreams > 0, "--max-streams %d: must be positive", c.MaxStreams)
	if checkListen(c.Listen) == nil && c.remote() {
		check(c.AllowRemote && c.TokenFile != "", "--listen %s: is reached from other machines: that needs --allow-remote and --token-file", c.Listen)
	}
	check(!c.Advisories || c.OnNATS(), "--advisories: are messages of NATS, and --store names another kind")
	if c.Metrics != "" {
		errs = append(errs, web.CheckAddress("--metrics", c.Metrics))
	}
	if errors.Join(errs...) == nil {
		// A fault of what campaigns leave out would be each one's.
		cfg := c.base()
		cfg.Group, cfg.InstanceID = "-", "-"
		var profile leader.Profile
		errs = append(errs, profile.UnmarshalText([]byte(c.Profile)), cfg.WithProfile(profile).Validate())
	}
	return errors.Join(errs...)
}

// remote reports whether other machines reach the address.
func (c Command) remote() bool {
	_, unix := socketPath(c.Listen)
	return !unix && !web.Loopback(c.Listen)
}

// connections is how many there are at a time: one for each stream, two for
// each candidate's client, and some for those who look. Each takes a file
// descriptor, and an agent without any left would not reach its store again.
func (c Command) connections() int {
	const many = 1 << 24 // more than any process may open
	return min(c.MaxStreams, many) + 2*min(c.MaxCandidates, many) + 64
}

// socketMode reads --socket-mode, as chmod does.
func (c Command) socketMode() (fs.FileMode, error) {
	n, err := strconv.ParseUint(c.SocketMode, 8, 9)
	return fs.FileMode(n), err
}

// Run serves until it is interrupted.
func (c Command) Run(ctx context.Context, std app.Streams) error {
	flags := candidates.Flags{Target: c.Target, Create: c.Create, Advisories: c.Advisories}
	count, err := newCounters()
	if err != nil {
		return err
	}
	s, err := c.server(count, std)
	if err != nil {
		return err
	}
	// Before the connection, which may wait for a server: a faulty flag is
	// reported immediately.
	mode, err := c.socketMode()
	if err != nil {
		return fmt.Errorf("%w: --socket-mode: %w", app.ErrUsage, err)
	}
	ln, clean, err := listen(ctx, c.Listen, mode)
	if err != nil {
		return err
	}
	defer clean()
	defer ln.Close() //nolint:errcheck // it is closed already where it was served
	session, err := flags.Connect(ctx, "agent", std.Err)
	switch {
	case ctx.Err() != nil && err != nil: // it was waited for until then
		return nil
	case err != nil:
		return err
	}
	defer session.Close()
	if s.st, err = session.Store(); err != nil {
		return err
	}
	s.judge = session.Standings
	// The URL of --store may name another than --bucket.
	s.base.Bucket = session.Bucket
	s.open = func(cfg leader.ElectionConfig) (leader.Election, error) { return flags.Election(session, cfg) }
	return c.serve(ctx, s, ln, std)
}

// server returns what answers requests, without a store. Off this machine the
// clocks of agent and client may drift apart: the client's may be slow by one
// drift and the agent's fast by another, which share allows for.
func (c Command) server(count *counters, std app.Streams) (*server, error) {
	s := &server{
		registry: registry{
			most: c.MaxCandidates, share: 1, patience: 2 * c.Timeout, count: count,
			byHandle: map[string]*candidate{}, byName: map[name]*candidate{},
		},
		gate:    gate{count: count},
		timeout: c.Timeout, streams: make(chan struct{}, c.MaxStreams), log: app.NewLogger(std.Err, c.Verbose),
		base: c.base(),
	}
	s.base.Hooks = count.hooks
	_, unix := socketPath(c.Listen)
	// Nobody's web site can have its name resolve to a Unix socket.
	s.gate.named = !unix
	if c.remote() {
		s.share = (1 - leader.DefaultClockDrift) / (1 + leader.DefaultClockDrift)
	}
	if err := s.profile.UnmarshalText([]byte(c.Profile)); err != nil {
		return nil, err
	}
	if c.TokenFile != "" {
		token, err := readToken(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("%w: --token-file: %w", app.ErrUsage, err)
		}
		s.gate.token = token
	}
	if c.ProofKey != "" {
		key, err := proof.ReadKey(c.ProofKey)
		if err != nil {
			return nil, fmt.Errorf("%w: --proof-key: %w", app.ErrUsage, err)
		}
		s.key = &key
	}
	return s, count.show(s)
}

// base is what campaigns leave out.
func (c Command) base() leader.ElectionConfig {
	cfg := leader.ElectionConfig{
		Bucket: c.Bucket, TTL: c.TTL, HeartbeatInterval: c.Heartbeat, ForeignTTL: c.ForeignTTL,
		AcquireGrace: candidates.Flags{Grace: c.Grace}.AcquireGrace(),
	}
	if cfg.HeartbeatInterval == 0 {
		cfg.HeartbeatInterval = cfg.TTL / 5
	}
	return cfg
}

// serve serves until ctx is done and every candidate has ended. Requests are
// answered until then, since clients have to report that they stopped.
//
// Hence requests have a context of their own, life, which ends last. When a
// server fails, the clients hear no more, and stop when their trust has run
// out: the terms are waited for all the same.
func (c Command) serve(ctx context.Context, s *server, ln net.Listener, std app.Streams) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	srv := web.On(life, ln, s.handler())
	srv.Limit(c.connections(), func() { s.count.refuse("full") })
	// With room for both, since nobody takes an end while the candidates are
	// waited for.
	served := make(chan error, 2)
	running := 1
	if c.Metrics != "" {
		metrics, err := web.ListenOpen(life, "--metrics", c.Metrics, c.Hosts, s.count.handler())
		if err != nil {
			return err
		}
		running++
		go func() { served <- metrics.Serve(life) }()
		fmt.Fprintln(std.Out, "metrics", metrics.URL()+"/metrics")
	}
	go func() { served <- srv.Serve(life) }()
	reached := srv.URL()
	if _, unix := socketPath(c.Listen); unix {
		reached = c.Listen // the listener has the name that the socket was made under
	}
	fmt.Fprintln(std.Out, "agent", reached)
	var err error
	select {
	case <-ctx.Done():
	case err = <-served: // nobody can be answered any more, and trust runs out
		running--
	}
	// All candidates are gone after that, and nobody has anything more to ask.
	s.drain()
	end()
	for range running {
		err = errors.Join(err, <-served)
	}
	return err
}
