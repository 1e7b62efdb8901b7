// Package candidate is what the commands that take part in an election have in
// common: the flags that describe a candidate, and the configuration that they
// make.
package candidate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/rollcall"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// Flags describe a candidate. Commands embed them.
type Flags struct {
	app.Target

	Create         bool              `help:"Make the bucket if there is none. The bucket of the default name is made in any case."`
	ID             string            `name:"id" env:"LEADER_ID" placeholder:"NAME" help:"The candidate's name, unlike any other of the group; the host's name if not given."`
	Profile        string            `enum:",low-latency,stable,high-throughput" default:"" placeholder:"PROFILE" help:"Values for what is not given: low-latency, stable, high-throughput (default: ${profile})."`
	TTL            time.Duration     `name:"ttl" placeholder:"TIME" help:"The length of the lease: how long nobody leads after a crash."`
	Heartbeat      time.Duration     `placeholder:"TIME" help:"The time from one renewal to the next (default: a fifth of --ttl, and without that the profile's)."`
	Grace          string            `env:"LEADER_GRACE" enum:"auto,on,off" default:"auto" placeholder:"auto" help:"Whether to lead only a lease after the claim: auto (where the bucket may forget, or is new), on, off."`
	ForeignTTL     time.Duration     `name:"foreign-ttl" placeholder:"TIME" help:"How long the record of another program is believed, which does not contain the length of its lease; the longest of that program's leases (default: the bucket's, where it drops records by age, else --ttl with a warning)."`
	Priority       int               `placeholder:"N" help:"Higher goes first at a vacancy."`
	AllowTakeover  bool              `help:"Ask a leader of lower priority to hand over, and hand over to one of higher priority."`
	ProgramVersion string            `placeholder:"VERSION" help:"The version of the program, for people and --version-policy."`
	VersionPolicy  string            `enum:"any,older,newer" default:"any" placeholder:"any" help:"Which versions of the program are preferred: any, older, newer."`
	Address        string            `placeholder:"ADDRESS" help:"Where clients reach this candidate when it leads."`
	ConnParams     string            `name:"connection-params" placeholder:"TEXT" help:"What clients need in addition to the address, such as a gRPC service config."`
	Meta           map[string]string `placeholder:"KEY=VALUE" help:"Further facts about the candidate in the record."`
	Check          string            `placeholder:"CMD" help:"A shell command that succeeds while this host is fit to lead; it does not campaign before the first success, nor lead after three failures in a row."`
	CheckInterval  time.Duration     `placeholder:"TIME" help:"The time from one check to the next, and how long one may take (default: the heartbeat)."`
	PassCreds      bool              `name:"pass-credentials" help:"Leave the credentials for the store (NATS_PASSWORD, NATS_CREDS, LEADER_STORE and others) in the environment of the programs that it starts."`
	Advisories     bool              `help:"Publish transitions on leader-advisory.<bucket>.>, as leader history keeps them."`
	Verbose        bool              `short:"v" help:"Log what the election does."`
}

// A Shell runs a shell command until it ends or ctx is done, and then kills it.
type Shell func(ctx context.Context, command string) error

// Config returns the configuration of a candidate of the group. Its profile is
// the given one unless the flags name another. shell runs the check.
func (f Flags) Config(group string, profile leader.Profile, shell Shell, logs io.Writer) (leader.ElectionConfig, error) {
	id, err := f.name()
	if err != nil {
		return leader.ElectionConfig{}, err
	}
	if f.Profile != "" {
		if err := profile.UnmarshalText([]byte(f.Profile)); err != nil {
			return leader.ElectionConfig{}, err
		}
	}
	var said []string
	if f.OnNATS() {
		said = []string{leader.NoteDisconnected} // Connect reports it, once for all elections
	}
	cfg := leader.ElectionConfig{
		Bucket: f.Bucket, Group: group, InstanceID: id,
		TTL: f.TTL, HeartbeatInterval: f.Heartbeat, ForeignTTL: f.ForeignTTL,
		Priority: f.Priority, AllowPriorityTakeover: f.AllowTakeover,
		Version: f.ProgramVersion, VersionPolicy: f.policy(), Address: f.Address,
		ConnectionParams: []byte(f.ConnParams), Meta: f.Meta,
		HealthCheckInterval: f.CheckInterval, Logger: app.NewLogger(logs, f.Verbose, said...), AcquireGrace: f.AcquireGrace(),
	}
	if cfg.TTL > 0 && cfg.HeartbeatInterval == 0 {
		cfg.HeartbeatInterval = cfg.TTL / 5
	}
	if f.Check != "" {
		cfg.HealthChecker = check{f.Check, shell}
	}
	cfg = cfg.WithProfile(profile)
	return cfg, cfg.Validate()
}

// Environ is the environment of a program that a candidate starts: this
// process's environment, without credentials unless they are to be passed on.
func (f Flags) Environ() []string {
	if f.PassCreds {
		return os.Environ()
	}
	return app.WithoutCredentials(os.Environ())
}

// Validate checks what the parser cannot.
func (f Flags) Validate() error {
	errs := []error{f.Target.Validate()}
	for name, d := range map[string]time.Duration{"--ttl": f.TTL, "--heartbeat": f.Heartbeat, "--foreign-ttl": f.ForeignTTL, "--check-interval": f.CheckInterval} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s %v: must not be negative", name, d))
		}
	}
	if f.Advisories && !f.OnNATS() {
		errs = append(errs, errors.New("--advisories: are messages of NATS, and --store names another kind"))
	}
	if f.CheckInterval > 0 && f.Check == "" {
		errs = append(errs, errors.New("--check-interval: has no effect without --check"))
	}
	return errors.Join(errs...)
}

func (f Flags) name() (string, error) {
	if f.ID != "" {
		return f.ID, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("--id: the host has no name to take: %w", err)
	}
	return host, nil
}

func (f Flags) policy() leader.VersionPolicy {
	switch f.VersionPolicy {
	case "older":
		return leader.PreferOlder
	case "newer":
		return leader.PreferNewer
	default:
		return leader.PreferAny
	}
}

// AcquireGrace is --grace as the library has it.
func (f Flags) AcquireGrace() leader.AcquireGrace {
	switch f.Grace {
	case "on":
		return leader.GraceOn
	case "off":
		return leader.GraceOff
	default:
		return leader.GraceAuto
	}
}

// Connect connects for a candidate: whatever keeps the server away, it reports
// the cause and waits, but not for a server that refuses the login.
func (f Flags) Connect(ctx context.Context, command string, say io.Writer) (*app.Session, error) {
	waits := make(chan struct{}) // closed when it was printed which server is waited for
	defer close(waits)
	reason := "" // why it waits, as printed; the first outage of that reason is not printed again
	opts := append(natsconn.Outages(func(text string) {
		<-waits
		if reason != "" && strings.HasSuffix(text, reason) {
			reason = ""
			return
		}
		app.Say(say, errors.New(text))
	}),
		// Without a buffer: what waits there for a reconnection would be
		// written when it is long given up.
		nats.ReconnectBufSize(-1),
		// A user whose credentials ran out is back when they have been renewed.
		nats.IgnoreAuthErrorAbort(),
	)
	s, err := f.Open(command, opts...)
	switch {
	case err != nil && f.OnNATS() && !natsconn.Refused(err):
		// An error in the flags is found again.
		s, again := f.Open(command, append(opts, nats.RetryOnFailedConnect(true))...)
		if again == nil && !s.Connected() {
			reason = cause(err)
			app.Say(say, fmt.Errorf("waiting for %s: %s", s.URL, reason)) // the election does
		}
		return s, again
	case store.Classify(err) == store.Transient:
		app.Say(say, fmt.Errorf("waiting for the store: %w", err))
		return f.reopen(ctx, command)
	}
	return s, err
}

// cause returns why a connection failed, without what is printed anyway.
func cause(err error) string {
	if errors.Is(err, nats.ErrNoServers) { // as nats.Connect calls it
		return "connection refused"
	}
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err.Error()
}

// reopen opens a store elsewhere than on NATS, as soon as its servers answer.
func (f Flags) reopen(ctx context.Context, command string) (*app.Session, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(reopenAfter):
		}
		if s, err := f.Open(command); store.Classify(err) != store.Transient {
			return s, err
		}
	}
}

// reopenAfter is the time from one attempt to reach a store to the next.
const reopenAfter = 250 * time.Millisecond

// Election returns the candidate. It has not been started.
func (f Flags) Election(s *app.Session, cfg leader.ElectionConfig) (leader.Election, error) {
	cfg = f.complete(s, cfg)
	if st := s.Elsewhere(); st != nil {
		return leader.NewElectionWithStore(st, cfg)
	}
	if !s.Imported() {
		cfg.JetStreamDomain = s.Domain()
		return leader.NewElection(s.NC, cfg)
	}
	st, err := s.StoreOfCandidates(natsstore.Options{Create: f.made(s), Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("%w: --bucket: %w", app.ErrUsage, err)
	}
	return leader.NewElectionWithStore(st, cfg)
}

// RoleManager returns the candidate for several groups, of which it leads one
// at most. It has not been started.
func (f Flags) RoleManager(s *app.Session, cfg leader.ElectionConfig, groups []string) (*leader.RoleManager, error) {
	cfg = f.complete(s, cfg)
	cfg.Group = "" // the groups are the roles
	st, err := s.StoreOfKeys(natsstore.Options{Create: f.made(s), Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("%w: --bucket: %w", app.ErrUsage, err)
	}
	m, err := leader.NewRoleManagerWithStore(st, leader.RoleManagerConfig{Election: cfg, MaxRoles: 1})
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		if err := m.Add(context.Background(), leader.Role{Name: group}); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// made is the bucket that is made if there is none, and nil if it must exist. A
// name that is mistyped would split a group: each half would have a leader.
func (f Flags) made(s *app.Session) *natsstore.BucketConfig {
	if f.Create || s.Fresh || s.Bucket == app.DefaultBucket {
		return &natsstore.BucketConfig{}
	}
	return nil
}

// complete adds to a configuration what it takes from the session.
func (f Flags) complete(s *app.Session, cfg leader.ElectionConfig) leader.ElectionConfig {
	if s.Fresh && cfg.AcquireGrace == leader.GraceAuto {
		// A new bucket is not waited for: no leader can be left of one before
		// it.
		cfg.AcquireGrace = leader.GraceOff
	}
	if s.Elsewhere() != nil {
		return cfg
	}
	cfg.BucketAutoCreate = f.made(s) != nil
	cfg.Hooks = leader.JoinHooks(cfg.Hooks, rollcall.Hooks(s.NC)) // leader get asks
	if f.Advisories {
		cfg.Hooks = leader.JoinHooks(cfg.Hooks, advisory.Hooks(s.NC, advisory.Options{}))
	}
	return cfg
}

// AwaitFit asks the health check of a future candidate until it passes, at each
// of its intervals, and reports whether it did before ctx was done. Without a
// check it returns immediately. unfit is called after the first failure.
//
// The election asks for the first time an interval after its start, and takes
// three failures for a reason to leave: it would lead before that.
func AwaitFit(ctx context.Context, cfg leader.ElectionConfig, unfit func()) bool {
	if cfg.HealthChecker == nil {
		return ctx.Err() == nil
	}
	interval, timeout := CheckTimes(cfg)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for told := false; ; told = true {
		if fit(ctx, cfg.HealthChecker, timeout) {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if !told {
			unfit()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// CheckTimes returns the time from one check to the next, and how long one may
// take, as the library has them.
func CheckTimes(cfg leader.ElectionConfig) (interval, timeout time.Duration) {
	interval = cmp.Or(cfg.HealthCheckInterval, cfg.HeartbeatInterval)
	return interval, cmp.Or(cfg.HealthCheckTimeout, interval)
}

// fit makes one check, and reports whether it passed in its time.
func fit(ctx context.Context, c leader.HealthChecker, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.Check(ctx) && ctx.Err() == nil
}

// A check is a health check by a shell command.
type check struct {
	command string
	shell   Shell
}

// Check reports whether the command succeeded.
func (c check) Check(ctx context.Context) bool { return c.shell(ctx, c.command) == nil }
