package natsstore

import (
	"fmt"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/attend"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// checkDenied returns the error of a permission whose lack keeps the watch from
// hearing of writes, or from its beginning where that cannot be done without.
func (h *hub) checkDenied(before attend.Report, w *subscription) error {
	h.loop.Lock()
	defer h.loop.Unlock()
	if w.Stopped() {
		return fmt.Errorf("%w: watching bucket %q: stopped", store.ErrTransient, h.names.Bucket)
	}
	reported := h.reportedSince(before)
	if h.feeds.RefusedShared(reported) || h.assumeRepublished(reported, w) {
		return nil
	}
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
			return fmt.Errorf("%w: watching bucket %q: the user may not publish to %s: %w", store.ErrPermanent, h.names.Bucket, subject, denied)
		default:
			// Who may not read learns the state with the next write.
			h.registry.Renounce(key)
		}
	}
	return nil
}

// needed are the subjects without which a watch of keys hears of no write.
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

// assumeRepublished reports whether the bucket must be assumed to republish as
// ours do: its configuration is unknown, and the denial, if that is what was
// reported, shows that no consumer can watch it. A user who may neither ask nor
// read may still listen.
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
	p := h.plan
	p.republished = defaultRepublish(h.names.Bucket)
	h.follow(p)
	h.rewatch()
	if w.view != nil {
		w.view.Hold()
	}
	h.loop.Nudge()
	return true
}

// unwatchable explains that the bucket cannot be watched, if it was denied.
func (h *hub) unwatchable(denied error) error {
	if denied == nil {
		return nil
	}
	err := fmt.Errorf("%w: watching bucket %q: the user lacks a permission: %w", store.ErrPermanent, h.names.Bucket, denied)
	if h.plan.unknown && h.denied != nil {
		err = fmt.Errorf("%w; before: %w", err, h.denied)
	}
	return err
}

func (h *hub) held(w *subscription) bool {
	h.loop.Lock()
	defer h.loop.Unlock()
	return w.view != nil && w.view.Held()
}

func (h *hub) release(w *subscription) {
	h.loop.Lock()
	defer h.loop.Unlock()
	w.view.Release()
	h.loop.Nudge()
}

func (h *hub) latestError() error {
	h.loop.Lock()
	defer h.loop.Unlock()
	return h.lastErr
}

func (h *hub) currentPlan() (p plan, planned bool) {
	h.loop.Lock()
	defer h.loop.Unlock()
	return h.plan, h.planned && !h.loop.Ended()
}
