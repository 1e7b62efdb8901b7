package rollcall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
)

// How long candidates are waited for: the first for patience, each further one
// for quiet after the one before.
const (
	patience = time.Second
	quiet    = 250 * time.Millisecond
)

// maxAnswers ends a roll call that does not end by itself: any user that hears
// the question may go on answering.
const maxAnswers = 1000

// ErrNoAnswer means that no candidate answered, though the servers did not report that
// nobody listens: the candidates are cut off, or the right to ask is missing.
var ErrNoAnswer = errors.New("rollcall: no answer")

// Ask asks the candidates of a group and yields them as they answer, until for
// a quarter of a second nobody has, or ctx is done. It ends at once, without a
// candidate, if the servers know of none that listens. An instance that answers
// twice is two processes with the same name.
//
// A malformed answer is yielded as an error that matches ErrMalformed; others
// may follow it. The other errors are the last: ErrNoAnswer after a second
// without any answer, store.ErrInvalid for an invalid group,
// nats.ErrMaxMessages if there are more answers than the 1000 that are taken,
// and errors of the connection.
func Ask(ctx context.Context, nc *nats.Conn, bucket, group string) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		sub, err := ask(nc, bucket, group)
		if err != nil {
			yield(Candidate{}, err)
			return
		}
		defer func() { _ = sub.Unsubscribe() }()
		within := patience
		for answers := 0; ; answers++ {
			m, err := next(ctx, sub, within)
			switch {
			case errors.Is(err, nats.ErrNoResponders), silent(err) && (within == quiet || ctx.Err() != nil):
				return
			case silent(err):
				err = fmt.Errorf("%w from group %q in %v: candidates listen that cannot answer, or the right to publish %s is missing",
					ErrNoAnswer, group, patience, Subject(bucket, group))
			case err == nil && answers == maxAnswers:
				err = fmt.Errorf("rollcall: more than %d answers from group %q, and the rest is left out: %w", maxAnswers, group, nats.ErrMaxMessages)
			}
			if err != nil {
				yield(Candidate{}, err)
				return
			}
			if c, err := decode(m, bucket, group); !yield(c, err) {
				return
			}
			within = quiet
		}
	}
}

// All is Ask to its end: the candidates by their names. Answers that are none
// are passed over. With an error it returns those that answered before.
func All(ctx context.Context, nc *nats.Conn, bucket, group string) ([]Candidate, error) {
	var all []Candidate
	var last error
	for c, err := range Ask(ctx, nc, bucket, group) {
		switch {
		case err == nil:
			all = append(all, c)
		case !errors.Is(err, ErrMalformed):
			last = err
		}
	}
	slices.SortStableFunc(all, func(a, b Candidate) int { return cmp.Compare(a.Instance, b.Instance) })
	return all, last
}

// ask sends the question, and returns the subscription to the answers.
func ask(nc *nats.Conn, bucket, group string) (*nats.Subscription, error) {
	if !store.ValidKey(group) {
		return nil, fmt.Errorf("%w: group %q", store.ErrInvalid, group)
	}
	inbox := nc.NewInbox() + "." + Prefix
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("rollcall: %w", err)
	}
	if err := nc.PublishRequest(Subject(bucket, group), inbox, nil); err != nil {
		_ = sub.Unsubscribe()
		return nil, fmt.Errorf("rollcall: %q: %w", Subject(bucket, group), err)
	}
	return sub, nil
}

// next returns the next answer. Servers that know of nobody who listens answer
// themselves.
func next(ctx context.Context, sub *nats.Subscription, within time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	m, err := sub.NextMsgWithContext(ctx)
	if err == nil && len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return nil, nats.ErrNoResponders
	}
	return m, err
}

// silent reports whether an error means that nothing came in time.
func silent(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, nats.ErrTimeout)
}
