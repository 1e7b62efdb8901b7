package natsstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/goid"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// Times and sizes of the hub. None of them bears on safety.
const (
	// readShare is the part of the queue that the answers to reads may fill.
	readShare = 4
	// readTimeout and makeTimeout are when a request of the hub counts as lost.
	// Making a consumer takes an agreement of the servers; many at once take
	// their time.
	readTimeout = time.Second
	makeTimeout = 5 * time.Second
	// retryFirst and retryMost bound the growing pause between attempts.
	retryFirst = 25 * time.Millisecond
	retryMost  = 500 * time.Millisecond
	// confirmAfter is when, in a cluster, a key is read a second time: a
	// subscription travels to the other servers by itself, and what the
	// stream's leader published before its arrival is lost.
	confirmAfter = 500 * time.Millisecond
	// auditEvery is for how long nothing new is heard before the bucket's
	// configuration is read, and how often from then on, to notice a bucket
	// that was made anew, perhaps without republishing, while the connection
	// stood.
	auditEvery = 30 * time.Second
	// repairMost bounds the pause after a panic, and calmAfter is when panics
	// are no longer in a row.
	repairMost = 5 * time.Second
	calmAfter  = 30 * time.Second
)

// A hub serves all watches, listeners and takers of offers of a Store with one
// goroutine. It works by reconciliation: whatever happens only notes what is
// wanted (a register is stale, a feed is down), and work does what is due.
//
// Its fields are guarded by the store's mutex, but for the channels. Functions
// of callers run on the hub's goroutine without the mutex.
type hub struct {
	s      *Store
	in     chan *nats.Msg // the subscriptions of the hub deliver here,
	bulk   chan *nats.Msg // or here, if they may bring any number of messages at once
	wake   chan struct{}
	quit   chan struct{}
	done   chan struct{}
	status chan nats.Status
	timer  *time.Timer

	loop    uint64     // number of the hub's goroutine, once it runs
	calling any        // the watch, listener or taker whose function is running
	called  *sync.Cond // the function returned
	ended   bool

	plan      plan
	planned   bool
	watches   map[*watch]struct{}
	listeners []*listener
	told      store.ConnState // what the listeners heard last
	takers    map[*nats.Subscription]*taker

	registers map[string]*register
	unsettled map[*register]struct{} // those that are to be read or confirmed
	views     map[*view]struct{}
	feeds     map[*nats.Subscription]*feed
	consumers map[*feed]struct{} // the feeds by consumers
	whole     *feed              // serves all keys, if the options say so
	alone     bool               // each key needs a consumer of its own: the user may not make one of several,
	refused   []string           // which was refused on these subjects

	inbox    string // requests are answered on inbox.<token>
	replies  *nats.Subscription
	requests map[string]*request
	reads    int // registers being read

	breaks   int       // panics in a row
	brokenAt time.Time // when the latest was

	reconnects uint64 // the connection's count, as last seen
	auditAt    time.Time
	auditing   bool
	lastErr    error // of the latest failed request
	denied     error // why the bucket is assumed to republish
}

// A request waits for its answer: nil if none came in time.
type request struct {
	deadline time.Time
	done     func(*nats.Msg)
}

func newHub(s *Store) *hub {
	return &hub{
		s:          s,
		in:         make(chan *nats.Msg, s.opts.QueueSize),
		bulk:       make(chan *nats.Msg, minQueueSize),
		wake:       make(chan struct{}, 1),
		quit:       make(chan struct{}),
		done:       make(chan struct{}),
		status:     s.nc.StatusChanged(),
		timer:      time.NewTimer(time.Hour),
		called:     sync.NewCond(&s.mu),
		watches:    make(map[*watch]struct{}),
		told:       s.ConnState(),
		takers:     make(map[*nats.Subscription]*taker),
		registers:  make(map[string]*register),
		unsettled:  make(map[*register]struct{}),
		views:      make(map[*view]struct{}),
		feeds:      make(map[*nats.Subscription]*feed),
		consumers:  make(map[*feed]struct{}),
		requests:   make(map[string]*request),
		reconnects: s.nc.Stats().Reconnects,
	}
}

// run serves until the hub ends. A panic in it must leave no watch deaf for
// good: it is reported, and the hub resumes as after an interruption, by
// reading all again, after a growing pause.
func (h *hub) run() {
	ended := false
	defer func() {
		if ended {
			close(h.done)
			return
		}
		go func() { // runtime.Goexit in a function of a caller's took this goroutine along
			shield.Call(h.goOn, h.panicked)
			h.run()
		}()
	}()
	h.begin()
	for !h.over() {
		if !shield.Call(h.turn, h.panicked) {
			h.resume()
		}
	}
	ended = true
}

// begin takes in which goroutine is the hub's.
func (h *hub) begin() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.loop = goid.Current()
}

func (h *hub) over() bool {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	return h.ended
}

// turn waits for something to happen, and does what is due then.
func (h *hub) turn() {
	event := h.next()
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if !h.ended {
		event()
	}
	if !h.ended {
		faults.Point("hub")
		h.timer.Reset(h.work(time.Now()))
	}
}

// panicked reports a panic of ours. It is also the error of watches that cannot
// begin.
func (h *hub) panicked(value any, stack []byte) {
	h.s.panicked("the goroutine of the watches", value, stack)
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.lastErr = fmt.Errorf("the goroutine of the watches panicked: %v", shield.Value(value))
}

// goOn takes up what a goroutine that ended in the middle has left undone:
// watches that were about to hear of a state.
func (h *hub) goOn() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	for w := range h.watches {
		h.begun(w)
	}
	for _, r := range h.registers {
		if slices.ContainsFunc(r.watches, func(w *watch) bool { return w.pending[r.key] }) {
			r.nextRead = time.Time{}
			h.toRead(r)
		}
	}
	h.nudge()
}

// resume goes on after a panic: whatever was under way may be half done, so
// that all is read again. Panics in a row are followed by growing pauses.
func (h *hub) resume() {
	now := time.Now()
	if now.Sub(h.brokenAt) > calmAfter {
		h.breaks = 0
	}
	h.brokenAt = now
	pause := time.NewTimer(min(retryFirst<<min(h.breaks, 8), repairMost))
	defer pause.Stop()
	h.breaks++
	select {
	case <-pause.C:
	case <-h.quit:
		return
	}
	if !shield.Call(h.repair, h.panicked) {
		h.nudge() // and once more with the next turn
	}
}

func (h *hub) repair() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if !h.ended {
		h.interrupted()
		h.nudge()
	}
}

// next waits for something to happen and returns what to do about it, besides
// work.
func (h *hub) next() func() {
	select {
	case m := <-h.in:
		return func() {
			h.receive(m)
			h.drain()
		}
	case m := <-h.bulk:
		return func() {
			h.receive(m)
			h.drain()
		}
	case st := <-h.status: // closed only by shutdown
		return func() { h.tell(connState(st)) }
	case <-h.quit:
	case <-h.wake:
	case <-h.timer.C:
	}
	return func() {}
}

// drain takes what else is waiting, so that a burst is followed by one round of
// work instead of one for each message.
func (h *hub) drain() {
	for range cap(h.in) {
		var m *nats.Msg
		select {
		case m = <-h.in:
		case m = <-h.bulk:
		default:
			return
		}
		if h.ended {
			return
		}
		h.receive(m)
	}
}

// nudge makes the loop look for work.
func (h *hub) nudge() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// onLoop reports whether the caller is a function that the hub calls.
func (h *hub) onLoop() bool { return h.calling != nil && goid.Current() == h.loop }

// call runs a caller's function without the mutex, and lets stop wait for it. A
// panic of it is reported, and ends neither the program nor the watch.
func (h *hub) call(owner any, f func()) {
	h.calling = owner
	h.s.mu.Unlock()
	defer func() { // deferred, for runtime.Goexit
		h.s.mu.Lock()
		h.calling = nil
		h.called.Broadcast()
	}()
	shield.Call(f, func(value any, stack []byte) { h.s.panicked("a function that a watch calls", value, stack) })
}

// settle waits until owner's function is not running, unless it is the caller.
func (h *hub) settle(owner any) {
	for h.calling == owner && !h.onLoop() {
		h.called.Wait()
	}
}

// shutdown ends the hub. Its goroutine follows.
func (h *hub) shutdown() {
	if h.ended {
		return
	}
	h.ended = true
	close(h.quit)
	h.s.nc.RemoveStatusListener(h.status)
	for w := range h.watches {
		w.stopped = true
		w.unhook()
	}
	for sub := range h.feeds {
		_ = sub.Unsubscribe() // fails only if the connection is gone, and the subscription with it
	}
	if h.replies != nil {
		_ = h.replies.Unsubscribe()
	}
	for _, t := range h.takers {
		h.dismiss(t)
	}
	if h.s.hub == h {
		h.s.hub = nil
	}
}

// add begins to serve a watch.
func (h *hub) add(w *watch, p plan) error {
	if !h.planned {
		h.plan, h.planned = p, true
		h.auditAt = time.Now().Add(auditEvery)
	}
	if h.replies == nil {
		h.inbox = h.s.nc.NewInbox()
		sub, err := h.s.nc.ChanSubscribe(h.inbox+".*", h.in)
		if err != nil {
			return h.s.subscribeError(err)
		}
		h.replies = sub
	}
	w.unhook = func() bool { return true }
	h.watches[w] = struct{}{}
	if w.view != nil {
		if err := h.addView(w.view); err != nil {
			return h.s.subscribeError(err)
		}
	}
	for _, key := range w.keys {
		w.pending[key] = true
		r := h.registers[key]
		if r == nil {
			r = &register{key: key}
			h.registers[key] = r
		}
		r.watches = append(r.watches, w)
		r.nextRead, r.confirm = time.Time{}, true
		h.toRead(r)
		if err := h.feed(r); err != nil {
			return h.s.subscribeError(err)
		}
	}
	h.begun(w)
	h.nudge()
	return nil
}

// begun closes the watch's ready channel once nothing is pending.
func (h *hub) begun(w *watch) {
	if !w.begun && len(w.pending) == 0 {
		w.begun = true
		close(w.ready)
	}
}

// remove ends a watch, and the hub with the last of its users.
func (h *hub) remove(w *watch) {
	if w.stopped {
		return
	}
	w.stopped = true
	w.unhook()
	delete(h.watches, w)
	if w.view != nil {
		h.removeView(w.view)
	}
	for _, key := range w.keys {
		if r := h.registers[key]; r != nil {
			r.watches = slices.DeleteFunc(r.watches, func(x *watch) bool { return x == w })
			h.dropUnwatched(r)
		}
	}
	h.endIfIdle()
}

func (h *hub) dropUnwatched(r *register) {
	if len(r.watches) > 0 {
		return
	}
	delete(h.registers, r.key)
	delete(h.unsettled, r)
	if r.reading {
		h.reads--
	}
	h.unfeed(r)
}

func (h *hub) endIfIdle() {
	if len(h.watches) == 0 && len(h.listeners) == 0 && len(h.takers) == 0 {
		h.shutdown()
	}
}

// stop is what Watch returns.
func (h *hub) stop(w *watch) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.remove(w)
	h.settle(w)
}

func (h *hub) stopListening(l *listener) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if !l.stopped {
		l.stopped = true
		h.listeners = slices.DeleteFunc(h.listeners, func(x *listener) bool { return x == l })
		if !h.ended {
			h.endIfIdle()
		}
	}
	h.settle(l)
}

// tell passes a change of the connection's state on.
func (h *hub) tell(st store.ConnState) {
	if st == h.told {
		return
	}
	h.told = st
	for _, l := range slices.Clone(h.listeners) {
		if !l.stopped && !h.ended {
			h.call(l, func() { l.f(st) })
		}
	}
}

// receive handles one message of any of the hub's subscriptions.
func (h *hub) receive(m *nats.Msg) {
	if len(h.in) >= cap(h.in)-1 {
		h.overflowed()
	}
	if m.Sub == h.replies {
		token := strings.TrimPrefix(m.Subject, h.inbox+".")
		if q := h.requests[token]; q != nil {
			delete(h.requests, token)
			q.done(m)
		}
		return
	}
	if f := h.feeds[m.Sub]; f != nil {
		h.heard(f, m)
		return
	}
	if t := h.takers[m.Sub]; t != nil {
		h.offered(t, m)
	}
}

// overflowed: messages may have been dropped, since the queue was full.
// Consumers notice by their numbering; republished records are lost without a
// trace.
func (h *hub) overflowed() {
	for _, r := range h.registers {
		h.toRead(r)
	}
}

// ask sends a request whose answer, or nil after the deadline, goes to done.
func (h *hub) ask(deadline time.Time, subject string, body []byte, done func(*nats.Msg)) {
	token := rand.Text()
	err := h.s.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: h.inbox + "." + token, Data: body})
	if err != nil {
		h.lastErr = err
	}
	// After a failed publish too: its retry must wait like any other.
	h.requests[token] = &request{deadline: deadline, done: done}
}

// work does what is due and returns the time until the next of it.
func (h *hub) work(now time.Time) time.Duration {
	h.tell(h.s.ConnState())
	if h.ended || len(h.watches) == 0 || !h.s.nc.IsConnected() {
		return auditEvery // the connection's return wakes the loop
	}
	if n := h.s.nc.Stats().Reconnects; n != h.reconnects {
		h.reconnects = n
		h.interrupted()
	}
	h.expire(now)
	next := now.Add(auditEvery)
	due := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	h.audit(now, due)
	for f := range h.consumers { // not all feeds, for the same reason as below
		h.tend(f, now, due)
	}
	for r := range h.unsettled { // not all: there may be thousands, and this follows each message
		h.refresh(r, now, due)
	}
	for v := range h.views {
		h.look(v, now, due)
	}
	for _, q := range h.requests {
		due(q.deadline)
	}
	return max(time.Until(next), time.Millisecond)
}

// expire ends the requests whose answer is overdue.
func (h *hub) expire(now time.Time) {
	for token, q := range h.requests {
		if now.After(q.deadline) {
			delete(h.requests, token)
			q.done(nil)
		}
	}
}

// interrupted: the connection was lost and is back. Whatever was sent meanwhile
// is lost, and consumers may be gone.
func (h *hub) interrupted() {
	clear(h.requests)
	h.auditing, h.auditAt, h.reads = false, time.Time{}, 0
	for _, r := range h.registers {
		r.unreadable = false // reconnecting may have brought other permissions
		r.reading = false
		h.missed(r)
	}
	for v := range h.views {
		h.startOver(v)
	}
	for f := range h.consumers {
		h.down(f)
	}
}

// audit reads the bucket's configuration now and then.
func (h *hub) audit(now time.Time, due func(time.Time)) {
	switch {
	case h.auditing || h.s.opts.Republished != "":
	case now.Before(h.auditAt):
		due(h.auditAt)
	default:
		h.auditing = true
		h.auditAt = now.Add(auditEvery)
		h.ask(now.Add(readTimeout), h.s.infoSubject(), nil, h.audited)
	}
}

func (h *hub) audited(m *nats.Msg) {
	h.auditing = false
	if m == nil {
		return
	}
	info := new(jetstream.StreamInfo)
	if err := apiReply(m, info); err != nil {
		h.lastErr = err
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrStreamNotFound) {
			h.auditAt = time.Now().Add(retryMost)
		}
		return
	}
	h.adopt(info)
}

// adopt takes over what the stream's leader says of the stream, and reports
// whether it is another one.
func (h *hub) adopt(info *jetstream.StreamInfo) (anew bool) {
	p := h.s.planFor(info)
	anew = !h.plan.created.IsZero() && !p.created.Equal(h.plan.created)
	moved := p.republished != h.plan.republished
	h.plan = p
	for _, r := range h.registers {
		// Revisions may begin anew: what is known is of another stream, and
		// must not be taken for what a lagging replica of this one does not
		// show yet.
		r.known = r.known && !anew
	}
	if anew {
		for v := range h.views {
			v.forget()
		}
	}
	if anew || moved {
		h.move()
	}
	return anew
}

// move watches the bucket as the plan says now.
func (h *hub) move() {
	h.resubscribe()
	for _, r := range h.registers {
		h.missed(r)
	}
	for v := range h.views {
		h.startOver(v)
	}
}

// resubscribe replaces every feed: the bucket republishes elsewhere now, or no
// longer.
func (h *hub) resubscribe() {
	for _, f := range h.feeds {
		h.unsubscribe(f)
	}
	h.whole = nil
	var failed error
	for _, r := range h.registers {
		failed = errors.Join(failed, h.feed(r))
	}
	for v := range h.views {
		failed = errors.Join(failed, h.feedView(v))
	}
	if failed != nil {
		h.lastErr = failed
		h.auditAt = time.Now().Add(retryMost)
		h.plan.republished = unsettled
	}
}

// unsettled is a prefix that no bucket has: the next audit subscribes anew.
const unsettled = " "
