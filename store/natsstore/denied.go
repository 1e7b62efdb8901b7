package natsstore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/attend"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// A look is what [hub.checkDenied] found.
type look struct {
	reported error    // what the connection had reported
	again    bool     // what it may hide was asked for again
	unread   []string // the keys that the user may not read, as it seems
}

// settled reports whether the connection has nothing to add.
func (l look) settled() bool { return !l.again && len(l.unread) == 0 }

// checkDenied is one look of [Store.checkDenied].
func (h *hub) checkDenied(before attend.Report, w *subscription) (look, error) {
	h.loop.Lock()
	defer h.loop.Unlock()
	if w.Stopped() {
		return look{}, fmt.Errorf("%w: watching bucket %q: stopped", store.ErrTransient, h.names.Bucket)
	}
	// Once for all questions that follow: of a violation that came between two
	// of them, the first would know nothing and the second blame the wrong
	// part. That was seen as an observer that was refused for good now and
	// then.
	reported := h.reportedSince(before)
	// First what can be done without: a shared consumer is replaced by one for
	// each key, and a bucket of which nothing is known may republish. Either
	// way the watch begins anew, and another violation shows with a later look.
	if h.feeds.RefusedShared(reported) || h.assumeRepublished(reported, w) {
		w.anew = true
		return look{}, nil
	}
	if w.denied = cmp.Or(w.denied, h.lacking(reported, w)); w.denied != nil {
		if h.undecided() {
			return look{}, nil // the other watches decide it
		}
		return look{}, h.unwatchable(w.denied)
	}
	l := look{reported: reported, again: h.askAgain(reported, w)}
	if w.view != nil {
		// A view has two ways of reading, and tries the other one before it
		// does without.
		w.view.Unreadable(reported)
		return l, nil
	}
	for _, key := range w.keys {
		subject := h.names.Direct(key)
		denied := wire.Violation(reported, wire.Publish, subject)
		switch {
		case denied == nil || h.registry.Renounced(key):
		case h.plan.republished != "":
			// Who may not read learns the state with the next write.
			l.unread = append(l.unread, key)
		case h.undecided():
			// The refusal of a consumer may be hidden by this one. If so, it
			// shows when a consumer is asked for again.
		default:
			// While a consumer is made, and after each that is lost, reads
			// alone tell of a key. Without them a watch would be silent just
			// then, so that is said now, and not found out in the first
			// trouble.
			return look{}, fmt.Errorf("%w: watching bucket %q: the user may not publish to %s: %w", store.ErrPermanent, h.names.Bucket, subject, denied)
		}
	}
	return l, nil
}

// askAgain asks once more for what a reported violation may have hidden, and
// reports whether it did: of several, the connection shows the last. A watch
// that renounced its reads, or began beside another, would be silent for ever.
func (h *hub) askAgain(reported error, w *subscription) (again bool) {
	//nolint:errorlint // an equal error in another value is a new report
	if reported == w.settled || !h.ours(reported) {
		return false
	}
	if w.view != nil {
		return w.view.AskAgain()
	}
	for _, key := range w.keys {
		again = h.feeds.AskAgainFor(key) || again
	}
	return again
}

// ours reports whether a violation is of what watches of the bucket ask for.
func (h *hub) ours(reported error) bool {
	return wire.Violation(reported, wire.Publish, h.names.Consumers(), h.names.DirectMany(), h.names.DirectMany()+".") != nil ||
		h.plan.republished != "" && wire.Violation(reported, wire.Subscribe, h.plan.republished) != nil
}

// settle takes in what a look has found, and reports whether it did: not if the
// connection has reported another violation meanwhile.
func (h *hub) settle(w *subscription, l look) bool {
	h.loop.Lock()
	defer h.loop.Unlock()
	//nolint:errorlint // an equal error in another value is a new report
	if h.LastError() != l.reported {
		return false
	}
	for _, key := range l.unread {
		h.registry.Renounce(key)
	}
	if l.again {
		w.settled = l.reported
	}
	return true
}

// lacking returns the reported error if it denies what the watch needs to hear
// of writes. The inbox is that in each bucket: consumers deliver to one, and
// the answers to the reads of keys come to one.
func (h *hub) lacking(reported error, w *subscription) error {
	if w.view != nil {
		return w.view.Denied(reported)
	}
	for _, key := range w.keys {
		if denied := h.feeds.KeyDenied(key, reported); denied != nil {
			return denied
		}
	}
	return wire.Violation(reported, wire.Subscribe, h.inboxPrefix())
}

// undecided reports whether it is unknown how the bucket is to be watched: the
// user may not ask for the configuration, and no consumer has shown yet that
// the user may make some.
func (h *hub) undecided() bool {
	return h.plan.unknown && h.plan.republished == "" && !h.feeds.MayConsume()
}

// assumeRepublished has the bucket watched as one that republishes as ours do,
// where nothing else is left, and reports whether it did: the configuration is
// unknown, and every watch was denied its consumers, or the answers to all. A
// user who may neither ask nor make consumers may still listen.
//
// The denial of a read shows no such thing, nor does that of a consumer where
// another one stands, or may. In a bucket that does not republish, all watches
// would then be silent for ever, those by consumers that stand among them.
func (h *hub) assumeRepublished(reported error, w *subscription) bool {
	if !h.undecided() {
		return false
	}
	w.denied = cmp.Or(w.denied, h.lacking(reported, w))
	if h.denied = cmp.Or(h.allDenied(), h.unheard(reported)); h.denied == nil {
		return false
	}
	// Feeds by consumer are there already. They are replaced, or they would go
	// on asking for what is denied.
	p := h.plan
	p.republished = defaultRepublish(h.names.Bucket)
	h.follow(p)
	h.rewatch()
	// The subject on which the view listens now may be denied as well, and that
	// is to be known before it reads: see [Store.release].
	for w := range h.watches {
		if w.view != nil {
			w.view.Hold()
		}
	}
	// The loop sleeps until something happens, and this is the caller's
	// goroutine.
	h.loop.Nudge()
	return true
}

// allDenied returns a denial if every watch that needs a feed has one, and else
// nil.
func (h *hub) allDenied() (denied error) {
	for w := range h.watches {
		switch {
		case w.view == nil && len(w.keys) == 0:
		case w.denied == nil:
			return nil
		default:
			denied = w.denied
		}
	}
	return denied
}

// unwatchable explains that the bucket cannot be watched, if it was denied.
func (h *hub) unwatchable(denied error) error {
	if denied == nil {
		return nil
	}
	// Where the bucket was only assumed to republish, the denial of before is
	// told, too: either may be the one that nobody meant.
	err := fmt.Errorf("%w: watching bucket %q: the user lacks a permission: %w", store.ErrPermanent, h.names.Bucket, denied)
	if h.plan.unknown && h.denied != nil {
		err = fmt.Errorf("%w; before: %w", err, h.denied)
	}
	return err
}

// hold puts off the reads of a watch whose consumers may be refused. The
// refusal of a read would hide theirs.
func (h *hub) hold(w *subscription) {
	if !h.undecided() {
		return
	}
	w.held = len(w.keys) > 0
	for _, key := range w.keys {
		h.registry.Hold(key)
	}
	// Not left to the loop, since the flush of [Store.release] is to follow.
	if h.nc.IsConnected() {
		h.feeds.Work(time.Now(), func(time.Time) {})
	}
}

// unhold ends what hold began.
func (h *hub) unhold(w *subscription) {
	if !w.held {
		return
	}
	w.held = false
	for _, key := range w.keys {
		h.registry.Release(key)
	}
}

// held reports whether the watch waits for [hub.release], and all that may be
// refused before was asked for. The goroutine that called Watch asks.
func (h *hub) held(w *subscription) bool {
	h.loop.Lock()
	defer h.loop.Unlock()
	if w.view != nil {
		return w.view.Held()
	}
	return w.held && !slices.ContainsFunc(w.keys, func(key string) bool { return !h.feeds.Asked(key) })
}

// release lets the watch read, and reports whether it did: not if the watch has
// begun anew, with consumers that may be refused in their turn. The loop sleeps
// meanwhile, and is woken for that. The first reads of keys are made here: a
// consumer may be there at once, and what is denied is to be known before the
// watch has begun.
func (h *hub) release(before attend.Report, w *subscription) bool {
	h.loop.Lock()
	defer h.loop.Unlock()
	defer h.loop.Nudge()
	anew := w.anew
	w.anew = false
	switch {
	case w.view != nil:
		if w.view.Asked() && h.undecided() && h.undenied(before, w) {
			h.feeds.Permitted()
		}
		w.view.Release()
	case anew && h.undecided():
		return false
	case !w.Stopped():
		if w.held && h.undenied(before, w) {
			h.feeds.Permitted()
		}
		h.unhold(w)
		h.registry.Work(time.Now(), func(time.Time) {})
	}
	return true
}

// undenied reports whether nothing of the watch's was denied since it began. A
// server reports a violation before it answers the flush that precedes.
func (h *hub) undenied(before attend.Report, w *subscription) bool {
	now := h.connReport()
	err := now.Since(before)
	//nolint:errorlint // an equal error in another value is a new report
	return now.Connected && now.Reconnects == before.Reconnects && w.denied == nil && (err == w.settled || !h.ours(err))
}

// latestError returns what the watch was denied, or else why a request failed
// last. It is what a watch that did not begin in time has to show, since nobody
// else saw the failures of the loop's own requests.
func (h *hub) latestError(w *subscription) error {
	h.loop.Lock()
	defer h.loop.Unlock()
	return cmp.Or(w.denied, h.lastErr)
}

// currentPlan returns how the bucket is watched. A hub that has ended says
// nothing: nobody audits its plan any more, and the bucket may have been made
// otherwise since.
func (h *hub) currentPlan() (p plan, planned bool) {
	h.loop.Lock()
	defer h.loop.Unlock()
	return h.plan, h.planned && !h.loop.Ended()
}
