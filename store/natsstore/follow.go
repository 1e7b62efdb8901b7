package natsstore

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// inspect asks for the bucket's configuration when an audit is due.
func (h *hub) inspect(now time.Time, due func(time.Time)) {
	// The caller vouches for how the bucket republishes, perhaps since the user
	// may not ask.
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
	// Without an answer the next audit asks again.
	if m == nil {
		return
	}
	info := new(jetstream.StreamInfo)
	if err := wire.Answer(m, info); err != nil {
		h.lastErr = err
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrStreamNotFound) {
			// The bucket is gone, or its stream has no leader. The next bucket
			// of this name may have another configuration, so the store soon
			// reads it again.
			h.audit.at = time.Now().Add(watch.RetryMost)
		}
		return
	}
	h.adopt(info)
}

// adopt takes over the stream's configuration and state as the stream's leader
// reports them.
func (h *hub) adopt(info *jetstream.StreamInfo) {
	next := h.planFor(info)
	anew, moved := h.plan.becomes(next)
	h.follow(next)
	// The known state belongs to another stream, whose revisions mean nothing
	// in this one.
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

// follow takes over a plan, for the sources that are opened from now on.
func (h *hub) follow(p plan) {
	h.plan = p
	h.consumes.Store(p.republished == "")
	h.sources.Republished(p.republished)
}

// rewatch replaces every source by one that the plan asks for.
func (h *hub) rewatch() {
	if err := h.reopen(); err != nil {
		h.lastErr = err
		h.audit.at = time.Now().Add(watch.RetryMost)
		h.plan.mixed = true
	}
	h.unsettle()
	h.registry.Missed()
	for v := range h.views {
		v.StartOver()
	}
}

// reopen opens each source, whatever becomes of those before: a key that cannot
// be watched must not leave the others unheard.
func (h *hub) reopen() error {
	h.sources.Reopen()
	var failed []error
	for key := range h.registry.Keys() {
		failed = append(failed, h.sources.Add(key))
	}
	for v := range h.views {
		failed = append(failed, v.Reopen())
	}
	return errors.Join(failed...)
}
