package natsstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/attend"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// read reads a key once. If the bucket refuses direct gets, it asks the
// stream's leader. The first direct get that fails finds out about the refusal.
// The caller is not at fault, so that read is made once more.
func (c *client) read(ctx context.Context, key string) (store.Entry, error) {
	direct := !c.noDirect.Load()
	e, err := c.readBy(ctx, c.readRequest(key), key)
	if err != nil && direct && c.noDirect.Load() { // which the failure has shown
		return c.readBy(ctx, c.readRequest(key), key)
	}
	return e, err
}

// A readRequest is one way of asking for a key, and of reading the answer. It
// is a value, since two send it: a call that waits for the answer, and the hub,
// which does not.
type readRequest struct {
	subject string
	body    []byte
	decode  func(key string, answer *nats.Msg) (store.Entry, error)
}

// readRequest returns the request that the bucket allows, as far as is known.
// It is asked for with each read: a bucket may be replaced, or be changed.
func (c *client) readRequest(key string) readRequest {
	if c.noDirect.Load() {
		return readRequest{subject: c.names.MessageGet(), body: c.names.MessageRequest(key), decode: wire.MessageAnswer}
	}
	return readRequest{subject: c.names.Direct(key), decode: c.names.DirectAnswer}
}

func (c *client) readBy(ctx context.Context, r readRequest, key string) (store.Entry, error) {
	m, before, err := c.ask(ctx, r.subject, r.body)
	if err == nil {
		var e store.Entry
		if e, err = r.decode(key, m); err == nil {
			return e, nil
		}
		c.noteCopy(err)
	}
	return store.Entry{}, c.readError(ctx, before, r.subject, err)
}

// readError classifies and explains a failed request that changes nothing. Only
// a call without an answer can have been denied: the server does not answer
// those.
func (c *client) readError(ctx context.Context, before attend.Report, subject string, err error) error {
	class := classifyRead(err)
	if errors.Is(class, errNoStream) {
		return c.diagnose(ctx, err)
	}
	if ended(err) {
		if denied := c.denied(err, before, subject); denied != nil {
			return fmt.Errorf("%w: the user may not publish to %s: %w", store.ErrPermanent, subject, denied)
		}
		// The inbox is subscribed once for all requests, so that its violation
		// may be an old one.
		if denied := c.unheard(c.nc.LastError()); denied != nil {
			return fmt.Errorf("%w: the user may not subscribe to replies: %w", store.ErrPermanent, denied)
		}
	}
	return fmt.Errorf("%w: bucket %q: %w", class, c.names.Bucket, err)
}
