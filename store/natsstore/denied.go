package natsstore

import (
	"fmt"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/attend"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// checkDenied returns the error of a permission whose lack keeps the watch from
// hearing of writes, or from its beginning where that cannot be done without.
//
// The connection keeps the latest violation alone, so it is looked at again and
// again while a watch begins, from the goroutine that called Watch.
func (h *hub) checkDenied(before attend.Report, w *subscription) error {
	h.loop.Lock()
	defer h.loop.Unlock()
	if w.Stopped() {
		return fmt.Errorf("%w: watching bucket %q: stopped", store.ErrTransient, h.names.Bucket)
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
		return nil
	}
	// A view has two ways of reading, and tries the other one before it does
	// without.
	if w.view != nil {
		return h.unwatchable(w.view.Denied(reported))
	}
	if err := h.unwatchable(wire.Violation(reported, h.needed(w)...)); err != nil {
		return err
	}
	for _, key := range w.keys {
		subject := h.names.Direct(key)
		denied := wire.Violation(reported, subject)
		switch {
		case denied == nil:
		case h.plan.republished == "":
			// While a consumer is made, and after each that is lost, reads
			// alone tell of a key. Without them a watch would be silent just
			// then, so that is said now, and not found out in the first
			// trouble.
			return fmt.Errorf("%w: watching bucket %q: the user may not publish to %s: %w", store.ErrPermanent, h.names.Bucket, subject, denied)
		default:
			// Who may not read learns the state with the next write.
			h.registry.Renounce(key)
		}
	}
	return nil
}

// needed are the subjects without which a watch of keys hears of no write. The
// inbox is among them in each bucket: consumers deliver to one, and the answers
// to reads come to one.
func (h *hub) needed(w *subscription) []string {
	subjects := []string{h.inboxPrefix()}
	if h.plan.republished == "" {
		subjects = append(subjects, h.names.Consumers())
	}
	for _, key := range w.keys {
		if subject := h.feeds.Subject(key); subject != "" {
			subjects = append(subjects, subject)
		}
	}
	return subjects
}

// assumeRepublished has the bucket watched as one that republishes as ours do,
// where nothing else is left, and reports whether it did: the configuration is
// unknown, and the denial, if that is what was reported, shows that no consumer
// can watch it. A user who may neither ask nor read may still listen.
func (h *hub) assumeRepublished(reported error, w *subscription) bool {
	if !h.plan.unknown || h.plan.republished != "" {
		return false
	}
	subjects := []string{h.names.Consumers(), h.inboxPrefix()}
	for _, key := range w.keys {
		subjects = append(subjects, h.names.Direct(key))
	}
	if h.denied = wire.Violation(reported, subjects...); h.denied == nil {
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
	if w.view != nil {
		w.view.Hold()
	}
	// The loop sleeps until something happens, and this is the caller's
	// goroutine.
	h.loop.Nudge()
	return true
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

// held reports whether the watch is of a pattern, and nothing is read before
// [hub.release]. The goroutine that called Watch asks.
func (h *hub) held(w *subscription) bool {
	h.loop.Lock()
	defer h.loop.Unlock()
	return w.view != nil && w.view.Held()
}

// release lets the watch's view read. The loop sleeps meanwhile, and is woken
// for that.
func (h *hub) release(w *subscription) {
	h.loop.Lock()
	defer h.loop.Unlock()
	w.view.Release()
	h.loop.Nudge()
}

// latestError returns why a request failed last. It is what a watch that did
// not begin in time has to show, since nobody else saw the failures of the
// loop's own requests.
func (h *hub) latestError() error {
	h.loop.Lock()
	defer h.loop.Unlock()
	return h.lastErr
}

// currentPlan returns how the bucket is watched. A hub that has ended says
// nothing: nobody audits its plan any more, and the bucket may have been made
// otherwise since.
func (h *hub) currentPlan() (p plan, planned bool) {
	h.loop.Lock()
	defer h.loop.Unlock()
	return h.plan, h.planned && !h.loop.Ended()
}
