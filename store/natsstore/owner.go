package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/feed"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/pattern"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/registry"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// What takes a connection, the hub does for its parts. Its methods in this file
// are called with the lock, by the loop's goroutine or by one that begins or
// ends a watch.
var (
	_ feed.Owner     = (*hub)(nil)
	_ registry.Owner = (*hub)(nil)
	_ pattern.Owner  = (*hub)(nil)
)

// Subscribe uses a queue of fixed length, which drops what it cannot hold. A
// wide subscription has one of the client library's that grows, at the cost of
// a goroutine. That goroutine waits while the loop is busy. The present state
// of a large bucket, all at once, once overflowed the queue, so that its
// consumer was made anew for ever.
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

// Ask has done called on the loop's goroutine, with the lock. A request that
// could not be sent ends like one that nobody answered, at its deadline:
// whoever asks needs one way of failing, and one pace of trying again.
func (h *hub) Ask(deadline time.Time, subject string, body []byte, done func(*nats.Msg)) {
	h.sent(h.requests.Ask(deadline, subject, body, done))
}

func (h *hub) AskInVain(subject string) {
	if err := h.nc.Publish(subject, []byte(inVain)); err != nil {
		h.Report(err)
	}
}

func (h *hub) ListenInVain(subject string) {
	if sub, err := h.nc.SubscribeSync(subject); err == nil {
		_ = sub.Unsubscribe() // fails only if the connection is gone, and the flush that follows with it
	}
}

// Ping waits in a goroutine of its own, which is rare: see package feed. Work
// calls done, since that is where functions of watches may be called.
func (h *hub) Ping(done func(ok bool)) {
	go h.shielded("a ping", func() {
		ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
		defer cancel()
		ok := h.nc.FlushWithContext(ctx) == nil
		h.loop.Lock()
		defer h.loop.Unlock()
		h.pongs = append(h.pongs, func() { done(ok) })
		h.loop.Nudge()
	})()
}

func (h *hub) ponged() {
	for len(h.pongs) > 0 {
		done := h.pongs[0]
		h.pongs = h.pongs[1:]
		done()
	}
}

// sent notes why a request was not sent, if it was not.
func (h *hub) sent(err error) {
	if err != nil {
		h.lastErr = err
	}
}

// AskLeader asks for the state of the stream, which its leader alone answers,
// where any replica answers a direct get: so what it says settles what a
// replica that lags has put in doubt. What it says of the bucket is taken in
// first. If the stream is another one, what was in doubt is forgotten before
// done could compare with it.
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
	h.sent(h.requests.AskLate(now.Add(readTimeout), r.subject, r.body, func(m *nats.Msg) {
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

// When nobody answers, the stream may be gone, or refuse direct gets. So the
// configuration is looked at, which says what it is.
func (h *hub) Unanswered(err error) {
	if errors.Is(err, nats.ErrNoResponders) {
		h.audit.soon(time.Now())
	}
}

// Heard puts off the look at the configuration: a bucket whose writes are heard
// is there. Followers that looked all the same cost 0.7 messages a second of
// 13.7 (docs/track-record.md).
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

func (h *hub) InboxPrefix() string { return h.inboxPrefix() }

// NoDirect is what the store's calls have found out as well as the hub, and
// hence atomic.
func (h *hub) NoDirect() bool { return h.noDirect.Load() }

// Informed: when the stream was made is known by its configuration alone, which
// only some users may read.
func (h *hub) Informed() bool { return !h.plan.created.IsZero() }

// Clustered: a server that stands alone has no replica that could lag, and
// nothing to be confirmed.
func (h *hub) Clustered() bool { return h.nc.ConnectedClusterName() != "" }
