package bucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/finding"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/rights"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// Command is the family of the commands on buckets.
type Command struct {
	Create CreateCommand `cmd:"" help:"Make a bucket for elections."`
	Check  CheckCommand  `cmd:"" help:"Check whether a bucket is safe."`
}

// place is the bucket that a command works on.
type place struct {
	app.Target
	output.Format

	Name string `arg:"" optional:"" help:"The bucket, instead of --bucket."`
}

// open connects. The sample elections of --dev are in --bucket, whichever
// bucket the command works on.
func (p place) open(name string) (*app.Session, error) {
	if p.Name != "" {
		if err := p.Admits(p.Name); err != nil {
			return nil, err
		}
	}
	s, err := p.Open(name)
	if err != nil {
		return nil, err
	}
	if s.Elsewhere() != nil {
		defer s.Close()
		return nil, s.NeedsNATS("leader " + name)
	}
	if p.Name != "" {
		s.Bucket = p.Name
	}
	return s, nil
}

// named is the bucket.
func (p place) named() string {
	if p.Name != "" {
		return p.Name
	}
	return p.Bucket
}

func (p place) validate() error {
	err := p.Validate()
	if p.Name != "" {
		err = errors.Join(err, app.ValidBucket("bucket", p.Name))
	}
	return err
}

// CreateCommand makes a bucket.
type CreateCommand struct {
	place

	Replicas    int    `placeholder:"N" help:"How many servers keep the bucket: 1, 3 or 5 (default: 3, or 1 on a server without a cluster)."`
	Storage     string `enum:"file,memory" default:"file" help:"Where the servers keep it: file, memory. A restart forgets what is in memory."`
	MaxBytes    int64  `placeholder:"BYTES" help:"A bound for its size, if the account demands one. A bucket that is full refuses renewals."`
	Description string `placeholder:"TEXT" help:"What nats kv info shows of it."`
}

// Help describes the command.
func (CreateCommand) Help() string {
	return `Makes a bucket as elections want it, and prints how it is configured. A bucket that exists is left as it is: the
command may be repeated.

It differs from one of nats kv add in what protects elections: rollups, purges and deletions are refused, nothing
expires, revisions continue above those of a bucket of the name that was deleted, and stored records are
republished, so that those who watch need no consumers.

Fields of -o json: bucket, stream, created, replicas, storage, cluster, max_bytes, first_sequence, republish, rollups, purges,
deletions, direct_gets, max_age_seconds.

Exit status: 0 made, or there already; 2 wrong usage; 5 a permission is missing, and the message names it, or the
server refuses; 6 no answer in time.

Examples:
  leader bucket create --dev
  leader bucket create leaders --replicas 3
  leader bucket create -b staging-leaders -o json`
}

// Validate checks what the parser cannot.
func (c CreateCommand) Validate() error {
	errs := []error{c.validate()}
	switch c.Replicas {
	case 0, 1, 3, 5:
	default:
		errs = append(errs, fmt.Errorf("--replicas %d: must be 1, 3 or 5", c.Replicas))
	}
	if c.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("--max-bytes %d: must not be negative", c.MaxBytes))
	}
	return errors.Join(errs...)
}

func (c CreateCommand) config() natsstore.BucketConfig {
	cfg := natsstore.BucketConfig{Bucket: c.named(), Description: c.Description, Replicas: c.Replicas, MaxBytes: c.MaxBytes}
	if c.Storage == "memory" {
		cfg.Storage = jetstream.MemoryStorage
	}
	return cfg
}

// Run makes the bucket.
func (c CreateCommand) Run(ctx context.Context, std app.Streams) error {
	s, err := c.open("bucket create")
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	tester := rights.NewTester(s.NC)
	i := Inspect(ctx, s, tester, 0)
	created := i.Missing()
	if created {
		if err := c.make(ctx, s, tester); err != nil {
			return err
		}
		i = Inspect(ctx, s, tester, 0)
	}
	if i.Info == nil {
		return i.Err
	}
	settings := settingsOf(i.Info, created)
	c.comment(std, settings, i)
	return c.Write(std.Out, settings.result())
}

func (c CreateCommand) make(ctx context.Context, s *app.Session, tester *rights.Tester) error {
	right := rights.Scope{Bucket: s.Bucket, API: s.API()}.CreateRight()
	switch has, err := tester.Has(ctx, right); {
	case err != nil:
		return err
	case !has:
		return fmt.Errorf("%w: bucket %q does not exist and may not be made: the user needs permission to %v", store.ErrPermanent, s.Bucket, right)
	}
	js, err := s.JetStream()
	if err != nil {
		return err
	}
	err = natsstore.EnsureBucket(ctx, js, c.config())
	if refusal, ok := errors.AsType[*jetstream.APIError](err); ok && errors.Is(err, store.ErrPermanent) {
		// An answer of the server's own, which the next try would get again.
		err = fmt.Errorf("%w: the server refuses to make bucket %q%s: %s (error %d)",
			store.ErrPermanent, s.Bucket, c.asked(), refusal.Description, refusal.ErrorCode)
		if refusal.ErrorCode == codeNeedsMaxBytes {
			err = fmt.Errorf("%w; --max-bytes states a bound", err)
		}
	}
	return err
}

// codeNeedsMaxBytes is the server's error for a stream without a bound in an
// account that demands one.
const codeNeedsMaxBytes jetstream.ErrorCode = 10113

// asked returns the flags that a server may not be able to follow.
func (c CreateCommand) asked() (flags string) {
	if c.Replicas != 0 {
		flags += fmt.Sprintf(" with --replicas %d", c.Replicas)
	}
	if c.MaxBytes != 0 {
		flags += fmt.Sprintf(" with --max-bytes %d", c.MaxBytes)
	}
	return flags
}

// comment describes what was done, and where the bucket differs from the
// request.
func (c CreateCommand) comment(std app.Streams, made Settings, i Inspection) {
	if made.Created {
		fmt.Fprintf(std.Err, "Bucket %q is made.\n", made.Bucket)
	} else {
		fmt.Fprintf(std.Err, "Bucket %q was there, and is left as it is.\n", made.Bucket)
	}
	if c.Replicas != 0 && made.Replicas != c.Replicas {
		fmt.Fprintf(std.Err, "It has %d replicas and not %d: %s\n", made.Replicas, c.Replicas, edit(&i.Info.Config, fmt.Sprintf("--replicas %d", c.Replicas)))
	}
	if made.Storage != c.Storage {
		fmt.Fprintf(std.Err, "It is kept in %s and not in %s, which cannot be changed.\n", made.Storage, c.Storage)
	}
	if n := i.Findings.Count(finding.Warn) + i.Findings.Count(finding.Fail); n > 0 {
		fmt.Fprintf(std.Err, "It has weaknesses (%d): leader bucket check %s explains them.\n", n, made.Bucket)
	}
}

// CheckCommand examines a bucket.
type CheckCommand struct {
	place

	TTL    time.Duration `name:"ttl" default:"3s" help:"The length of the leases: a bucket that expires its records sooner is refused."`
	Strict bool          `help:"Exit with 1 if there are warnings."`
}

// Help describes the command.
func (CheckCommand) Help() string {
	return `Lists what is unsafe about an existing bucket, why, and which command changes it. Nothing is changed.

Fields of -o json: bucket, suitable (no finding is fail), settings (as of leader bucket create), findings (check,
status, text, fix). The status is ok, info (not to be judged), warn (weakens a guarantee), fail (elections are refused there).

Exit status: 0, also with warnings; 1 with warnings and --strict; 2 wrong usage; 5 elections are refused
there, the bucket is missing, or a permission is, which the message names; 6 no answer in time.

Examples:
  leader bucket check --dev
  leader bucket check leaders --strict
  leader bucket check -o json | jq -r '.findings[] | select(.fix) | .fix'`
}

// Validate checks what the parser cannot.
func (c CheckCommand) Validate() error {
	errs := []error{c.validate()}
	if c.TTL <= 0 {
		errs = append(errs, fmt.Errorf("--ttl %v: must be positive", c.TTL))
	}
	return errors.Join(errs...)
}

// A checked bucket is what check prints.
type checked struct {
	Bucket   string       `json:"bucket"`
	Suitable bool         `json:"suitable"`
	Settings Settings     `json:"settings"`
	Findings finding.List `json:"findings"`
}

// Run examines the bucket.
func (c CheckCommand) Run(ctx context.Context, std app.Streams) error {
	s, err := c.open("bucket check")
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	i := Inspect(ctx, s, rights.NewTester(s.NC), c.TTL)
	if i.Info == nil {
		return i.Err
	}
	fails := i.Findings.Count(finding.Fail)
	err = i.Findings.Write(std.Out, c.Format, checked{s.Bucket, fails == 0, settingsOf(i.Info, false), i.Findings})
	switch {
	case err != nil:
		return err
	case fails > 0:
		return &app.ExitError{Code: app.ExitRefused}
	case c.Strict && i.Findings.Count(finding.Warn) > 0:
		return &app.ExitError{Code: app.ExitFailure}
	}
	return nil
}
