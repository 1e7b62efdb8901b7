package natsstore

import (
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/loop"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/pattern"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/registry"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/sources"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/writes"
)

const (
	// readShare is the part of the queue that the answers to reads may fill.
	// Writes arrive in the same queue meanwhile, and when it overflows, all
	// keys are read again.
	readShare = 4
	// readTimeout is when a request of the hub counts as lost. A late answer to
	// a read still counts: otherwise the hub would repeat its reads for ever
	// without success where a server is slower than readTimeout
	// ([requests.askLate]).
	readTimeout = time.Second
)

// A hub serves all watches and listeners of a Store with one goroutine. It
// joins parts that do not depend on each other. The loop owns that goroutine
// and the lock. The sources bring writes. The registry and the views decide
// what is delivered to which watch. The requests wait for answers.
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
	requests *requests // nil before the first watch,
	replies  *nats.Subscription
	sources  *sources.Set
	registry *registry.Registry
	views    map[*pattern.View]struct{}
	watches  map[*subscription]struct{}

	listeners listeners

	plan    plan
	planned bool
	audit   audit

	// The count shows an interruption that was too short for its status to be
	// seen.
	reconnects uint64   // the connection's count, as last seen
	answers    []func() // to questions for rights, which Work passes on
	lastErr    error    // of the latest failed request
}

// A subscription is one call of Watch or WatchPattern.
type subscription struct {
	*watch.Watch

	keys    []string // without repetitions
	pattern string   // or of a pattern; there are no keys then
	view    *pattern.View
	unhook  func() bool // ends the hold on the caller's context

	reported error       // what the connection had reported before the watch was added
	settled  atomic.Bool // its rights were asked for since, or are being
}

// The parts of a hub act through it (see owner.go) and on each other.
var (
	_ loop.Handler     = (*hub)(nil)
	_ sources.Keys     = (*registry.Registry)(nil)
	_ registry.Sources = (*sources.Set)(nil)
)

func newHub(c *client) *hub {
	// In this order: the hub subscribes to statuses before it reads the state,
	// otherwise a change between the two would be missed. A status that is
	// reported twice does no harm.
	h := &hub{
		client:     c,
		status:     c.nc.StatusChanged(),
		views:      make(map[*pattern.View]struct{}),
		watches:    make(map[*subscription]struct{}),
		listeners:  listeners{state: connState(c.nc.Status())},
		reconnects: c.nc.Stats().Reconnects,
	}
	h.loop = loop.New(h, c.opts.QueueSize, h.status, c.panicked)
	// The registry asks the sources which keys they bring, and the sources hand
	// writes to the registry. So one of the two gets its reference to the other
	// later.
	h.sources = sources.NewSet(sources.Config{Names: c.names, Whole: c.opts.WatchWholeBucket}, h)
	h.registry = registry.New(h, h.sources, c.opts.QueueSize/readShare)
	h.sources.Serve(h.registry)
	return h
}

// shutdown ends the hub permanently. The caller holds the lock, and may be a
// function that the loop calls. So shutdown does not wait for the goroutine,
// which ends when it can; [Store.Close] waits for it.
func (h *hub) shutdown() {
	if !h.loop.End() {
		return
	}
	h.nc.RemoveStatusListener(h.status)
	// The watches are not ended by remove, which would end the source of each
	// key separately. The hub never uses these watches and sources again.
	for w := range h.watches {
		w.Stop()
		w.unhook()
	}
	h.sources.Unsubscribe()
	if h.replies != nil {
		_ = h.replies.Unsubscribe() // fails only if the connection is gone, and the subscription with it
	}
	// Writes under way have their answers yet. New ones go beside the hub, or
	// to the next.
	h.writes.Retire()
	h.listeners.removeAll()
}

// endIfIdle ends a hub that no watch or listener needs any more, so that an
// idle store costs no goroutine. The next watch or listener starts another hub:
// see withHub.
func (h *hub) endIfIdle() {
	if len(h.watches) == 0 && h.listeners.empty() {
		h.shutdown()
	}
}

// add begins a watch. After an error the caller calls remove, which bears that
// only part of this was done.
func (h *hub) add(w *subscription, p plan) error {
	switch {
	case !h.planned:
		// The plan of the first watch counts: audits have kept it up to date
		// since, and what a later watch has learned may be older.
		h.planned = true
		h.follow(p)
		h.audit.heard(time.Now())
	case h.plan.denied != nil && p.unknown && p.republished == "":
		// The user may make this watch's consumer. An earlier watch was refused
		// for its key, but that refusal does not apply to the whole bucket. Its
		// source stays, since its key has no other.
		p.mixed = true
		h.follow(p)
	}
	// Before anything can fail, since remove calls it: on a connection that was
	// being drained, a nil here once ended the program.
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
		h.registry.Named(key, h.known.least(key))
		if err := h.sources.Add(key); err != nil {
			return err
		}
	}
	// A watch of no keys is ready at once.
	w.Begin()
	h.loop.Nudge()
	return nil
}

// listenForReplies subscribes to the answers to the hub's own requests. The
// loop takes them in, as it does records: the client library's requests would
// cost a goroutine each that waits. Before the first watch there is nothing to
// ask.
func (h *hub) listenForReplies() error {
	if h.replies != nil {
		return nil
	}
	h.requests = newRequests(h.nc.NewInbox(), h.nc.PublishMsg)
	sub, err := h.nc.ChanSubscribe(h.requests.subject(), h.loop.Queue())
	if err == nil {
		h.replies = sub
	}
	return err
}

// remove ends a watch, once: its stop function, the end of its context and a
// beginning that failed may each come first.
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
			h.sources.Remove(key)
		}
	}
	h.endIfIdle()
}

// learned counts the first states that watches have received, so it grows while
// watches start. It covers all watches, since each may have to wait for the
// others.
func (h *hub) learned() int {
	h.loop.Lock()
	defer h.loop.Unlock()
	n := h.registry.Begun()
	for v := range h.views {
		n += v.Known()
	}
	return n
}

// stop is what Watch returns. It waits for a delivery that is under way, as
// package store promises, unless the delivery itself is the caller.
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
	// shutdown may have removed it before.
	if !l.stopped {
		h.listeners.remove(l)
		h.endIfIdle()
	}
	h.loop.Settle(l)
}

// suspect schedules a read of a key that a write has found in another state
// than its watches received. Goroutines of writes call it. The bucket's
// configuration is read, too: the bucket may have been made again, which
// republished records do not show.
func (h *hub) suspect(key string, named uint64) {
	h.loop.Lock()
	defer h.loop.Unlock()
	h.registry.Named(key, named)
	watched := h.registry.Read(key)
	// Each view is asked, and not only until one watches the key.
	for v := range h.views {
		watched = v.Survey(key) || watched
	}
	if watched {
		h.audit.at = time.Time{}
		h.loop.Nudge()
	}
}

// Receive implements [loop.Handler]. A full queue may have dropped messages
// without a trace: republished records are not numbered. Messages for views
// arrive in another queue, whose sender waits for room.
func (h *hub) Receive(m *nats.Msg, full bool) {
	if full {
		h.registry.ReadAll()
	}
	if h.replies != nil && m.Sub == h.replies {
		h.requests.answer(m)
		return
	}
	// It may be of a subscription that has ended, whose last messages still wait
	// in the queue: then nobody takes it.
	h.sources.Receive(m)
}

// ConnStatus implements [loop.Handler].
func (h *hub) ConnStatus(st nats.Status) { h.listeners.notify(connState(st), h.Call) }

// Work implements [loop.Handler]. It follows each message, so that nothing here
// may take as long as there are keys: the parts keep what is unsettled apart.
//
// The order matters. First the state that an interruption has voided is
// forgotten and overdue requests are given up, so that this round sends both
// kinds of request again. The sources come before the registry and the views,
// which read: if a consumer is found lost here, its keys must be read, and Work
// may not be called again soon. The deadlines come last, since they include the
// deadlines of the requests just sent.
func (h *hub) Work(now time.Time) time.Duration {
	h.listeners.notify(connState(h.nc.Status()), h.Call)
	if h.loop.Ended() || len(h.watches) == 0 || !h.nc.IsConnected() {
		return auditEvery // the connection's return wakes the loop
	}
	if n := h.nc.Stats().Reconnects; n != h.reconnects {
		h.reconnects = n
		h.Restart()
	}
	h.requests.expire(now)
	next := now.Add(auditEvery)
	due := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	h.inspect(now, due)
	h.answered()
	h.sources.Work(now, due)
	h.registry.Work(now, due)
	for v := range h.views {
		v.Work(now, due)
	}
	h.requests.deadlines(due)
	// Everything that was due at once has been handled, or waits for an answer.
	// Without a least wait the loop would spin over it.
	return max(time.Until(next), time.Millisecond)
}

// Panicked implements [loop.Handler]. The panic is also the error of watches
// that cannot begin.
func (h *hub) Panicked(err error) { h.lastErr = err }

// Restart implements [loop.Handler]. It also follows a lost connection:
// whatever was sent meanwhile is lost, and consumers may be gone. Interrupted
// comes last, for it puts off the reads of keys that share a consumer, which
// Reconnected has made due at once.
func (h *hub) Restart() {
	if h.requests != nil {
		h.requests.forget()
	}
	h.audit.now()
	h.registry.Reconnected()
	for v := range h.views {
		v.StartOver()
	}
	h.sources.Interrupted()
}

// Resume implements [loop.Handler]: watches that were about to hear of a state
// hear of it yet.
func (h *hub) Resume() {
	for w := range h.watches {
		w.Begin()
	}
	h.registry.Resume()
}
