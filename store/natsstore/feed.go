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

// A feed brings the writes to one key, or to all keys of the bucket.
type feed struct {
	key      string // empty: all keys
	sub      *nats.Subscription
	prefix   string // of the subjects of its messages, before the key
	consumer bool   // by a consumer, which must be made; else by republished records

	// Of a consumer.
	standing bool      // it was made, and is heard
	making   bool      // it is being made
	delivery uint64    // number of its last message
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
	f := &feed{key: r.key, prefix: h.plan.republished}
	if h.s.opts.WatchWholeBucket {
		f.key = ""
	}
	subject := f.prefix + f.filter()
	if f.prefix == "" {
		// Its messages have the subjects of the records, whatever subject it listens to.
		f.consumer, f.prefix, subject = true, h.s.stored, h.s.nc.NewInbox()
	}
	if err := h.listen(f, subject); err != nil {
		return err
	}
	r.feed = f
	if f.key == "" {
		h.whole = f
	}
	return nil
}

// filter is the feed's key as the end of a subject.
func (f *feed) filter() string {
	if f.key == "" {
		return ">"
	}
	return f.key
}

// listen subscribes the feed to a subject, instead of to the one before.
func (h *hub) listen(f *feed, subject string) error {
	sub, err := h.s.nc.ChanSubscribe(subject, h.in)
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

// unsubscribe ends a feed.
func (h *hub) unsubscribe(f *feed) {
	if f.sub != nil {
		_ = f.sub.Unsubscribe()
		delete(h.feeds, f.sub)
	}
	for r := range h.served(f) {
		r.feed = nil
	}
}

// served returns the registers that the feed serves.
func (h *hub) served(f *feed) iter.Seq[*register] {
	return func(yield func(*register) bool) {
		if f.key != "" {
			if r := h.registers[f.key]; r != nil && r.feed == f {
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
	if f.consumer {
		h.consumed(f, m)
		return
	}
	r := h.registers[strings.TrimPrefix(m.Subject, f.prefix)]
	if r == nil {
		return
	}
	// A message that is not of the stream's making is nobody's record.
	if e, err := recordEntry(r.key, m); err == nil {
		h.lived(r, e)
	}
}

// consumed handles a message of a consumer: a heartbeat or a record.
func (h *hub) consumed(f *feed, m *nats.Msg) {
	f.heardAt = time.Now()
	if m.Reply == "" { // every record has one, though it is not to be acknowledged
		status := m.Header.Get(hdrStatus)
		last, err := strconv.ParseUint(m.Header.Get(hdrLastDeliver), 10, 64)
		if status == statusHeartbeat && err == nil && last != f.delivery {
			h.down(f)
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
	if r := h.registers[strings.TrimPrefix(m.Subject, f.prefix)]; r != nil {
		h.lived(r, store.Entry{Key: r.key, Revision: md.Sequence.Stream, Value: m.Data, Tombstone: tombstone(m.Header)})
	}
}

// down gives a consumer up; work makes another. Its keys are read until that stands.
func (h *hub) down(f *feed) {
	f.standing, f.making, f.nextTry = false, false, time.Time{}
	for r := range h.served(f) {
		r.interrupted()
	}
}

// tend makes the feed's consumer if there is none, and notices when it is lost.
func (h *hub) tend(f *feed, now time.Time, due func(time.Time)) {
	switch {
	case !f.consumer || f.making:
	case f.standing && now.Sub(f.heardAt) <= maxSilence:
		due(f.heardAt.Add(maxSilence + time.Millisecond))
	case f.standing:
		if len(h.in) == 0 { // else its heartbeats may just be waiting for us
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
	name, filter := rand.Text(), h.s.stored+f.filter()
	f.making, f.delivery = true, 0
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
		return
	}
	if err := apiReply(m, nil); err != nil {
		h.lastErr = fmt.Errorf("making a consumer: %w", err)
		h.postpone(f)
		return
	}
	f.standing, f.attempts, f.heardAt = true, 0, time.Now()
	for r := range h.served(f) {
		// Once more: a read before the consumer stood may have missed a write, and an
		// absent key is in no consumer.
		r.stale, r.nextRead = true, time.Time{}
	}
}

// postpone makes the consumer again after a growing pause.
func (h *hub) postpone(f *feed) {
	f.making = false
	f.nextTry = time.Now().Add(min(retryFirst<<min(f.attempts, 8), retryMost))
	f.attempts++
}
