package natsstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

// Times of consumers.
const (
	heartbeat = 300 * time.Millisecond
	// maxSilence is when a consumer counts as lost. Two heartbeats may go astray on a
	// busy machine; making a consumer anew then costs two messages.
	maxSilence = 5 * heartbeat / 2
	// abandonAfter is when the server removes a consumer to which nobody listens.
	abandonAfter = 5 * time.Second
)

// A feed brings the writes to one key, or to all that match a pattern.
type feed struct {
	filter   string // the key or the pattern
	wide     bool   // it may bring any number of messages at once
	sub      *nats.Subscription
	prefix   string  // of the subjects of its messages, before the key
	consumer bool    // by a consumer, which must be made; else by republished records
	views    []*view // that it serves; replaced when changed, so that it may be ranged over
	reads    *view   // if not nil, the feed is there to read the present state of this view once

	// Of a consumer.
	standing bool      // it was made, and is heard
	making   bool      // it is being made
	delivery uint64    // number of its last message
	present  uint64    // number of the message that completes the present state, once it stands
	caughtUp bool      // the present state is complete
	heardAt  time.Time // when it was last heard
	nextTry  time.Time
	attempts int
}

// live reports whether the feed brings writes as far as anyone knows.
func (f *feed) live() bool { return f != nil && (!f.consumer || f.standing) }

// republishedPrefix returns the prefix under which rp republishes the records stored
// under the subjects of prefix stored, or "" if it does not republish them whole.
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
func (h *hub) feed(r *register) error {
	if r.feed != nil {
		return nil
	}
	if h.s.opts.WatchWholeBucket && h.whole != nil {
		r.feed = h.whole
		return nil
	}
	f, err := h.newFeed(&feed{filter: r.key})
	if err == nil {
		r.feed = f
	}
	return err
}

// newFeed begins to listen, or returns the whole bucket's feed instead where the options say so.
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
		// Its messages have the subjects of the records, whatever subject it listens to.
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
	return nil
}

// subscribe lets messages come to the hub: by a queue of fixed length, which drops what it cannot take, or by
// one that the client library lets grow, at the cost of a goroutine. The latter is for subjects that bring all
// keys of a bucket at once.
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
		// A message that is not of the stream's making is nobody's record, and one that was stored under another key
		// is the answer to a request that asked for it here.
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
		h.lived(r, e)
	}
	for _, v := range f.views {
		if store.MatchPattern(v.pattern, e.Key) {
			h.seen(v, e, f.consumer && !f.caughtUp)
		}
	}
}

// consumed handles a message of a consumer: a heartbeat or a record.
func (h *hub) consumed(f *feed, m *nats.Msg) {
	f.heardAt = time.Now()
	if m.Reply == "" { // every record has one, though it is not to be acknowledged
		status := m.Header.Get(hdrStatus)
		last, err := strconv.ParseUint(m.Header.Get(hdrLastDeliver), 10, 64)
		switch {
		case status != statusHeartbeat || err != nil:
		case last != f.delivery:
			h.down(f)
		case f.standing:
			h.caughtUp(f) // the server is idle: nothing is left to deliver
		}
		return
	}
	md, err := m.Metadata()
	if err != nil {
		return
	}
	if md.Sequence.Consumer != f.delivery+1 {
		h.down(f) // a message went astray
		return
	}
	f.delivery++
	h.brought(f, stored(strings.TrimPrefix(m.Subject, f.prefix), md.Sequence.Stream, m.Data, m.Header, 0))
	if h.feeds[m.Sub] == f && (md.NumPending == 0 || f.standing && f.delivery >= f.present) {
		h.caughtUp(f)
	}
}

// caughtUp notes that a consumer has delivered the present state.
func (h *hub) caughtUp(f *feed) {
	if f.caughtUp {
		return
	}
	f.caughtUp = true
	if f.reads != nil {
		h.surveyed(f.reads)
	}
	for _, v := range f.views {
		h.surveyed(v)
	}
}

// down gives a consumer up; work makes another. Its keys are read until that stands.
func (h *hub) down(f *feed) {
	f.standing, f.making, f.nextTry = false, false, time.Time{}
	for r := range h.served(f) {
		h.missed(r)
	}
	for _, v := range f.views {
		v.repeat = true
	}
}

// tend makes the feed's consumer if there is none, and notices when it is lost.
func (h *hub) tend(f *feed, now time.Time, due func(time.Time)) {
	switch {
	case !f.consumer || f.making:
	case f.standing && now.Sub(f.heardAt) <= maxSilence:
		due(f.heardAt.Add(maxSilence + time.Millisecond))
	case f.standing:
		if !h.waiting(f) { // else its heartbeats may just be waiting for us
			h.down(f)
			h.make(f, now)
		}
	case now.Before(f.nextTry):
		due(f.nextTry)
	default:
		h.make(f, now)
	}
}

// consumerRequest is the body of a CONSUMER.CREATE request.
type consumerRequest struct {
	Stream string                   `json:"stream_name"`
	Config jetstream.ConsumerConfig `json:"config"`
	Action string                   `json:"action"`
}

// make asks for a consumer that begins with the last record of each key. It delivers to a
// new inbox, so that nothing of its predecessor, which the server removes by
// itself, is taken for its own.
func (h *hub) make(f *feed, now time.Time) {
	if err := h.listen(f, h.s.nc.NewInbox()); err != nil {
		h.lastErr = err
		h.postpone(f)
		return
	}
	name, filter := rand.Text(), h.s.stored+f.filter
	f.making, f.delivery, f.caughtUp = true, 0, false
	for _, v := range f.views {
		v.begin()
	}
	sub := f.sub
	body := mustJSON(consumerRequest{Stream: h.s.stream, Action: "create", Config: jetstream.ConsumerConfig{
		Name:              name,
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy:         jetstream.AckNonePolicy,
		FilterSubject:     filter,
		MaxDeliver:        1,
		Replicas:          1,
		MemoryStorage:     true,
		InactiveThreshold: abandonAfter,
		DeliverSubject:    sub.Subject,
		IdleHeartbeat:     heartbeat,
	}})
	h.ask(now.Add(makeTimeout), h.s.api+"CONSUMER.CREATE."+h.s.stream+"."+name+"."+filter, body, func(m *nats.Msg) {
		if f.sub == sub && h.feeds[sub] == f {
			h.made(f, m)
		}
	})
}

// made handles the answer to make.
func (h *hub) made(f *feed, m *nats.Msg) {
	f.making = false
	if m == nil {
		h.postpone(f)
		h.unread(f.reads)
		return
	}
	var info jetstream.ConsumerInfo
	if err := apiReply(m, &info); err != nil {
		h.lastErr = fmt.Errorf("making a consumer: %w", err)
		h.postpone(f)
		h.unread(f.reads)
		return
	}
	f.standing, f.attempts, f.heardAt = true, 0, time.Now()
	f.present = info.Delivered.Consumer + info.NumPending
	for r := range h.served(f) {
		// Once more: a read before the consumer stood may have missed a write, and an
		// absent key is in no consumer.
		r.nextRead = time.Time{}
		h.toRead(r)
	}
	if f.delivery >= f.present {
		h.caughtUp(f)
	}
}

// waiting reports whether messages of the feed may wait for the hub.
func (h *hub) waiting(f *feed) bool {
	n, _, err := f.sub.Pending()
	return len(h.in)+len(h.bulk) > 0 || f.wide && err == nil && n > 0
}

// postpone makes the consumer again after a growing pause.
func (h *hub) postpone(f *feed) {
	f.making = false
	f.nextTry = time.Now().Add(min(retryFirst<<min(f.attempts, 8), retryMost))
	f.attempts++
}
