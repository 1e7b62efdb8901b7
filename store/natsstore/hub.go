package natsstore

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/feed"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/loop"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/pattern"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/registry"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/request"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/writes"
)

const (
	// readShare is the part of the queue that the answers to reads may fill.
	readShare = 4
	// readTimeout is when a request of the hub counts as lost.
	readTimeout = time.Second
)

// A hub serves all watches, listeners and takers of offers of a Store with one
// goroutine. It joins parts that know nothing of each other. The loop owns that
// goroutine and the lock. The feeds bring writes. The registry and the views
// know what is to be delivered to whom. The requests wait for answers.
//
// All of them reconcile: an event only notes what is wanted (a key is to be
// read, a consumer was lost). Work does what is due.
//
// The loop's lock guards all fields and all parts. Functions of callers run on
// the loop's goroutine without it.
type hub struct {
	*client

	loop     *loop.Loop
	status   chan nats.Status
	writes   *writes.Writes
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

// The parts of a hub act through it (see owner.go) and on each other.
var (
	_ loop.Handler     = (*hub)(nil)
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
	h.writes.Retire()
	h.takers.dismissAll()
	h.listeners.removeAll()
}

func (h *hub) endIfIdle() {
	if len(h.watches) == 0 && h.listeners.empty() && len(h.takers) == 0 {
		h.shutdown()
	}
}

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

// learned grows as watches that begin are told of the present state. It is of
// all of them, since each may have to wait for the others.
func (h *hub) learned() int {
	h.loop.Lock()
	defer h.loop.Unlock()
	n := h.registry.Begun()
	for v := range h.views {
		n += v.Known()
	}
	return n
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

func (h *hub) ConnStatus(st nats.Status) { h.listeners.notify(connState(st), h.Call) }

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

// Restart implements [loop.Handler]. It also follows a lost connection:
// whatever was sent meanwhile is lost, and consumers may be gone.
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
