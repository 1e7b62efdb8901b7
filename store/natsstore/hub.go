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
	// The writes that are heard meanwhile come by the same queue, and when it
	// overflows, all keys are read anew.
	readShare = 4
	// readTimeout is when a request of the hub counts as lost. Of a read a late
	// answer counts all the same: where a server is slower than that, keys
	// would else be asked for in vain for ever ([request.Requests.AskLate]).
	readTimeout = time.Second
)

// A hub serves all watches and listeners of a Store with one goroutine. It
// joins parts that know nothing of each other. The loop owns that goroutine and
// the lock. The feeds bring writes. The registry and the views know what is to
// be delivered to whom. The requests wait for answers.
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

	plan    plan
	planned bool
	audit   audit

	// The count shows an interruption that was too short for its status to be
	// seen.
	reconnects uint64 // the connection's count, as last seen
	pongs      []func()
	lastErr    error // of the latest failed request
	denied     error // why the bucket is assumed to republish
}

// A subscription is one call of Watch or WatchPattern.
type subscription struct {
	*watch.Watch

	keys   []string      // without repetitions
	held   bool          // no key is read until it is known whether consumers serve,
	anew   bool          // and others were asked for since that was last looked at
	view   *pattern.View // of a pattern; there are no keys then
	unhook func() bool   // ends the hold on the caller's context

	denied  error // what it cannot do without, while it is unknown how to watch
	settled error // a violation that hides none of the watch's own
}

// The parts of a hub act through it (see owner.go) and on each other.
var (
	_ loop.Handler     = (*hub)(nil)
	_ feed.Keys        = (*registry.Registry)(nil)
	_ registry.Sources = (*feed.Set)(nil)
)

func newHub(c *client) *hub {
	// In this order: a status is listened for before the state is read, or a
	// change between the two would go unheard. One that is told twice does no
	// harm.
	h := &hub{
		client:     c,
		status:     c.nc.StatusChanged(),
		views:      make(map[*pattern.View]struct{}),
		watches:    make(map[*subscription]struct{}),
		listeners:  listeners{state: connState(c.nc.Status())},
		reconnects: c.nc.Stats().Reconnects,
	}
	h.loop = loop.New(h, c.opts.QueueSize, h.status, c.panicked)
	// The registry asks the feeds what is heard, and they hand it what they
	// hear: so one of the two is told of the other later.
	h.feeds = feed.NewSet(feed.Config{Names: c.names, Whole: c.opts.WatchWholeBucket}, h)
	h.registry = registry.New(h, h.feeds, c.opts.QueueSize/readShare)
	h.feeds.Serve(h.registry)
	return h
}

// shutdown ends the hub for good. The caller holds the lock, and may be a
// function that the loop calls. So nothing here waits: the goroutine follows
// when it can, and [Store.Close] is what waits for that.
func (h *hub) shutdown() {
	if !h.loop.End() {
		return
	}
	h.nc.RemoveStatusListener(h.status)
	// Without remove, which would end the feed of each key on its own. What is
	// ended here is never used again.
	for w := range h.watches {
		w.Stop()
		w.unhook()
	}
	h.feeds.Unsubscribe()
	if h.replies != nil {
		_ = h.replies.Unsubscribe() // fails only if the connection is gone, and the subscription with it
	}
	// Writes under way have their answers yet. New ones go beside the hub, or
	// to the next.
	h.writes.Retire()
	h.listeners.removeAll()
}

// endIfIdle ends a hub that nobody needs any more, so that an idle store costs
// no goroutine. Whoever needs one then starts another: see withHub.
func (h *hub) endIfIdle() {
	if len(h.watches) == 0 && h.listeners.empty() {
		h.shutdown()
	}
}

// add begins a watch. After an error the caller calls remove, which bears that
// only part of this was done.
func (h *hub) add(w *subscription, p plan) error {
	if !h.planned {
		// The plan of the first watch counts: audits have kept it up to date
		// since, and what a later watch has learned may be older.
		h.planned = true
		h.follow(p)
		h.audit.heard(time.Now())
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
		if err := h.feeds.Add(key); err != nil {
			return err
		}
	}
	h.hold(w)
	// A watch of no keys at all has begun.
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
	h.requests = request.New(h.nc.NewInbox(), h.nc.PublishMsg)
	sub, err := h.nc.ChanSubscribe(h.requests.Subject(), h.loop.Queue())
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
	h.unhold(w)
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

// suspect has a key read that a write has found in another state than its
// watches were told of. It is called by goroutines of writes. The bucket is
// looked at, too: it may have been made anew, of which no republished record
// tells.
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

// Receive implements [loop.Handler]. A full queue may have dropped messages, of
// which nothing tells: republished records have no numbers of their own. Those
// of views come by another queue, whose sender waits for room.
func (h *hub) Receive(m *nats.Msg, full bool) {
	if full {
		h.registry.ReadAll()
	}
	if h.replies != nil && m.Sub == h.replies {
		h.requests.Answer(m)
		return
	}
	// It may be of a subscription that has ended, whose last messages still wait
	// in the queue: then nobody takes it.
	h.feeds.Receive(m)
}

// ConnStatus implements [loop.Handler].
func (h *hub) ConnStatus(st nats.Status) { h.listeners.notify(connState(st), h.Call) }

// Work implements [loop.Handler]. It follows each message, so that nothing here
// may take as long as there are keys: the parts keep what is unsettled apart.
//
// The order matters. What an interruption has voided is forgotten first, and
// what is overdue is given up, so that both are asked for again in this very
// round. The feeds come before those who read: a consumer that is found lost
// here leaves its keys to be read, and Work may not be called again soon. The
// deadlines come last, with those of what was just asked.
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
	h.ponged()
	h.feeds.Work(now, due)
	h.registry.Work(now, due)
	for v := range h.views {
		v.Work(now, due)
	}
	h.requests.Deadlines(due)
	// What was due at once has been seen to, or waits for an answer. Without a
	// least wait the loop would spin over it.
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
