// Package app is what the commands have in common: their streams, the bucket
// that they work on, their exit statuses.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/environ"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore"
)

// Streams are the standard streams of a command. Data goes to Out, prose to
// Err.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// DefaultBucket is the bucket of commands that name none.
const DefaultBucket = "leaders"

// A Target is the bucket of elections that a command works on, and how to get
// there. Commands embed it.
type Target struct { //nolint:recvcheck // the parser's hook changes it, and all else does not
	natsconn.Flags

	Kit Kit         `kong:"-"`
	Env environ.Env `kong:"-"` // of the command

	Store   string        `env:"LEADER_STORE" placeholder:"URL" help:"The store of the elections, in place of --server and --bucket: ${stores} (leader doctor --help shows the forms)."`
	Bucket  string        `short:"b" default:"leaders" env:"LEADER_BUCKET" placeholder:"BUCKET" help:"The key-value bucket of the elections."`
	Timeout time.Duration `default:"5s" env:"NATS_TIMEOUT" placeholder:"TIME" help:"How long to wait for the server, and for the effect of a request."`
	Dev     bool          `help:"Try it out on a separate NATS server, with sample elections that end with the command; NATS_URL, NATS_CONTEXT and LEADER_STORE are not used. With the --store of another server it only prints how to start one."`

	typed bool   // the command line itself names the bucket by --bucket
	named string // the bucket that --store names, if it names one
}

// ValidGroup returns an error unless an argument can be a group's name.
func ValidGroup(group string) error {
	if group == "" {
		return errors.New("<group>: is required")
	}
	if !store.ValidKey(group) {
		return fmt.Errorf("group %q: must be letters, digits and -_=/. with no dot at an end and no two in a row", group)
	}
	return nil
}

// Validate checks what the parser cannot.
func (t Target) Validate() error {
	var errs []error
	if t.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("--timeout %v: must be positive", t.Timeout))
	}
	errs = append(errs, ValidBucket("--bucket", t.Bucket))
	if t.Dev && t.Typed(t.Env) {
		errs = append(errs, errors.New("--dev: brings its own server, and --server or --context name another"))
	}
	errs = append(errs, t.checkDev())
	if t.Store != "" && t.Typed(t.Env) {
		errs = append(errs, errors.New("--store: names the store, and --server or --context name another"))
	}
	return errors.Join(errs...)
}

// A Session is a connection to a target.
type Session struct {
	NC      *nats.Conn // nil elsewhere than on NATS
	Bucket  string     // or what --store names, for people
	URL     string     // without credentials, for people
	Timeout time.Duration
	// Fresh: the server began with an empty directory, for this session alone.
	Fresh bool

	api        natsstore.Options // which API of JetStream the bucket is reached by
	candidates sync.Once         // makes shared
	shared     Registers
	sharedErr  error
	asking     questioning

	command   string
	elsewhere Registers // nil on NATS

	closers []func()
}

// Open connects, under the name of the command. The options come after the
// flags' options.
func (t Target) Open(command string, opts ...nats.Option) (*Session, error) {
	return t.open(command, false, opts)
}

// OpenLive is Open for commands that follow what happens: with --dev, something
// does every few seconds.
func (t Target) OpenLive(command string, opts ...nats.Option) (*Session, error) {
	return t.open(command, true, opts)
}

// Await is Open for commands that may be started before their server: for as
// long as the timeout it tries again to reach one.
func (t Target) Await(ctx context.Context, command string) (*Session, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	for {
		s, err := t.Open(command)
		if !MayPass(err) {
			return s, err
		}
		select {
		case <-time.After(reopenAfter):
		case <-ctx.Done():
			return s, err
		}
	}
}

// MayPass reports whether another attempt to open a session may succeed.
func MayPass(err error) bool { return Unreachable(err) || store.Classify(err) == store.Transient }

// reopenAfter is the time from one attempt to reach a server to the next.
const reopenAfter = 250 * time.Millisecond

func (t Target) open(command string, live bool, opts []nats.Option) (_ *Session, err error) {
	t, onNATS, err := t.onNATS()
	switch {
	case err != nil:
		return nil, err
	case t.Dev: // as for NATS_URL, LEADER_STORE is not used
	case !onNATS:
		return t.openElsewhere(command)
	}
	s := &Session{Bucket: t.Bucket, Timeout: t.Timeout, Fresh: t.Dev, command: command}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	flags, patience := t.Flags, t.Timeout
	if t.Dev {
		// That server is there. On a slow machine it takes as long as it takes.
		patience = max(patience, devPatience)
		srv, err := t.Kit.Serve(0)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, func() { _ = srv.Close() })
		flags = natsconn.Flags{Server: srv.URL()}
		elections, err := startSamples(srv.URL(), t.Bucket)
		if err != nil {
			return nil, err
		}
		s.closers = append(s.closers, elections.stop)
		if live {
			elections.keepChanging()
		}
	}
	settings, err := t.Kit.Settings(flags)
	if err != nil {
		return nil, err
	}
	s.URL, s.api = settings.Shown(), natsstore.Options{Domain: settings.Domain, APIPrefix: settings.APIPrefix}
	s.NC, err = settings.ConnectWithin(patience, "leader "+command, append([]nats.Option{nats.Timeout(patience)}, opts...)...)
	switch {
	case Unreachable(err):
		return nil, fmt.Errorf("%w; --server (NATS_URL) or --context names another server, and --dev brings one to try things out", err)
	case err != nil:
		return nil, err
	}
	s.closers = append(s.closers, s.NC.Close)
	err = s.needsJetStream()
	return s, err
}

// Unreachable reports whether a connection failed since no server was there.
func Unreachable(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, io.EOF)
}

// Store returns the bucket as a store, which watches no more than it is asked
// to: a user that may look at one group may lack the right to look at others.
// The session closes it.
func (s *Session) Store() (Registers, error) {
	return s.store(natsstore.Options{})
}

// WholeStore returns the bucket as a store for commands that look at every key
// of it, by one subscription.
func (s *Session) WholeStore() (Registers, error) {
	return s.store(natsstore.Options{WatchWholeBucket: true})
}

func (s *Session) store(opts natsstore.Options) (Registers, error) {
	if s.elsewhere != nil {
		return s.elsewhere, nil
	}
	st, err := s.NewStore(opts)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, st.Close)
	return st, nil
}

// NewStore returns the bucket as a store, which is to be closed. The API of
// JetStream in the options is the session's.
func (s *Session) NewStore(opts natsstore.Options) (*natsstore.Store, error) {
	opts.Domain, opts.APIPrefix = s.api.Domain, s.api.APIPrefix
	return natsstore.New(s.NC, s.Bucket, opts)
}

// API returns the prefix of the requests to JetStream, which ends in a dot.
func (s *Session) API() string {
	switch {
	case s.api.Domain != "":
		return "$JS." + s.api.Domain + ".API."
	case s.api.APIPrefix != "":
		return s.api.APIPrefix + "."
	default:
		return jetstream.DefaultAPIPrefix
	}
}

// JetStream returns the API of the bucket's streams, in its domain.
func (s *Session) JetStream() (jetstream.JetStream, error) {
	if s.elsewhere != nil {
		return nil, s.NeedsNATS("leader " + s.command)
	}
	return jetstream.NewWithAPIPrefix(s.NC, s.API())
}

// Streams opens the target and has work done with the API of its streams,
// within the timeout. The server does not answer a request that it denies: the
// denial ends the work, and is the error if the work returns one.
func (t Target) Streams(ctx context.Context, command string, work func(context.Context, *Session, jetstream.JetStream) error) error {
	ctx, stop := context.WithTimeout(ctx, t.Timeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := t.Open(command, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			cancel(fmt.Errorf("%w: the user lacks a permission: %w", store.ErrPermanent, err))
		}
	}))
	if err != nil {
		return err
	}
	defer s.Close()
	js, err := s.JetStream()
	if err != nil {
		return err
	}
	err = work(ctx, s, js)
	if denial := context.Cause(ctx); err != nil && errors.Is(denial, store.ErrPermanent) {
		return denial
	}
	return err
}

// Close ends what Open and Store began, in reverse order.
func (s *Session) Close() {
	for _, f := range slices.Backward(s.closers) {
		f()
	}
	s.closers = nil
}
