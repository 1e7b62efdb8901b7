package natsfence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/fence"
	"github.com/seed-ff2cb582/leader/internal/backoff"
	"github.com/seed-ff2cb582/leader/store"
)

const (
	// patience bounds a call whose context has no deadline.
	patience = 5 * time.Second
	// attemptTime bounds one request while a guard is raised: an answer that
	// got lost is asked for again.
	attemptTime = 2 * time.Second
	// neverExpires is the TTL of a message that outlives its stream's maximum
	// age (ADR-43).
	neverExpires = "never"
)

// retries paces the repetition of what was refused. A write in flight is
// replicated within about a millisecond; a stream leader cut off from its peers
// refuses for many seconds.
func retries() backoff.Policy {
	return backoff.Policy{Initial: time.Millisecond, Max: 32 * time.Millisecond}
}

// A guard lets the writes of one term into one stream.
type guard struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	name    string // of the stream
	subject string // under which the guard is stored
	put     string // to which it is published
	term    leader.Term
	mark    fence.Mark
	exempt  bool // per-message TTLs are allowed, by which the guard never expires

	warnings []string

	// turn holds the sequence of the guard's message, and is empty while
	// somebody writes: a replicated stream refuses what is sent meanwhile under
	// the same guard.
	turn chan uint64
}

// open examines the stream and raises the guard in it.
func open(ctx context.Context, js jetstream.JetStream, stream, subject, put string, t leader.Term) (*guard, error) {
	if err := fence.Check(t); err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, readError(err)
	}
	config := s.CachedInfo().Config
	if err := fit(config); err != nil {
		return nil, err
	}
	g := &guard{
		js: js, stream: s, name: stream, subject: subject, put: put,
		term: t, mark: fence.MarkOf(t), exempt: config.AllowMsgTTL, warnings: warnings(config), turn: make(chan uint64, 1),
	}
	seq, err := g.raise(ctx)
	if err != nil {
		return nil, err
	}
	g.turn <- seq
	return g, nil
}

// raise makes the guard bear this term's mark, and returns the sequence at
// which it does. A raise without an answer is repeated after a look at the
// guard: it may have been applied.
func (g *guard) raise(ctx context.Context) (seq uint64, err error) {
	var failure error
	ended := retries().Repeat(ctx, func() bool {
		seq, err = g.tryRaise(ctx)
		if err == nil || final(err) {
			return true
		}
		failure = telling(failure, err, ctx.Err() != nil)
		return false
	})
	switch {
	case ended:
		return seq, err
	case errors.Is(failure, errMoved), errors.Is(failure, errInFlight):
		return 0, fmt.Errorf("natsfence: %w: raising the guard %q: refused for too long: %w", store.ErrTransient, g.subject, failure)
	}
	return 0, fmt.Errorf("natsfence: raising the guard %q: %w", g.subject, failure)
}

// telling returns the more informative of two failures in a row; ended: the
// second came when the context had ended, and is less informative than the
// first. An attempt that may have been applied, or may yet be, takes precedence
// over all.
func telling(before, last error, ended bool) error {
	switch {
	case before == nil, errors.Is(last, store.ErrUnknown):
		return last
	case ended, errors.Is(before, store.ErrUnknown):
		return before
	}
	return last
}

// final reports whether another attempt cannot help.
func final(err error) bool {
	return errors.Is(err, fence.ErrStale) || errors.Is(err, ErrLost) || errors.Is(err, store.ErrPermanent)
}

func (g *guard) tryRaise(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	seq, last, lasting, err := g.read(ctx)
	if err != nil {
		return 0, err
	}
	// Our own mark may have been put there before per-message TTLs were allowed.
	// It would expire if somebody sets a maximum age, so it is raised once more.
	next, err := last.Accept(g.term)
	if err != nil || next == last && (lasting || !g.exempt) {
		return seq, err
	}
	body, err := g.mark.MarshalText()
	if err != nil {
		return 0, err
	}
	m := &nats.Msg{Subject: g.put, Data: body, Header: nats.Header{}}
	if g.exempt {
		m.Header.Set(jetstream.MsgTTLHeader, neverExpires)
	}
	ack, err := g.send(ctx, m, jetstream.WithExpectStream(g.name), jetstream.WithExpectLastSequencePerSubject(seq))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// read returns the guard as some replica knows it, which may be an older state:
// only a write that was let in proves that it was the latest. A newer term in
// the guard is true for ever. lasting: no maximum age makes it expire.
func (g *guard) read(ctx context.Context) (seq uint64, mark fence.Mark, lasting bool, err error) {
	m, err := g.stream.GetLastMsgForSubject(ctx, g.subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return 0, fence.Mark{}, false, nil
	case err != nil:
		return 0, fence.Mark{}, false, readError(err)
	}
	if err := mark.UnmarshalText(m.Data); err != nil {
		return 0, fence.Mark{}, false, fmt.Errorf("%w: message %d of %q is not a mark (%w): see the package documentation for how to put one there",
			ErrLost, m.Sequence, g.subject, err)
	}
	return m.Sequence, mark, m.Header.Get(jetstream.MsgTTLHeader) == neverExpires, nil
}

// write sends m under the guard. It repeats only what the server provably
// refused. Where that was for an earlier copy of m, of which nobody knows yet
// what becomes, nobody knows what becomes of m.
func (g *guard) write(ctx context.Context, m *nats.Msg) (ack *jetstream.PubAck, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var seq uint64
	select {
	case seq = <-g.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("natsfence: %w: not sent: %w", store.ErrTransient, context.Cause(ctx))
	}
	defer func() { g.turn <- seq }()
	var copied error // a refusal for an earlier copy
	ended := retries().Repeat(ctx, func() bool {
		ack, err = g.send(ctx, m,
			jetstream.WithExpectStream(g.name), jetstream.WithExpectLastSequenceForSubject(seq, g.subject))
		if errors.Is(err, errMoved) {
			seq, err = g.verify(ctx, seq)
			return err != nil
		}
		if errors.Is(err, errCopyInFlight) {
			copied = err
			return false
		}
		return !errors.Is(err, errInFlight)
	})
	switch {
	case ended:
		return ack, err
	case copied != nil:
		return nil, fmt.Errorf("natsfence: %w: refused for too long: %w: %w", store.ErrUnknown, context.Cause(ctx), copied)
	default:
		return nil, fmt.Errorf("natsfence: %w: refused for too long: %w", store.ErrTransient, context.Cause(ctx))
	}
}

// verify finds out why the server refused a write under the guard at seq.
// Without an error the guard bears this term's mark, as far as can be seen, at
// the sequence returned.
func (g *guard) verify(ctx context.Context, seq uint64) (uint64, error) {
	at, last, _, err := g.read(ctx)
	switch {
	case errors.Is(err, ErrLost):
		return seq, err
	case err != nil:
		return seq, fmt.Errorf("natsfence: %w: the write was refused, and the guard cannot be read: %w", store.ErrTransient, err)
	case last == g.mark:
		return at, nil // raised once more; or a replica that lags
	case at == 0:
		return seq, g.missing(ctx, seq)
	}
	switch _, err := last.Accept(g.term); {
	case err != nil:
		return seq, err
	case at > seq:
		// The writer that raised it found nothing there: see missing.
		return seq, fmt.Errorf("%w: %q holds an earlier term since message %d, and this term was raised at %d", ErrLost, g.subject, at, seq)
	}
	return seq, nil // a replica that lags shows an earlier term
}

// missing asks the stream's leader, since some replica knows nothing of the
// guard. It returns nil if that replica lags.
func (g *guard) missing(ctx context.Context, seq uint64) error {
	info, err := g.stream.Info(ctx, jetstream.WithSubjectFilter(g.subject))
	switch {
	case err != nil:
		return fmt.Errorf("natsfence: %w: the write was refused, and the guard cannot be found: %w", store.ErrTransient, err)
	case info.State.Subjects[g.subject] > 0:
		return nil
	}
	// Never raised again from here: while it was gone, a newer term may have
	// come and be gone, too.
	return fmt.Errorf("%w: %q holds no mark, and was raised at %d", ErrLost, g.subject, seq)
}

// send publishes once.
func (g *guard) send(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if !g.js.Conn().IsConnected() {
		// Sending now would leave it to the reconnect buffer, which delivers it
		// when nobody waits any more.
		return nil, fmt.Errorf("natsfence: %w: not sent: %w", store.ErrTransient, nats.ErrDisconnected)
	}
	// The library writes its own headers into the message's.
	sent := &nats.Msg{Subject: m.Subject, Data: m.Data, Header: maps.Clone(m.Header)}
	// A repetition after "no response" could meet its own first attempt.
	ack, err := g.js.PublishMsg(ctx, sent, append(opts, jetstream.WithRetryAttempts(0))...)
	if err != nil {
		return nil, classed(err)
	}
	return ack, nil
}

// readError classes a failed request that changes nothing.
func readError(err error) error {
	class := store.ErrTransient
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code < 500 || errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, jetstream.ErrInvalidStreamName) {
		class = store.ErrPermanent
	}
	return fmt.Errorf("natsfence: %w: %w", class, err)
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, patience)
}
