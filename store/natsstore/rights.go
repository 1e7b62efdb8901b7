package natsstore

import (
	"context"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// triesMost is how often the server is asked for a right while the connection
// reports errors of others.
const triesMost = 10

// refused asks the server for one right, without an effect, and returns the
// denial, if any. Such questions wait for each other, and each is awaited: the
// server reports a violation before it answers the flush that follows, and the
// connection shows the latest one alone.
//
// A question that could not be asked in time, or whose answer others' errors
// hid each time, counts as not refused.
func (c *client) refused(ctx context.Context, act wire.Act, subject string) error {
	select {
	case c.trying <- struct{}{}:
		defer func() { <-c.trying }()
	case <-ctx.Done():
		return nil
	}
	for range triesMost {
		before := c.nc.LastError()
		if !c.try(act, subject) || c.nc.FlushWithContext(ctx) != nil {
			return nil
		}
		reported := c.nc.LastError()
		//nolint:errorlint // an equal error in another value is a new report
		if reported == before {
			return nil
		}
		if denied := wire.Violation(reported, act, subject); denied != nil {
			return denied
		}
	}
	return nil
}

// try does without an effect what the right is needed for. The body that it
// publishes is not JSON, and it names no subject for an answer: the server
// checks the right before it looks at either.
func (c *client) try(act wire.Act, subject string) (sent bool) {
	if act == wire.Publish {
		return c.nc.Publish(subject, []byte("leader")) == nil
	}
	sub, err := c.nc.SubscribeSync(subject)
	if err == nil {
		_ = sub.Unsubscribe() // fails only if the connection is gone, and the flush that follows with it
	}
	return err == nil
}
