package natsstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// A client sends the requests of a store, one by one, and explains how they
// ended. It is safe for concurrent use.
type client struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	opts  Options
	names wire.Names

	attendants attendants
	noDirect   atomic.Bool // the bucket was found to refuse direct gets
}

func newClient(nc *nats.Conn, bucket string, opts Options) (*client, error) {
	c := &client{nc: nc, opts: opts}
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
	c.attendants.look = c.connReport
	c.attendants.inbox = c.inboxPrefix()
	c.attendants.guard = func(f func()) func() { return c.shielded("a look at the connection", f) }
	return c, nil
}

func (c *client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.opts.Timeout)
}

// sendable reports why nothing can be sent now. What it refuses has certainly
// not left.
func (c *client) sendable(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: not sent: %w", store.ErrTransient, ctx.Err())
	case c.nc.IsClosed():
		return fmt.Errorf("%w: not sent: %w", store.ErrClosed, nats.ErrConnectionClosed)
	case !c.nc.IsConnected():
		// Sending now would leave the write to the reconnect buffer, which
		// delivers it when nobody wants it any more.
		return fmt.Errorf("%w: not sent: %w", store.ErrTransient, nats.ErrDisconnected)
	}
	return nil
}

// request sends one request that changes nothing.
func (c *client) request(ctx context.Context, subject string, body []byte) (*nats.Msg, connReport, error) {
	before := c.connReport()
	if !before.connected && !c.nc.IsClosed() {
		return nil, before, nats.ErrDisconnected
	}
	ctx, call := c.attendants.begin(ctx, before, subject)
	defer c.attendants.end(call)
	m, err := c.nc.RequestWithContext(ctx, subject, body)
	return m, before, interrupted(ctx, err)
}

// A connReport is what the connection had to report at some instant.
type connReport struct {
	err        error
	reconnects uint64
	connected  bool
}

func (c *client) connReport() connReport {
	return connReport{err: c.nc.LastError(), reconnects: c.nc.Stats().Reconnects, connected: c.nc.IsConnected()}
}

// since returns what was reported last, if that was after the report before, and
// on the same connection.
func (r connReport) since(before connReport) error {
	//nolint:errorlint // the same value again is the same report, an equal text in another value is a new one
	if r.err == before.err || r.reconnects != before.reconnects {
		return nil
	}
	return r.err
}

// reportedSince returns what the connection reported last, if it did so since
// before. A caller with more than one question takes it once: a report may come
// between two questions.
func (c *client) reportedSince(before connReport) error { return c.connReport().since(before) }

// deniedSince returns the permission violation that the connection reported
// since before, if it names one of the subjects (or, for one that ends in a dot,
// a subject that begins so).
//
// The server reports a denied publish or subscription as an error of the
// connection, without a link to the request. The violation is taken as this
// call's only if it is new, came on the same connection, and names the subject.
func (c *client) deniedSince(before connReport, subjects ...string) error {
	return wire.Violation(c.reportedSince(before), subjects...)
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
	return errors.Is(err, errDenied) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, nats.ErrTimeout)
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
		log = slog.Default()
	}
	// Whatever the Logger does in its turn can be reported to nobody.
	shield.Call(func() {
		log.Error("panic", "of", what, "value", shield.Value(value), "stack", string(stack), "bucket", c.names.Bucket)
	}, func(any, []byte) {})
}
