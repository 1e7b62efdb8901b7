package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/attend"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// A client sends the requests of a store, one by one, and explains how they
// ended. It is safe for concurrent use.
type client struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	opts  Options
	names wire.Names

	attendant *attend.Attendant
	noDirect  atomic.Bool   // the bucket was found to refuse direct gets
	consumes  atomic.Bool   // watches were found to need consumers
	mute      atomic.Bool   // the user was found not to be allowed to ask for the configuration
	newest    atomic.Uint64 // revision that a watch has delivered
	known     testimony
	trying    chan struct{} // holds a token while the server is asked for a right
	// describing is the question for the bucket's configuration.
	describing question[*jetstream.StreamInfo]
}

func newClient(nc *nats.Conn, bucket string, opts Options) (*client, error) {
	c := &client{nc: nc, opts: opts, trying: make(chan struct{}, 1)}
	api := jetstream.DefaultAPIPrefix
	var err error
	switch {
	case opts.Domain != "":
		api = "$JS." + opts.Domain + ".API."
		c.js, err = jetstream.NewWithDomain(nc, opts.Domain)
	case opts.APIPrefix != "":
		api = strings.TrimSuffix(opts.APIPrefix, ".") + "."
		c.js, err = jetstream.NewWithAPIPrefix(nc, opts.APIPrefix)
	default:
		c.js, err = jetstream.New(nc)
	}
	if err != nil {
		return nil, fmt.Errorf("natsstore: Domain %q, APIPrefix %q: %w", opts.Domain, opts.APIPrefix, err)
	}
	c.names = wire.NewNames(bucket, api)
	c.attendant = attend.New(c.connReport, c.inboxPrefix(), func(f func()) func() { return c.shielded("a look at the connection", f) })
	return c, nil
}

func (c *client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return bounded(ctx, c.opts.Timeout)
}

// sendable reports why nothing can be sent now. A request that it refuses has
// certainly not left.
func (c *client) sendable(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: not sent: %w", store.ErrTransient, ctx.Err())
	default:
		return c.connected()
	}
}

// sendableBy is sendable of what is to be answered by the deadline.
func (c *client) sendableBy(deadline time.Time) error {
	if !time.Now().Before(deadline) {
		return fmt.Errorf("%w: not sent: %w", store.ErrTransient, context.DeadlineExceeded)
	}
	return c.connected()
}

// connected distinguishes a connection that is down from a connection that is
// permanently closed, which ends elections.
func (c *client) connected() error {
	switch {
	case c.nc.IsClosed():
		return fmt.Errorf("%w: not sent: %w", store.ErrClosed, nats.ErrConnectionClosed)
	case !c.nc.IsConnected():
		// Sending now would leave the write to the reconnect buffer, which
		// delivers it when nobody wants it any more.
		return fmt.Errorf("%w: not sent: %w", store.ErrTransient, c.away())
	}
	return nil
}

// away is the error of a connection that is down. The servers' URLs in it have no
// users.
func (c *client) away() error {
	return fmt.Errorf("no connection to %s: %w", strings.Join(c.nc.Servers(), ", "), nats.ErrDisconnected)
}

// ask sends one request that changes nothing, and that may be made again without
// an effect.
func (c *client) ask(ctx context.Context, subject string, body []byte) (*nats.Msg, attend.Report, error) {
	before := c.connReport()
	// The client library would keep the request until it has reconnected. On a
	// closed connection the library refuses the request itself.
	if !before.Connected && !c.nc.IsClosed() {
		return nil, before, c.away()
	}
	ctx, call := c.attendant.Begin(ctx, before, subject, func(ctx context.Context) error {
		return c.refused(ctx, wire.Publish, subject)
	})
	defer c.attendant.End(call)
	m, err := c.nc.RequestWithContext(ctx, subject, body)
	return m, before, attend.Interrupted(ctx, err)
}

// send sends a message that is to be stored, once, and returns its sequence.
func (c *client) send(ctx context.Context, before attend.Report, m *nats.Msg) (uint64, error) {
	ctx, call := c.attendant.Begin(ctx, before, m.Subject, nil) // a write is not made again
	defer c.attendant.End(call)
	answer, err := c.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, attend.Interrupted(ctx, err)
	}
	return wire.Ack(answer)
}

// noting returns deliver for a watch, which also keeps the newest revision.
func (c *client) noting(deliver func(store.Entry)) func(store.Entry) {
	return func(e store.Entry) {
		for newest := c.newest.Load(); e.Revision > newest && !c.newest.CompareAndSwap(newest, e.Revision); {
			newest = c.newest.Load()
		}
		deliver(e)
	}
}

func (c *client) connReport() attend.Report { return attend.ReportOf(c.nc) }

// reportedSince returns what the connection reported last, if it did so since
// before.
func (c *client) reportedSince(before attend.Report) error { return c.connReport().Since(before) }

// denied returns the permission violation that ended a call with err, or that
// the connection reported since before, if it denies publishing to the subject.
//
// The server reports a denied publish or subscription as an error of the
// connection, without a link to the request. The violation is taken as this
// call's only if it is new, came on the same connection, and denies publishing
// to the subject.
func (c *client) denied(err error, before attend.Report, subject string) error {
	return cmp.Or(wire.Violation(err, wire.Publish, subject), wire.Violation(c.reportedSince(before), wire.Publish, subject))
}

// unheard returns the reported error if it denies subscribing to replies.
func (c *client) unheard(reported error) error {
	return wire.Violation(reported, wire.Subscribe, c.inboxPrefix())
}

// inboxPrefix is the beginning of the subjects of replies.
func (c *client) inboxPrefix() string {
	if p := c.nc.Opts.InboxPrefix; p != "" {
		return p + "."
	}
	return nats.InboxPrefix
}

// ended reports whether err is the end of a call without an answer, but for a
// broken connection.
func ended(err error) bool {
	return errors.Is(err, attend.ErrDenied) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, nats.ErrTimeout)
}

// shielded returns f for a goroutine that is not its caller's: a panic of it is
// reported.
func (c *client) shielded(what string, f func()) func() {
	return func() {
		shield.Call(f, func(value any, stack []byte) { c.panicked(what, value, stack) })
	}
}

func (c *client) panicked(what string, value any, stack []byte) {
	log := c.opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	// Whatever the Logger does in its turn can be reported to nobody.
	shield.Call(func() {
		log.Error("panic", "of", what, "value", shield.Value(value), "stack", string(stack), "bucket", c.names.Bucket)
	}, func(any, []byte) {})
}
