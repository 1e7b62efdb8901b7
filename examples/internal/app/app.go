// Package app is what the examples have in common and what is not about
// elections: flags, the connection, the way to the exit, and one line of output
// for each thing done.
package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader"
)

// Bucket is the bucket of all examples.
const Bucket = "leaders"

// Main runs an example until it returns or a signal ends its context, and
// returns the exit status.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) error) int {
	// Kubernetes and systemd end a program with SIGTERM.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		return 2
	default:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
}

// Flags are the flags of all examples. Their defaults come from the
// environment, as containers are configured.
type Flags struct {
	Server  string         // -server, NATS_URL
	Creds   string         // -creds, NATS_CREDS
	ID      string         // -id, POD_NAME
	Profile leader.Profile // -profile, LEADER_PROFILE
	TTL     time.Duration  // -ttl
	Dev     bool           // -dev
	Verbose bool           // -v

	stderr io.Writer
}

// Parse parses the arguments. define, if not nil, adds an example's own flags.
func (f *Flags) Parse(name string, args []string, stderr io.Writer, define func(*flag.FlagSet)) error {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&f.Server, "server", Env("NATS_URL", nats.DefaultURL), "the NATS server's `URL` ($NATS_URL)")
	fs.StringVar(&f.Creds, "creds", Env("NATS_CREDS", ""), "a `file` of credentials ($NATS_CREDS)")
	fs.StringVar(&f.ID, "id", Env("POD_NAME", defaultID()), "the `name` of this copy, unlike any other's ($POD_NAME)")
	fs.DurationVar(&f.TTL, "ttl", 0, "the lease's length (default: the profile's)")
	fs.BoolVar(&f.Dev, "dev", false, "run a NATS server in this process, at the URL; start further copies without it")
	fs.BoolVar(&f.Verbose, "v", false, "log more")
	profile := leader.ProfileLowLatency
	if err := profile.UnmarshalText([]byte(Env("LEADER_PROFILE", profile.String()))); err != nil {
		return fmt.Errorf("LEADER_PROFILE: %w", err)
	}
	fs.TextVar(&f.Profile, "profile", profile, "low-latency, stable or high-throughput ($LEADER_PROFILE)")
	if define != nil {
		define(fs)
	}
	f.stderr = stderr
	return fs.Parse(args)
}

// Env returns an environment variable, or other if it is empty.
func Env(name, other string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return other
}

// defaultID distinguishes copies on one machine. A name that stays the same
// over restarts is better.
func defaultID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return host + "-" + strconv.Itoa(os.Getpid())
}

// Logger logs to stderr: what matters, or with -v everything.
func (f *Flags) Logger() *slog.Logger {
	level := slog.LevelInfo
	if f.Verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(f.stderr, &slog.HandlerOptions{Level: level}))
}

// Connect connects to NATS, and with -dev starts a server before. close ends
// both.
func (f *Flags) Connect() (nc *nats.Conn, closeAll func(), err error) {
	stop := func() {}
	if f.Dev {
		if stop, err = startServer(f.Server); err != nil {
			return nil, nil, err
		}
	}
	opts := []nats.Option{
		nats.Name(f.ID),
		// A program that waits for its server needs no order of start.
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond),
		// Credentials may be refused while they are being renewed: see Security
		// in docs/operate/security.md.
		nats.IgnoreAuthErrorAbort(),
	}
	if f.Creds != "" {
		opts = append(opts, nats.UserCredentials(f.Creds))
	}
	nc, err = nats.Connect(f.Server, opts...)
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("connecting to %s: %w", f.Server, err)
	}
	return nc, func() { nc.Close(); stop() }, nil
}

// Grace is how a candidate of the example treats a bucket that was made just
// now: others may follow a leader of the bucket before it, which is waited out,
// but on a server of our own there was none.
func (f *Flags) Grace() leader.AcquireGrace {
	if f.Dev {
		return leader.GraceOff
	}
	return leader.GraceAuto
}

// Say writes one line: the time, who, in which term, and what.
func Say(w io.Writer, id string, term leader.Term, format string, args ...any) {
	fmt.Fprintf(w, "%s %s term=%d %s\n", time.Now().Format(time.RFC3339Nano), id, term.Number, fmt.Sprintf(format, args...))
}

// Sleep waits for d, and reports whether ctx was not done before.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	// Looked at again: a process that was stopped meanwhile finds both, and
	// select takes either.
	return ctx.Err() == nil
}
