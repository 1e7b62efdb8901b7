package natsstore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// A need is a right that a watch needs.
type need struct {
	act     wire.Act
	subject string
	// without does without the right, and returns an error where that cannot be
	// done. It is called with the hub's lock.
	without func(denied error) error
}

// without does without a right of the watch, unless its sources were replaced.
func (h *hub) without(w *subscription, n need, denied error) error {
	h.loop.Lock()
	defer h.loop.Unlock()
	defer h.loop.Nudge()
	if !w.settled.Load() {
		return nil
	}
	return n.without(denied)
}

// unsettle has the rights of all watches looked for again: other sources need
// others.
func (h *hub) unsettle() {
	for w := range h.watches {
		w.settled.Store(false)
	}
}

// needs lists the rights that a watch needs, in the order in which they are
// asked for. In a bucket that republishes, a user who may not read learns the
// state of a key with its next write.
func (h *hub) needs(w *subscription) (all []need) {
	h.loop.Lock()
	defer h.loop.Unlock()
	w.settled.Store(true)
	republishes := h.listens(w)
	fatal := func(denied error) error {
		// Where the bucket was only assumed to republish, the denial of before
		// is named, too: either right may be the one that was forgotten.
		if h.plan.denied != nil {
			return fmt.Errorf("%w; before: %w", denied, h.plan.denied)
		}
		return denied
	}
	add := func(act wire.Act, subject string, without func(error) error) {
		all = append(all, need{act, subject, without})
	}
	// Reads are the last, since a watch may do without them.
	read := func(subject string, renounce func(denied error)) {
		add(wire.Publish, subject, func(denied error) error {
			if !republishes {
				// While a consumer is made, and after each that is lost, reads
				// alone show a key. Without them a watch would be silent just
				// then.
				return fatal(fmt.Errorf("the user may not publish to %s: %w", subject, denied))
			}
			renounce(denied)
			return nil
		})
	}
	add(wire.Subscribe, h.nc.NewInbox(), func(denied error) error {
		denied = fmt.Errorf("%w: %w", errNoReplies, denied)
		if !republishes {
			return fatal(denied)
		}
		h.renounce(w, denied)
		return nil
	})
	if v := w.view; v != nil {
		act, subject := h.sources.Right(v.Source())
		add(act, subject, fatal)
		switch {
		case !republishes: // the consumer shows the current state
		case v.ReadsByConsumer():
			read(h.names.Consumer(v.Pattern()), v.Renounce)
		default:
			read(v.ReadSubject(), func(error) {
				v.ReadByConsumer()
				w.settled.Store(false) // it needs another right now
			})
		}
		return all
	}
	for _, key := range w.keys {
		if act, subject := h.sources.RightFor(key); h.sources.Shared(key) {
			add(act, subject, func(denied error) error {
				h.sources.RefusedShared(denied)
				h.unsettle()
				return nil
			})
		} else {
			add(act, subject, fatal)
		}
	}
	for _, key := range w.keys {
		read(h.readRequest(key).subject, func(error) { h.registry.Renounce(key) })
	}
	return all
}

// listens reports whether the sources of the watch are subscriptions to
// republished records. Watches of the same bucket may differ: see [hub.add].
func (h *hub) listens(w *subscription) bool {
	if w.view != nil {
		f := w.view.Source()
		return f == nil || !f.Consumer()
	}
	return !slices.ContainsFunc(w.keys, func(key string) bool { return !h.sources.Traceless(key) })
}

var errNoReplies = errors.New("the user may not subscribe to replies")

// renounce has the watch do without reads.
func (h *hub) renounce(w *subscription, denied error) {
	if w.view != nil {
		w.view.Renounce(denied)
	}
	for _, key := range w.keys {
		h.registry.Renounce(key)
	}
}

// currentPlan returns how the bucket is watched. A hub that has ended has no
// plan: it no longer audits the plan, and the bucket may have been made
// otherwise since.
func (h *hub) currentPlan() (p plan, planned bool) {
	h.loop.Lock()
	defer h.loop.Unlock()
	return h.plan, h.planned && !h.loop.Ended()
}
