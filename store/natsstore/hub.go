package natsstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/backoff"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/feed"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/loop"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/pattern"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/registry"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/request"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

const (
	// readShare is the part of the queue that the answers to reads may fill.
	readShare = 4
	// readTimeout is when a request of the hub counts as lost.
	readTimeout = time.Second
)

// A hub serves all watches, listeners and takers of offers of a Store with one
// goroutine. It joins parts that know nothing of each other: the loop, which
// owns that goroutine and the lock; the feeds, which bring writes; the registry
// and the views, which know what is to be delivered to whom; the requests that
// wait for answers.
//
// All of them work by reconciliation: whatever happens only notes what is wanted
// (a key is to be read, a consumer is lost), and Work does what is due.
//
// The loop's lock guards all fields and all parts. Functions of callers run on
// the loop's goroutine without it.
type hub struct {
	*client

	loop     *loop.Loop
	status   chan nats.Status
	requests *request.Requests // nil before the first watch,
	replies  *nats.Subscription
	feeds    *feed.Set
	registry *registry.Registry
	views    map[*pattern.View]struct{}
	watches  map[*subscription]struct{}

	listeners listeners
	takers    takers

	plan    plan
	planned bool
	audit   audit

	reconnects uint64 // the connection's count, as last seen
	lastErr    error  // of the latest failed request
	denied     error  // why the bucket is assumed to republish
}

// A subscription is one call of Watch or WatchPattern.
type subscription struct {
	*watch.Watch

	keys   []string      // without repetitions
	view   *pattern.View // of a pattern; there are no keys then
	unhook func() bool   // ends the hold on the caller's context
}

// The parts of a hub act through it.
var (
	_ loop.Handler     = (*hub)(nil)
	_ feed.Owner       = (*hub)(nil)
	_ registry.Owner   = (*hub)(nil)
	_ pattern.Owner    = (*hub)(nil)
	_ feed.Keys        = (*registry.Registry)(nil)
	_ registry.Sources = (*feed.Set)(nil)
)

func newHub(c *client) *hub {
	h := &hub{
		client:     c,
		status:     c.nc.StatusChanged(),
		views:      make(map[*pattern.View]struct{}),
		watches:    make(map[*subscription]struct{}),
		takers:     make(takers),
		listeners:  listeners{heard: connState(c.nc.Status())},
		reconnects: c.nc.Stats().Reconnects,
	}
	h.loop = loop.New(h, c.opts.QueueSize, h.status, c.panicked)
	h.feeds = feed.NewSet(feed.Config{Names: c.names, Whole: c.opts.WatchWholeBucket}, h)
	h.registry = registry.New(h, h.feeds, c.opts.QueueSize/readShare)
	h.feeds.Serve(h.registry)
	return h
}

// shutdown ends the hub. Its goroutine follows.
func (h *hub) shutdown() {
	if !h.loop.End() {
		return
	}
	h.nc.RemoveStatusListener(h.status)
	for w := range h.watches {
		w.Stop()
		w.unhook()
	}
	h.feeds.Unsubscribe()
	if h.replies != nil {
		_ = h.replies.Unsubscribe() // fails only if the connection is gone, and the subscription with it
	}
	h.takers.dismissAll()
	h.listeners.removeAll()
}

// endIfIdle ends the hub with the last of its users.
func (h *hub) endIfIdle() {
	if len(h.watches) == 0 && h.listeners.empty() && len(h.takers) == 0 {
		h.shutdown()
	}
}

// add begins to serve a watch.
func (h *hub) add(w *subscription, p plan) error {
	if !h.planned {
		h.planned = true
		h.follow(p)
		h.audit.heard(time.Now())
	}
	w.unhook = func() bool { return true }
	h.watches[w] = struct{}{}
	if err := h.listenForReplies(); err != nil {
		return err
	}
	if w.view != nil {
		h.views[w.view] = struct{}{}
		if err := w.view.Start(); err != nil {
			return err
		}
	}
	for _, key := range w.keys {
		h.registry.Add(w.Watch, key)
		if err := h.feeds.Add(key); err != nil {
			return err
		}
	}
	w.Begin()
	h.loop.Nudge()
	return nil
}

func (h *hub) listenForReplies() error {
	if h.replies != nil {
		return nil
	}
	h.requests = request.New(h.nc.NewInbox(), h.nc.PublishMsg)
	sub, err := h.nc.ChanSubscribe(h.requests.Subject(), h.loop.Queue())
	if err == nil {
		h.replies = sub
	}
	return err
}

// remove ends a watch, and the hub with the last of its users.
func (h *hub) remove(w *subscription) {
	if !w.Stop() {
		return
	}
	w.unhook()
	delete(h.watches, w)
	if w.view != nil {
		delete(h.views, w.view)
		w.view.Stop()
	}
	for _, key := range w.keys {
		if h.registry.Remove(w.Watch, key) {
			h.feeds.Remove(key)
		}
	}
	h.endIfIdle()
}

// stop is what Watch returns.
func (h *hub) stop(w *subscription) {
	h.loop.Lock()
	defer h.loop.Unlock()
	h.remove(w)
	h.loop.Settle(w.Watch)
}

// stopListening is what OnConnState returns.
func (h *hub) stopListening(l *listener) {
	h.loop.Lock()
	defer h.loop.Unlock()
	if !l.stopped {
		h.listeners.remove(l)
		h.endIfIdle()
	}
	h.loop.Settle(l)
}

// stopTaking is what TakeOffers and Listen return.
func (h *hub) stopTaking(t *taker) {
	h.loop.Lock()
	defer h.loop.Unlock()
	if h.takers.dismiss(t) {
		h.endIfIdle()
	}
	h.loop.Settle(t)
}

// suspect has a key read, and the patterns that it matches, because a write
// found it in a state that nobody told of.
func (h *hub) suspect(key string) {
	h.loop.Lock()
	defer h.loop.Unlock()
	watched := h.registry.Read(key)
	for v := range h.views {
		watched = v.Survey(key) || watched
	}
	if watched {
		h.audit.at = time.Time{}
		h.loop.Nudge()
	}
}

// Receive implements [loop.Handler].
func (h *hub) Receive(m *nats.Msg, full bool) {
	if full {
		h.registry.ReadAll()
	}
	switch {
	case h.replies != nil && m.Sub == h.replies:
		h.requests.Answer(m)
	case h.feeds.Receive(m):
	default:
		h.takers.receive(m, h.Call)
	}
}

// ConnStatus implements [loop.Handler].
func (h *hub) ConnStatus(st nats.Status) { h.listeners.notify(connState(st), h.Call) }

// Work implements [loop.Handler].
func (h *hub) Work(now time.Time) time.Duration {
	h.listeners.notify(connState(h.nc.Status()), h.Call)
	if h.loop.Ended() || len(h.watches) == 0 || !h.nc.IsConnected() {
		return auditEvery // the connection's return wakes the loop
	}
	if n := h.nc.Stats().Reconnects; n != h.reconnects {
		h.reconnects = n
		h.Restart()
	}
	h.requests.Expire(now)
	next := now.Add(auditEvery)
	due := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	h.inspect(now, due)
	h.feeds.Work(now, due)
	h.registry.Work(now, due)
	for v := range h.views {
		v.Work(now, due)
	}
	h.requests.Deadlines(due)
	return max(time.Until(next), time.Millisecond)
}

// Panicked implements [loop.Handler]. The panic is also the error of watches
// that cannot begin.
func (h *hub) Panicked(err error) { h.lastErr = err }

// Restart implements [loop.Handler]. It also follows a lost connection: whatever
// was sent meanwhile is lost, and consumers may be gone.
func (h *hub) Restart() {
	if h.requests != nil {
		h.requests.Forget()
	}
	h.audit.now()
	h.registry.Reconnected()
	for v := range h.views {
		v.StartOver()
	}
	h.feeds.Interrupted()
}

// Resume implements [loop.Handler]: watches that were about to hear of a state
// hear of it yet.
func (h *hub) Resume() {
	for w := range h.watches {
		w.Begin()
	}
	h.registry.Resume()
}

// inspect reads the bucket's configuration now and then.
func (h *hub) inspect(now time.Time, due func(time.Time)) {
	if h.opts.Republished != "" {
		return
	}
	begin, at := h.audit.due(now)
	if begin {
		h.Ask(now.Add(readTimeout), h.names.Info(), nil, h.inspected)
	} else if !at.IsZero() {
		due(at)
	}
}

func (h *hub) inspected(m *nats.Msg) {
	h.audit.answered()
	if m == nil {
		return
	}
	info := new(jetstream.StreamInfo)
	if err := wire.Answer(m, info); err != nil {
		h.lastErr = err
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrStreamNotFound) {
			h.audit.at = time.Now().Add(backoff.Most)
		}
		return
	}
	h.adopt(info)
}

// adopt takes over what the stream's leader says of the stream.
func (h *hub) adopt(info *jetstream.StreamInfo) {
	next := h.planFor(info)
	anew, moved := h.plan.becomes(next)
	h.follow(next)
	if anew {
		h.registry.Forget()
		for v := range h.views {
			v.Forget()
		}
	}
	if anew || moved {
		h.rewatch()
	}
}

// follow has new feeds opened as the plan says.
func (h *hub) follow(p plan) {
	h.plan = p
	h.feeds.Republished(p.republished)
}

// rewatch replaces every feed by one that the plan asks for.
func (h *hub) rewatch() {
	if err := h.reopen(); err != nil {
		h.lastErr = err
		h.audit.at = time.Now().Add(backoff.Most)
		h.plan.republished = nowhere
	}
	h.registry.Missed()
	for v := range h.views {
		v.StartOver()
	}
}

func (h *hub) reopen() error {
	h.feeds.Reopen()
	var failed []error
	for key := range h.registry.Keys() {
		failed = append(failed, h.feeds.Add(key))
	}
	for v := range h.views {
		failed = append(failed, v.Reopen())
	}
	return errors.Join(failed...)
}

// Subscribe implements [feed.Owner]: by a queue of fixed length, which drops
// what it cannot take, or, wide, by one that the client library lets grow, at
// the cost of a goroutine.
func (h *hub) Subscribe(subject string, wide bool) (*nats.Subscription, error) {
	if !wide {
		return h.nc.ChanSubscribe(subject, h.loop.Queue())
	}
	return h.nc.Subscribe(subject, h.loop.Push)
}

// NewInbox implements [feed.Owner].
func (h *hub) NewInbox() string { return h.nc.NewInbox() }

// Publish implements [pattern.Owner].
func (h *hub) Publish(m *nats.Msg) error { return h.nc.PublishMsg(m) }

// Ask implements [feed.Owner].
func (h *hub) Ask(deadline time.Time, subject string, body []byte, done func(*nats.Msg)) {
	if err := h.requests.Ask(deadline, subject, body, done); err != nil {
		h.lastErr = err
	}
}

// AskLeader implements [registry.Owner] and [pattern.Owner].
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

// Read implements [registry.Owner].
func (h *hub) Read(key string, now time.Time, done func(e store.Entry, ok bool)) {
	r := h.readRequest(key)
	h.Ask(now.Add(readTimeout), r.subject, r.body, func(m *nats.Msg) {
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
	})
}

// Unanswered implements [pattern.Owner]: when nobody answers, the stream may be
// gone, or refuse direct gets.
func (h *hub) Unanswered(err error) {
	if errors.Is(err, nats.ErrNoResponders) {
		h.audit.soon(time.Now())
	}
}

// Heard implements [registry.Owner].
func (h *hub) Heard() { h.audit.heard(time.Now()) }

// Call implements [registry.Owner] and [pattern.Owner].
func (h *hub) Call(owner any, f func()) { h.loop.Call(owner, f) }

// Nudge implements [feed.Owner] and [pattern.Owner].
func (h *hub) Nudge() { h.loop.Nudge() }

// Waiting implements [feed.Owner].
func (h *hub) Waiting() bool { return h.loop.Waiting() }

// Report implements [feed.Owner] and [pattern.Owner].
func (h *hub) Report(err error) { h.lastErr = err }

// LastError implements [feed.Owner] and [pattern.Owner].
func (h *hub) LastError() error { return h.nc.LastError() }

// InboxPrefix implements [pattern.Owner].
func (h *hub) InboxPrefix() string { return h.inboxPrefix() }

// NoDirect implements [pattern.Owner].
func (h *hub) NoDirect() bool { return h.noDirect.Load() }

// Clustered implements [feed.Owner] and [pattern.Owner].
func (h *hub) Clustered() bool { return h.nc.ConnectedClusterName() != "" }
