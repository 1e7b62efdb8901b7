// Package demo is leader demo: an election of real processes on a real NATS
// server, to be watched and to be broken.
//
// A stage starts the workers, strikes them with faults, and measures what
// follows. It reports all of this as one stream of events, which the view, the
// plain lines and the JSON lines show. Each worker is a separate process, so
// that a freeze is a SIGSTOP and a crash a SIGKILL.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
)

// A Command is the command line of the demo.
//
// Its defaults are for watching: a lease short enough that a failover is seen
// to happen, and the demo's own bucket, since users do not want their groups
// treated like this.
type Command struct {
	natsconn.Flags

	Workers   int           `default:"10" env:"WORKERS" help:"How many workers take part (1 to 200)."`
	Key       string        `default:"demo" env:"KEY" help:"The group, which is the key in the bucket."`
	Store     string        `placeholder:"URL" help:"A store to play on, in place of --server: redis://, postgres://, etcd:// and others (not in a build with -tags natsonly; leader doctor --help shows the forms), or quorum: three servers that the demo starts, as one store. LEADER_STORE is not used."`
	Bucket    string        `default:"demo-elections" help:"The key-value bucket; made if there is none."`
	TTL       time.Duration `default:"2s" name:"ttl" help:"The length of the lease."`
	Heartbeat time.Duration `placeholder:"TTL/4" help:"The time from one renewal to the next."`
	NoSplay   bool          `env:"NOSPLAY" help:"Start all workers at once, not spread over one TTL."`
	Port      int           `placeholder:"PORT" help:"The port of the demo's own server, on the loopback interface; any free one if not given."`
	Plain     bool          `xor:"output" help:"Print one line per event, as without a terminal."`
	JSON      bool          `xor:"output" name:"json" help:"Print one JSON object per event."`
	For       time.Duration `placeholder:"TIME" help:"End after this time."`
	Script    string        `placeholder:"STEPS" help:"Faults to play, like '2s crash; 6s freeze'; 'default' plays each once."`

	env    environ.Env
	script Script   // of Script
	worker []string // the command that starts a worker; a test puts its own here
}

// Help is shown by leader demo --help, below the flags.
func (*Command) Help() string {
	return `Some workers, each a process of its own, elect a leader on a NATS server that the
demo brings along (or on yours: --server, --context or $CONTEXT; NATS_URL and NATS_CONTEXT are not used), or on another
store: --store. With --store quorum it starts three servers, and keeps its leader while you kill one of them
(leader get, doctor and dash accept the URL that --plain prints). Break it with the keys shown, or with a script.

Faults: crash (kill -9), freeze (SIGSTOP for 2 × TTL), cut (its network, for 2 × TTL), resign,
delete (the key, as nats kv del), restart (the demo's own server), kill and return (a member of a quorum).
They hit the leader; a step of a script waits until there is one, except for return. The keys for servers work
while nobody leads, too. The key ? explains what is shown. A script without --for ends when its last fault is
dealt with.

Each line of --json has t (seconds since the start) and event: begin, join, exit, transition, fault,
healed, failover, kept, woke, note, two-leaders, end. By event it has worker, from, to, reason, term,
fault, text; of a failover also ms (from the fault to the next promotion) and gap_ms (without a
leader). The end has summary: seconds, terms, faults, samples, two_leaders. A fault that came
late (late: another led already) or could not be done (failed: why) hit nobody.

Examples:
  leader demo
  leader demo --workers 3 --ttl 500ms
  leader demo --script default
  leader demo --plain --for 20s --script "2s crash; 8s cut; 14s delete"
  leader demo --json --script default | jq 'select(.event == "failover")'
  leader demo --server nats://localhost:4222
  leader demo --store redis://localhost
  leader demo --store quorum
  leader demo --context staging --key my-group

Exit status: 0 if there never were two leaders, 3 if there were, 2 for wrong usage, and
1 if the demo failed, or ended before all steps of the script were played.`
}

// Unexported takes the variables from the flags of leader demo that name a
// server. The demo stops and breaks what it finds, which must not happen to a
// server that a user has exported permanently.
func Unexported(parser *kong.Kong) error {
	for _, node := range parser.Model.Leaves(true) {
		for _, flag := range node.Flags {
			if node.Name == "demo" && (flag.Name == "server" || flag.Name == "context") {
				flag.Envs, flag.Tag.Envs = nil, nil
			}
		}
	}
	return nil
}

// BeforeApply keeps the environment. The parser calls it.
func (c *Command) BeforeApply(env environ.Env) error {
	c.env = env
	return nil
}

// Validate checks what the parser cannot. Each complaint names its flag.
func (c *Command) Validate() error {
	c.Heartbeat = cmp.Or(c.Heartbeat, c.TTL/4)
	c.Context = cmp.Or(c.Context, c.env.Get("CONTEXT")) // a name that is too common for the other commands
	if err := c.locate(); err != nil {
		return err
	}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	// A process, two pipes and a connection for each: more would show what the
	// machine can bear, and not what elections do.
	check(c.Workers >= 1 && c.Workers <= 200, "--workers %d: must be from 1 to 200", c.Workers)
	check(c.For >= 0, "--for %v: must not be negative", c.For)
	check(c.Port >= 0 && c.Port <= 65535, "--port %d: must be from 1 to 65535", c.Port)
	check(c.Port == 0 || !c.visits(), "--port %d: is for the demo's own server, and --server, --context or --store name another", c.Port)
	check(c.Store == "" || !c.Given(), "--store: names the store, and --server or --context name another")
	if err := c.config().Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.Script != "" {
		errs = append(errs, c.validateScript())
	}
	return errors.Join(errs...)
}

// visits reports whether the server is not the demo's own.
func (c *Command) visits() bool { return c.Given() || c.Store != "" }

// quorum, as --store, is three servers of the demo's own.
const quorum = "quorum"

// serverFaults are the faults of the demo's own servers.
func (c *Command) serverFaults() []Fault {
	switch {
	case c.Store == quorum:
		return []Fault{Kill, Return}
	case c.visits():
		return nil
	default:
		return []Fault{Restart}
	}
}

// locate has a bucket of NATS that --store names take the place of --server and
// --bucket. A bucket of NATS can be played on in full, with the network of each
// worker; only elsewhere is the store itself what is cut off.
func (c *Command) locate() error {
	if c.Store == "" || c.Given() {
		return nil
	}
	t := app.Target{Flags: c.Flags, Env: c.env, Store: c.Store, Bucket: c.Bucket}
	err := t.AfterApply(app.Kit{}, nil) // which are not asked for that
	c.Flags, c.Store, c.Bucket = t.Flags, t.Store, t.Bucket
	return err
}

// validateScript reads the script, and refuses what could never be played: a
// step after the end, which would make the demo fail when it is over, the
// restart of a server that others use, the return of a member that is not
// killed, and whatever waits for a leader while a majority is.
func (c *Command) validateScript() (err error) {
	if c.Script == "default" {
		c.script = defaultScript(c.TTL, c.serverFaults()...)
	} else if c.script, err = ParseScript(c.Script); err != nil {
		return err
	}
	var errs []error
	killed := 0
	for _, s := range c.script {
		switch {
		case s.Fault == Return && killed == 0:
			errs = append(errs, fmt.Errorf("--script: %q: no member is killed then; a kill comes before its return", s))
		case s.Fault == Return:
			killed--
		case killed > 1:
			errs = append(errs, fmt.Errorf("--script: %q: two of the three members are killed then, and nobody leads until one returns: put a return before it", s))
		case s.Fault == Kill:
			killed++
		}
		if c.For > 0 && s.At >= c.For {
			errs = append(errs, fmt.Errorf("--script: %q: comes when --for %v is over", s, c.For))
		}
		if s.Fault.ofServers() && !slices.Contains(c.serverFaults(), s.Fault) {
			err := errNoMembers
			if s.Fault == Restart {
				err = errNotOurs
			}
			errs = append(errs, fmt.Errorf("--script: %q: %w", s, err))
		}
	}
	return errors.Join(errs...)
}

// config is a worker's configuration, as far as this command can judge it.
func (c *Command) config() leader.ElectionConfig {
	return leader.ElectionConfig{
		Bucket: c.Bucket, Group: c.Key, InstanceID: "w1", TTL: c.TTL, HeartbeatInterval: c.Heartbeat,
	}
}

// plan is what the stage is to do, without the command line.
func (c *Command) plan() plan {
	return plan{
		Bucket: c.Bucket, Key: c.Key, Workers: c.Workers, TTL: c.TTL, Heartbeat: c.Heartbeat, NoSplay: c.NoSplay,
		For: c.For, Script: c.script,
	}
}

// Run plays the demo. Without a terminal it prints lines, as with --plain: a
// log cannot show a picture.
func (c *Command) Run(ctx context.Context, std app.Streams, kit app.Kit) (err error) {
	live := !c.JSON && !c.Plain && terminal(std, c.env)
	// Nothing can be drawn before there is a server, which a busy machine takes
	// seconds to start.
	slow := time.AfterFunc(time.Second, func() {
		if live {
			fmt.Fprintln(std.Err, "leader: connecting …")
		}
	})
	st, err := c.stage(kit)
	slow.Stop()
	if err != nil {
		return err
	}
	// The stage outlives the view: workers report to it until they are gone.
	defer func() { err = errors.Join(err, st.close()) }()
	switch {
	case c.JSON:
		return st.play(ctx, jsonLines(std.Out))
	case !live:
		return st.play(ctx, plainLines(std.Out))
	default:
		return view(ctx, st, std)
	}
}

// stage prepares where the demo plays: its own server or the one that was
// named, and the stage's connection, which deletes the key and checks the
// names. Names of workers get a suffix where others may play in the same group.
func (c *Command) stage(kit app.Kit) (_ *stage, err error) {
	st := newStage(c.plan())
	defer func() {
		if err != nil {
			err = errors.Join(err, st.close())
		}
	}()
	if st.worker, err = c.workerCommand(); err != nil {
		return nil, err
	}
	if c.Store != "" {
		return st, c.visit(st, kit)
	}
	conn := c.Flags
	if !conn.Given() {
		// An empty server that belongs to the demo: the demo may stop it, and
		// it has no leader of an earlier demo.
		if st.server, err = kit.Serve(c.Port); err != nil {
			return nil, err
		}
		conn = natsconn.Flags{Server: st.server.URL()}
	} else {
		st.suffix = suffix()
	}
	settings, err := kit.Settings(conn)
	if err != nil {
		return nil, err
	}
	if settings.APIPrefix != "" {
		return nil, fmt.Errorf("%w: --context: the demo does not reach a bucket of another account (jetstream_api_prefix %q)", app.ErrUsage, settings.APIPrefix)
	}
	// Of the demo alone. Each worker connects by itself, so that the network of
	// one can be cut.
	if st.nc, err = settings.Connect("leader demo"); err != nil {
		return nil, err
	}
	if _, err = leader.NewElection(st.nc, c.config()); err != nil {
		return nil, err // the bucket's name, which only this checks
	}
	st.conn, st.url, st.domain = conn, settings.Shown(), settings.Domain
	st.erase = st.eraseOnNATS
	return st, st.nc.FlushTimeout(nats.DefaultTimeout)
}

// visit sets the stage on a store other than NATS. Its URL contains where the
// records are, so that no bucket is named.
func (c *Command) visit(st *stage, kit app.Kit) (err error) {
	st.plan.Store, st.plan.Bucket = c.Store, ""
	if c.Store == quorum {
		if st.members, err = serveMembers(kit); err != nil {
			return err
		}
		st.url = st.members.url(c.Bucket, "")
		st.plan.Store = st.members.url(c.Bucket, "?create=true")
	}
	session, err := app.Target{Store: st.plan.Store, Kit: kit, Bucket: c.Bucket, Timeout: openPatience}.Open("demo")
	if err != nil {
		return err
	}
	st.closers = append(st.closers, session.Close)
	if st.elsewhere = session.Elsewhere(); st.members == nil {
		st.url, st.suffix = session.URL, suffix()
	}
	st.erase = func(ctx context.Context) error { return erase(ctx, session.Elsewhere(), c.Key) }
	return nil
}

// workerCommand is how a worker is started: this program, with a hidden
// command.
func (c *Command) workerCommand() ([]string, error) {
	if c.worker != nil {
		return c.worker, nil
	}
	self, err := os.Executable()
	return []string{self, "demo-worker"}, err
}
