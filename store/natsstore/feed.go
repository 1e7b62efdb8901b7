package natsstore

import (
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

// A feed brings the writes to one key, to several that it names, or to all that
// match a pattern.
type feed struct {
	filter   string     // the key or the pattern; empty if the feed has names
	names    *filterSet // the keys that its consumer names, or nil
	wide     bool       // it may bring any number of messages at once
	sub      *nats.Subscription
	prefix   string  // of the subjects of its messages, before the key
	consumer bool    // by a consumer, which must be made; else by republished records
	views    []*view // that it serves; replaced when changed, so that it may be ranged over
	reads    *view   // if not nil, the feed is there to read the present state of this view once

	consumption // of a consumer
}

// brings reports whether the feed brings the writes to a key, as far as anyone
// knows.
func (f *feed) brings(key string) bool {
	switch {
	case f == nil:
		return false
	case !f.consumer:
		return true
	default:
		return f.standing && (f.names == nil || f.names.named[key])
	}
}

// republishedPrefix returns the prefix under which rp republishes the records
// stored under the subjects of prefix stored, or "" if it does not republish
// them whole.
func republishedPrefix(rp *jetstream.RePublish, stored string) string {
	if rp == nil || rp.HeadersOnly {
		return ""
	}
	source, all := strings.CutSuffix(rp.Source, ">")
	if rp.Source == "" {
		source, all = "", true
	}
	to, plain := strings.CutSuffix(rp.Destination, ">")
	if !all || !plain || to == "" || strings.ContainsAny(source+to, "*{") || !strings.HasPrefix(stored, source) {
		return ""
	}
	return to + strings.TrimPrefix(stored, source)
}

func (s *Store) subscribeError(err error) error {
	return fmt.Errorf("%w: watching bucket %q: %w", classifySubscribe(err), s.bucket, err)
}

// classifySubscribe: subscribing only fails for what the connection is.
func classifySubscribe(err error) error {
	if class := classifyRead(err); errors.Is(class, store.ErrPermanent) {
		return class
	}
	return store.ErrTransient
}

// feedOf returns the feed that serves a key.
func (h *hub) feedOf(key string) *feed {
	if r := h.registers[key]; r != nil {
		return r.feed
	}
	return nil
}

// feed gives the register a feed.
func (h *hub) feed(r *register) (err error) {
	switch {
	case r.feed != nil:
	case h.shares():
		r.feed, err = h.sharedFeed(r.key)
	default:
		r.feed, err = h.newFeed(&feed{filter: r.key})
	}
	return err
}

// unfeed ends the register's part in its feed.
func (h *hub) unfeed(r *register) {
	switch f := r.feed; {
	case f == nil || f == h.whole:
	case f.names != nil:
		if f.names.drop(r.key) {
			h.unsubscribe(f)
		}
	default:
		h.unsubscribe(f)
	}
}

// newFeed begins to listen, or returns the whole bucket's feed instead where
// the options say so.
func (h *hub) newFeed(f *feed) (*feed, error) {
	if h.s.opts.WatchWholeBucket {
		if h.whole != nil {
			return h.whole, nil
		}
		f.filter, f.wide = ">", true
	}
	f.prefix = h.plan.republished
	subject := f.prefix + f.filter
	if f.prefix == "" {
		// Its messages have the subjects of the records, whatever subject it
		// listens to.
		f.consumer, f.prefix, subject = true, h.s.stored, h.s.nc.NewInbox()
	}
	if err := h.listen(f, subject); err != nil {
		return nil, err
	}
	if h.s.opts.WatchWholeBucket {
		h.whole = f
	}
	return f, nil
}

// listen subscribes the feed to a subject, instead of to the one before.
func (h *hub) listen(f *feed, subject string) error {
	sub, err := h.subscribe(f.wide, subject)
	if err != nil {
		return err
	}
	if f.sub != nil {
		_ = f.sub.Unsubscribe()
		delete(h.feeds, f.sub)
	}
	f.sub = sub
	h.feeds[sub] = f
	if f.consumer {
		h.consumers[f] = struct{}{}
	}
	return nil
}

// subscribe lets messages come to the hub: by a queue of fixed length, which
// drops what it cannot take, or by one that the client library lets grow, at
// the cost of a goroutine. The latter is for subjects that bring all keys of a
// bucket at once.
func (h *hub) subscribe(wide bool, subject string) (*nats.Subscription, error) {
	if !wide {
		return h.s.nc.ChanSubscribe(subject, h.in)
	}
	return h.s.nc.Subscribe(subject, func(m *nats.Msg) {
		select { // which cannot panic: bulk is never closed
		case h.bulk <- m:
		case <-h.quit:
		}
	})
}

// unsubscribe ends a feed.
func (h *hub) unsubscribe(f *feed) {
	if f.sub != nil {
		_ = f.sub.Unsubscribe()
		delete(h.feeds, f.sub)
	}
	delete(h.consumers, f)
	for r := range h.served(f) {
		r.feed = nil
	}
	for _, v := range f.views {
		v.feed = nil
	}
	if f.reads != nil {
		f.reads.reading = nil
	}
}

// served returns the registers that the feed serves.
func (h *hub) served(f *feed) iter.Seq[*register] {
	return func(yield func(*register) bool) {
		if f.names != nil {
			for key := range f.names.wanted {
				if r := h.registers[key]; r != nil && r.feed == f && !yield(r) {
					return
				}
			}
			return
		}
		if !store.Wild(f.filter) {
			if r := h.registers[f.filter]; r != nil && r.feed == f {
				yield(r)
			}
			return
		}
		for _, r := range h.registers {
			if r.feed == f && !yield(r) {
				return
			}
		}
	}
}

// heard handles a message of a feed.
func (h *hub) heard(f *feed, m *nats.Msg) {
	switch {
	case f.consumer:
		h.consumed(f, m)
	case f.reads != nil:
		h.answered(f.reads, m)
	default:
		// A message that is not of the stream's making is nobody's record, and
		// one that was stored under another key is the answer to a request that
		// asked for it here.
		key := strings.TrimPrefix(m.Subject, f.prefix)
		if e, err := recordEntry(key, m); err == nil && appended(m.Header, jetstream.SubjectHeader) == h.s.stored+key {
			h.brought(f, e)
		}
	}
}

// brought passes on an entry to those whom the feed serves.
func (h *hub) brought(f *feed, e store.Entry) {
	if f.reads != nil {
		h.seen(f.reads, e, true)
		return
	}
	if r := h.registers[e.Key]; r != nil && r.feed == f {
		h.broughtTo(r, f, e)
	}
	for _, v := range f.views {
		if store.MatchPattern(v.pattern, e.Key) {
			h.seen(v, e, f.consumer && !f.caughtUp)
		}
	}
}
