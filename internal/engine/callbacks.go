package engine

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/latest"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// callbacks holds the program's callbacks, and the goroutines that call them:
// one for a term's callbacks, another for the news, so that neither waits for
// the other. A leader does not wait for an OnLeaderChange that it does not act
// on. A callback that blocks delays its own queue alone, and never the loop,
// which renews meanwhile.
type callbacks struct {
	env *env

	terms callQueue // OnPromote and OnDemote
	news  callQueue // OnLeaderChange and OnCampaign
	// promoting: OnPromote is being called.
	promoting atomic.Bool

	mu       sync.Mutex
	promoted []func(context.Context, leadership.Term)
	demoted  []func()
	changed  []func(leadership.Info)
	campaign []func(machine.Reason)
	watchers map[*watcher]struct{}
}

// A watcher is a reader of who leads. A slow one skips states. It costs no
// memory by that, and the latest state it never misses.
type watcher = latest.Queue[struct{}, leadership.Info]

// add makes register append a callback. A reader of a list takes the slice as
// it is, and appending does not change its content: so a callback may register
// another.
func (c *callbacks) add(register func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	register()
}

// inside reports whether the caller is a callback, which must not wait for its
// own return.
func (c *callbacks) inside() bool { return c.terms.inside() || c.news.inside() }

// ofTerm makes do call the callbacks of a term. A panic of our code in it ends
// the election, and calls instead, which may be nil, in place of do. Panics of
// the callbacks, and their runtime.Goexit, never come this far. instead ends
// work that has started: OnDemote is owed for each OnPromote in every state of
// this candidate.
func (c *callbacks) ofTerm(do, instead func()) {
	c.terms.put(ofTerm, c.delivery("callbacks", do, instead))
}

// ofNews makes do call the callbacks of news. After a panic of our code nothing
// is called instead: news starts nothing that would have to be ended.
func (c *callbacks) ofNews(kind callKind, do func()) {
	c.news.put(kind, c.delivery("news", do, nil))
}

func (c *callbacks) delivery(what string, do, instead func()) func() {
	return func() {
		shield.Call(func() {
			faults.Point(what)
			do()
		}, func(value any, stack []byte) {
			if value == nil {
				return // runtime.Goexit is a callback's, and was reported
			}
			c.env.crash(what, value, stack)
			if instead != nil {
				shield.Call(instead, c.env.report.panicked(what))
			}
		})
	}
}

// promote calls OnPromote for a term, unless the term is over already: a
// callback never learns of a term too late to act on it.
func (c *callbacks) promote(w *window) {
	if w.promoted || !w.open() {
		return
	}
	// Before the callbacks, since a callback that panics or exits half-way has
	// started work, too, which has to be demoted.
	w.promoted = true
	begun := time.Now()
	// For outlivedText: an OnPromote that waits for OnDemote looks from outside
	// as if that were slow.
	c.promoting.Store(true)
	// Deferred, since runtime.Goexit in a callback ends this goroutine, too.
	defer c.promoting.Store(false)
	defer func() { c.env.report.callback(Callback{Kind: "promote", Term: w.term, Took: time.Since(begun)}) }()
	report := c.env.report.panicked("OnPromote")
	// After a panic the candidate leaves as in a resignation, since work that
	// failed to start does not justify holding the record. runtime.Goexit
	// counts as a panic.
	fail := func(value any, stack []byte) {
		report(value, stack)
		c.env.inbox.event(machine.Event{
			Kind: machine.Asked, Term: w.term.Number, Exit: machine.Exit{Reason: machine.ReasonPanicked},
		})
	}
	// Without the lock: with it, a callback that registers another would wait
	// for itself.
	for i, f := range c.promoteCallbacks() {
		// The callback before this one may have lasted for the whole term. The
		// first is called in any case: what is promoted will be demoted.
		if i > 0 && !w.open() || !shield.Call(func() { f(w.ctx, w.term) }, fail) {
			return
		}
	}
}

// demote calls OnDemote for a term that OnPromote was called for. The queue
// calls it after promote of the same term, so that it needs no lock.
func (c *callbacks) demote(w *window) {
	if w == nil || !w.promoted {
		return
	}
	// Once: where our code panics afterwards, this is called again in its
	// place.
	w.promoted = false
	begun := time.Now()
	defer func() { c.env.report.callback(Callback{Kind: "demote", Term: w.term, Took: time.Since(begun)}) }()
	callEach(c.demoteCallbacks(), c.env.report.panicked("OnDemote"))
}

// callEach calls all of fs, whatever becomes of those before: runtime.Goexit
// runs what is deferred. A loop would not outlive the first that calls it.
func callEach(fs []func(), report func(value any, stack []byte)) {
	if len(fs) == 0 {
		return
	}
	defer callEach(fs[1:], report)
	shield.Call(fs[0], report)
}

func (c *callbacks) promoteCallbacks() []func(context.Context, leadership.Term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.promoted
}

func (c *callbacks) demoteCallbacks() []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.demoted
}

// tellCampaign hands the beginning of a campaign to OnCampaign. The loop calls
// it, and waits for no callback: the lock is held for as long as it takes to
// put calls into a queue.
func (c *callbacks) tellCampaign(r machine.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.campaign) == 0 {
		return
	}
	calls := make([]func(), len(c.campaign))
	for i, f := range c.campaign {
		calls[i] = func() { c.timed("campaign", func() { f(r) }, "OnCampaign") }
	}
	c.ofNews(ofCampaign, func() { callEach(calls, ignore) })
}

// tellLeader notifies observers and OnLeaderChange. Both happen under one lock,
// so that a reader that starts to watch meanwhile misses nothing: see watch.
func (c *callbacks) tellLeader(info leadership.Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watchers {
		w.Put(struct{}{}, info)
	}
	if len(c.changed) == 0 {
		return
	}
	calls := make([]func(), len(c.changed))
	for i, f := range c.changed {
		calls[i] = func() { c.timed("leader-change", func() { f(info) }, "OnLeaderChange") }
	}
	c.ofNews(ofLeader, func() { callEach(calls, ignore) })
}

// timed reports a panic of the callback, and how long it took.
func (c *callbacks) timed(kind string, f func(), name string) {
	begun := time.Now()
	// Deferred, for runtime.Goexit.
	defer func() { c.env.report.callback(Callback{Kind: kind, Took: time.Since(begun)}) }()
	shield.Call(f, c.env.report.panicked(name))
}

// observe yields what present returns, and then each change of who leads, until
// ctx is done or done is closed.
func (c *callbacks) observe(ctx context.Context, present func() leadership.Info, done <-chan struct{}) iter.Seq[leadership.Info] {
	return func(yield func(leadership.Info) bool) {
		w := c.watch(present)
		defer c.unwatch(w)
		for {
			ended := false
			select {
			case <-w.Wake():
			case <-ctx.Done():
				return
			case <-done:
				ended = true
			}
			// After the end, too, deliver the election's last news: done is
			// closed when all has been delivered, and select chooses by chance.
			if info, ok := w.Take(); ok && !yield(info) || ended {
				return
			}
		}
	}
}

func (c *callbacks) watch(present func() leadership.Info) *watcher {
	w := latest.New[struct{}, leadership.Info]()
	c.mu.Lock()
	defer c.mu.Unlock()
	// With the lock, which tellLeader needs: an older state must not replace a
	// state that was delivered meanwhile.
	w.Put(struct{}{}, present())
	if c.watchers == nil {
		c.watchers = map[*watcher]struct{}{}
	}
	c.watchers[w] = struct{}{}
	return w
}

func (c *callbacks) unwatch(w *watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watchers, w)
}

// outlivedText names the callback that has outlived DemoteTimeout, and the
// remedy. OnPromote often waits for what OnDemote would do, and both then wait
// for ever.
func (c *callbacks) outlivedText() string {
	timeout := c.env.cfg.DemoteTimeout
	if !c.promoting.Load() {
		return fmt.Sprintf("OnDemote has not returned within DemoteTimeout (%v); the record is released all the same, and this candidate does not campaign"+
			" until it returns", timeout)
	}
	return fmt.Sprintf("OnPromote has not returned within DemoteTimeout (%v) after its term ended; the record is released all the same, and this candidate"+
		" does not campaign until it returns. OnDemote is called when OnPromote has returned, so OnPromote must not wait for it: either return from OnPromote"+
		" when its context ends (<-ctx.Done()), or start the work in a goroutine, return at once, and end the work in OnDemote", timeout)
}
