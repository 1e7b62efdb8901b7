package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/pattern"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/registry"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/sources"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// The hub does what requires a connection for its parts. Its methods in this
// file are called with the lock, by the loop's goroutine or by one that begins
// or ends a watch.
var (
	_ sources.Owner  = (*hub)(nil)
	_ registry.Owner = (*hub)(nil)
	_ pattern.Owner  = (*hub)(nil)
)

// Subscribe uses a queue of fixed length, which drops what it cannot hold. A
// wide subscription uses a queue of the client library that grows, at the cost
// of a goroutine. That goroutine waits while the loop is busy. The current
// state of a large bucket, all at once, once overflowed the queue of fixed
// length, so that the bucket's consumer was made again and again for ever.
func (h *hub) Subscribe(subject string, wide bool) (*nats.Subscription, error) {
	if !wide {
		return h.nc.ChanSubscribe(subject, h.loop.Queue())
	}
	return h.nc.Subscribe(subject, h.loop.Push)
}

// NewInbox has the caller's prefix for inboxes, which the user's permissions
// name.
func (h *hub) NewInbox() string { return h.nc.NewInbox() }

// Publish hands a message to the client library, which sends it later: its
// return proves nothing.
func (h *hub) Publish(m *nats.Msg) error { return h.nc.PublishMsg(m) }

// Ask calls done on the loop's goroutine, with the lock. A request that could
// not be sent ends like an unanswered one, at its deadline: callers need a
// single way of failing, and a single pace of trying again.
func (h *hub) Ask(deadline time.Time, subject string, body []byte, done func(*nats.Msg)) {
	h.sent(h.requests.ask(deadline, subject, body, done))
}

// Refused asks in a separate goroutine, which is rare: see package sources.
// Work calls done, since only there may functions of watches be called.
func (h *hub) Refused(subject string, done func(denied error)) {
	go h.shielded("a question for a right", func() {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		denied := h.refused(ctx, wire.Subscribe, subject)
		h.loop.Lock()
		defer h.loop.Unlock()
		h.answers = append(h.answers, func() { done(denied) })
		h.loop.Nudge()
	})()
}

func (h *hub) answered() {
	for len(h.answers) > 0 {
		done := h.answers[0]
		h.answers = h.answers[1:]
		done()
	}
}

// sent notes why a request was not sent, if it was not.
func (h *hub) sent(err error) {
	if err != nil {
		h.lastErr = err
	}
}

// AskLeader asks for the state of the stream. Its leader alone answers, whereas
// any replica answers a direct get: so the answer settles the doubts that a
// lagging replica raised. The bucket's configuration is adopted first. If the
// stream is another one, the doubts are forgotten before done could compare
// with them.
func (h *hub) AskLeader(keys string, done func(state wire.State, ok bool)) {
	h.Ask(time.Now().Add(readTimeout), h.names.Info(), h.names.StateRequest(keys), func(m *nats.Msg) {
		info := new(jetstream.StreamInfo)
		if m == nil || wire.Answer(m, info) != nil {
			done(wire.State{}, false)
			return
		}
		h.adopt(info)
		done(h.names.State(info), true)
	})
}

// Read asks as the bucket allows at that moment, and reads the answer as it was
// asked for.
func (h *hub) Read(key string, now time.Time, done func(e store.Entry, ok bool)) {
	r := h.readRequest(key)
	h.sent(h.requests.askLate(now.Add(readTimeout), r.subject, r.body, func(m *nats.Msg) {
		if m == nil {
			done(store.Entry{}, false)
			return
		}
		e, err := r.decode(key, m)
		if err != nil {
			h.Report(fmt.Errorf("reading %q: %w", key, err))
			h.Unanswered(err)
		}
		done(e, err == nil)
	}))
}

// Unanswered handles a request that had no responder: the stream may be gone,
// or refuse direct gets. So it schedules a read of the configuration, which
// shows the reason.
func (h *hub) Unanswered(err error) {
	if errors.Is(err, nats.ErrNoResponders) {
		h.audit.soon(time.Now())
	}
}

// Heard puts off the look at the configuration: a bucket whose writes are heard
// is there. Followers that looked all the same cost 0.7 messages a second of
// 13.7 (docs/evidence/track-record.md).
func (h *hub) Heard() { h.audit.heard(time.Now()) }

// Call returns the lock while f runs, so that what the part knew before may
// have changed after it.
func (h *hub) Call(owner any, f func()) { h.loop.Call(owner, f) }

func (h *hub) Nudge() { h.loop.Nudge() }

// Waiting keeps a consumer from being given up for what it has sent and we have
// not looked at.
func (h *hub) Waiting() bool { return h.loop.Waiting() }

func (h *hub) Report(err error) {
	h.lastErr = err
	h.noteCopy(err)
}

// LastError is not what Report notes: a denial shows on the connection alone,
// and never as the answer to a request.
func (h *hub) LastError() error { return h.nc.LastError() }

// NoDirect is what the store's calls have found out as well as the hub, and
// hence atomic.
func (h *hub) NoDirect() bool { return h.noDirect.Load() }

// Informed: when the stream was made is known by its configuration alone, which
// only some users may read.
func (h *hub) Informed() bool { return !h.plan.created.IsZero() }

// Clustered: a server outside of a cluster has no replica that could lag, and
// nothing to be confirmed.
func (h *hub) Clustered() bool { return h.nc.ConnectedClusterName() != "" }
