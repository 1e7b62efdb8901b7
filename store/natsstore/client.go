package natsstore

import (
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
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// A client sends the requests of a store, one by one, and explains how they
// ended. It is safe for concurrent use.
type client struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	opts  Options
	names wire.Names

	noDirect atomic.Bool // the bucket was found to refuse direct gets
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
	return c, nil
}

// bounded gives ctx the store's default deadline if it has none.
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
	if !c.nc.IsConnected() && !c.nc.IsClosed() {
		return nil, before, nats.ErrDisconnected
	}
	ctx, release := c.attended(ctx, before, subject)
	defer release()
	m, err := c.nc.RequestWithContext(ctx, subject, body)
	return m, before, interrupted(ctx, err)
}

// A connReport is what the connection had to report before a call.
type connReport struct {
	err        error
	reconnects uint64
}

func (c *client) connReport() connReport {
	return connReport{err: c.nc.LastError(), reconnects: c.nc.Stats().Reconnects}
}

// reportedSince returns what the connection reported last, if it did so since
// before. Who asks more than one question of it takes it once: a report may come
// between two questions.
func (c *client) reportedSince(before connReport) error {
	err := c.nc.LastError()
	//nolint:errorlint // the same value again is the same report, an equal text in another value is a new one
	if err == before.err || c.nc.Stats().Reconnects != before.reconnects {
		return nil
	}
	return err
}

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

// inboxPrefix is the beginning of the subjects on which this connection receives
// replies.
func (c *client) inboxPrefix() string {
	if p := c.nc.Opts.InboxPrefix; p != "" {
		return p + "."
	}
	return nats.InboxPrefix
}

// Why attended ended a call before its time.
var (
	errInterrupted = errors.New("the connection broke during the call")
	errDenied      = errors.New("the user lacks a permission")
)

// attention is when a call that waits looks at its connection first. Each
// further look comes after twice as long, up to attentionMost: a thousand calls
// that wait, because everything is slow, must not contend for the connection
// with those that would end their wait.
const (
	attention     = 20 * time.Millisecond
	attentionMost = 16 * attention
)

// attended returns a context that ends when the connection breaks, or reports
// that the user may not publish to the subject or hear the answer. The client
// library would let the call wait for its deadline, though no answer will come.
func (c *client) attended(parent context.Context, before connReport, subject string) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	var look *time.Timer
	wait := attention // the looks come one after the other
	look = time.AfterFunc(time.Hour, c.shielded("a look at the connection", func() {
		switch {
		case !c.nc.IsConnected() || c.nc.Stats().Reconnects != before.reconnects:
			cancel(errInterrupted)
		case c.deniedSince(before, subject, c.inboxPrefix()) != nil:
			cancel(errDenied)
		case ctx.Err() == nil:
			wait = min(2*wait, attentionMost)
			look.Reset(wait)
		}
	}))
	look.Reset(attention)
	return ctx, func() {
		look.Stop()
		cancel(nil)
	}
}

// interrupted replaces the cancellation by which attended ended a call with its
// reason.
func interrupted(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err != nil && (errors.Is(cause, errInterrupted) || errors.Is(cause, errDenied)) {
		return cause
	}
	return err
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

// panicked reports a panic.
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
