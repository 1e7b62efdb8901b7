// Package announce is leader announce: the leader's entry in Consul, etcd or
// Kubernetes, kept by one that takes no part in the election.
package announce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/web"
	"github.com/seed-ff2cb582/leader/discovery"
)

// A Command is the command line of leader announce.
type Command struct {
	app.Target
	web.Hosts

	Groups  []string `arg:"" name:"group" help:"The groups."`
	To      string   `required:"" env:"LEADER_ANNOUNCE_TO" placeholder:"URL" help:"Where to: etcd://HOST[/PREFIX], consul://HOST[/SERVICE] or k8s://NAMESPACE[/SERVICE]."`
	Metrics string   `placeholder:"ADDRESS" help:"Where to serve Prometheus metrics, at /metrics (default: nowhere)."`
	JSON    bool     `name:"json" help:"Print one JSON object per change."`
	Verbose bool     `short:"v" help:"Log successful writes, too, and not only failures."`
}

// Help is shown below the flags.
func (Command) Help() string {
	return `Keeps the entry of each group's leader in another system, so that clients that know nothing of elections find the leader
there: the leader of leader run, of leader agent, or of any program. It is not a candidate; it needs an observer's rights to each group and writes
nothing to the store of the elections. The leader's record contains its address (leader run --address HOST:PORT).

Any number of these commands may run for one group, on several machines, also beside candidates that announce
themselves (discovery.Keep): every write is a compare-and-swap, and the entry of an earlier term never replaces that of
a later one. Run two, so that a dead leader's entry goes also when one of them is dead.

The entry is announced when the leader is heard of: a record that was there at the start counts from its next renewal.
It is removed when the leader leaves, and when its lease has run out as seen from here and a read of the store confirms that its
record has not changed. A command that is cut off from the store removes nothing. Where entries expire, one that nobody
refreshes runs out with the lease. At SIGINT or SIGTERM the entry stays, since the leader leads on.

URLs:

  etcd://[USER:PASSWORD@]HOST[:2379],...[/PREFIX]
      the key PREFIX + GROUP + /leader (PREFIX: leader-discovery/), where a
      slash in the name of the group is an exclamation mark
      etcds://, or ?ca=, cert=, key=: TLS
  consul://[:TOKEN@]HOST[:8500][/SERVICE]
      the service SERVICE (default: GROUP) with the tag leader
      consuls://, or ?ca=, cert=, key=: TLS; dc=, tag=; prefix= of the keys
      session_ttl_min= as Consul's servers have it (default: 10s)
  k8s://[NAMESPACE][/SERVICE]
      the EndpointSlice of the Service SERVICE (default: GROUP), which has
      no selector; ?port= is the name of its port
      kubeconfig=, context=: the way to the API server

It prints a line for each change that it made: the group, what it did (announced, repaired or removed), the leader, its
term and its address; and one for the metrics. With --json there is one object a line: time, group, event, leader, term,
address; and where the metrics are goes to stderr. These are named election_announcer_… and carry the labels bucket and
role (the group).

Exit status: 0 when interrupted, 1 no server or no address to listen on, 2 wrong usage, 5 a server without JetStream, 6 no answer in time.

Examples:

  leader announce reports --to etcd://etcd-1,etcd-2,etcd-3
  leader announce reports billing --to consul://127.0.0.1:8500
  leader announce reports --to k8s://apps/reports-leader
  leader run reports --address 10.0.0.7:8080 -- ./reports.sh`
}

// Validate checks what the parser cannot.
func (c Command) Validate() error {
	errs := []error{c.Target.Validate(), c.CheckHosts()}
	for i, g := range c.Groups {
		errs = append(errs, app.ValidGroup(g))
		if slices.Contains(c.Groups[:i], g) {
			errs = append(errs, fmt.Errorf("group %q: is named twice", g))
		}
	}
	if c.Metrics != "" {
		errs = append(errs, web.CheckAddress("--metrics", c.Metrics))
	}
	if _, err := parse(c.To, c.Groups); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Run announces until it is interrupted.
func (c Command) Run(ctx context.Context, std app.Streams) error {
	open, err := parse(c.To, c.Groups)
	if err != nil {
		return fmt.Errorf("%w: %w", app.ErrUsage, err) // it was validated
	}
	to, err := open(ctx)
	if err != nil {
		return err
	}
	defer to.close()
	session, err := c.Open("announce")
	if err != nil {
		return err
	}
	defer session.Close()
	st, err := session.Store()
	if err != nil {
		return err
	}
	counts := newCounts(session.Bucket, c.Groups, std.Out, c.JSON)
	metrics, err := web.ListenMetrics(ctx, c.Metrics, c.Hosts, counts)
	if err != nil {
		return err
	}
	if metrics != nil {
		said := std.Out
		if c.JSON {
			said = std.Err
		}
		fmt.Fprintln(said, "metrics", metrics.URL()+"/metrics")
	}
	log := app.NewLogger(std.Err, c.Verbose)
	work := make([]func(context.Context) error, 0, len(c.Groups)+1)
	for i, group := range c.Groups {
		opts := discovery.Options{Logger: log.With(app.Of, group), Report: counts.of(group)}
		work = append(work, func(ctx context.Context) error {
			return discovery.FollowWithStore(ctx, st, group, to.announcers[i], opts)
		})
	}
	if metrics != nil {
		work = append(work, metrics.Serve)
	}
	return together(ctx, work)
}

// together does all of the work at the same time, until ctx is done or one of
// it has ended with an error.
func together(ctx context.Context, work []func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(work))
	var all sync.WaitGroup
	for i, f := range work {
		all.Go(func() {
			if errs[i] = f(ctx); errs[i] != nil {
				stop()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
