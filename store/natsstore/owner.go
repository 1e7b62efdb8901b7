package natsstore

import (
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

// What takes a connection, the hub does for its parts.
var (
	_ feed.Owner     = (*hub)(nil)
	_ registry.Owner = (*hub)(nil)
	_ pattern.Owner  = (*hub)(nil)
)

// Subscribe uses a queue of fixed length, which drops what it cannot hold. A
// wide subscription has one of the client library's that grows, at the cost of
// a goroutine.
func (h *hub) Subscribe(subject string, wide bool) (*nats.Subscription, error) {
	if !wide {
		return h.nc.ChanSubscribe(subject, h.loop.Queue())
	}
	return h.nc.Subscribe(subject, h.loop.Push)
}

func (h *hub) NewInbox() string { return h.nc.NewInbox() }

func (h *hub) Publish(m *nats.Msg) error { return h.nc.PublishMsg(m) }

func (h *hub) Ask(deadline time.Time, subject string, body []byte, done func(*nats.Msg)) {
	h.sent(h.requests.Ask(deadline, subject, body, done))
}

// sent notes why a request was not sent, if it was not.
func (h *hub) sent(err error) {
	if err != nil {
		h.lastErr = err
	}
}

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

// When nobody answers, the stream may be gone, or refuse direct gets.
func (h *hub) Unanswered(err error) {
	if errors.Is(err, nats.ErrNoResponders) {
		h.audit.soon(time.Now())
	}
}

func (h *hub) Heard() { h.audit.heard(time.Now()) }

func (h *hub) Call(owner any, f func()) { h.loop.Call(owner, f) }

func (h *hub) Nudge() { h.loop.Nudge() }

func (h *hub) Waiting() bool { return h.loop.Waiting() }

func (h *hub) Report(err error) { h.lastErr = err }

func (h *hub) LastError() error { return h.nc.LastError() }

func (h *hub) InboxPrefix() string { return h.inboxPrefix() }

func (h *hub) NoDirect() bool { return h.noDirect.Load() }

func (h *hub) Informed() bool { return !h.plan.created.IsZero() }

func (h *hub) Clustered() bool { return h.nc.ConnectedClusterName() != "" }
