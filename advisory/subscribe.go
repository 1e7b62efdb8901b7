package advisory

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"
)

// Subscribe yields the advisories on a subject, or on those that a pattern
// matches (see [Subject]), as they come, until ctx is done. Those of the time
// before are in a stream, if one keeps them.
//
// A message that is not an advisory, or does not match its subject (see
// [DecodeOn]), is yielded as an error that matches ErrMalformed. A reader that
// is too slow gets an error that matches nats.ErrSlowConsumer: messages were
// lost. Neither error ends the subscription. Every other error does.
func Subscribe(ctx context.Context, nc *nats.Conn, subject string) iter.Seq2[Advisory, error] {
	return func(yield func(Advisory, error) bool) {
		sub, err := nc.SubscribeSync(subject)
		if err != nil {
			yield(Advisory{}, fmt.Errorf("advisory: %q: %w", subject, err))
			return
		}
		defer func() { _ = sub.Unsubscribe() }()
		for goOn := true; goOn; {
			a, err := next(ctx, sub)
			if ctx.Err() != nil {
				return
			}
			goOn = yield(a, err) && (err == nil || passing(err))
		}
	}
}

func next(ctx context.Context, sub *nats.Subscription) (Advisory, error) {
	m, err := sub.NextMsgWithContext(ctx)
	if err != nil {
		return Advisory{}, fmt.Errorf("advisory: %q: %w", sub.Subject, err)
	}
	return DecodeOn(m.Subject, m.Data)
}

func passing(err error) bool {
	return errors.Is(err, ErrMalformed) || errors.Is(err, nats.ErrSlowConsumer)
}
