package natsstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Times of consumers.
const (
	// heartbeat is how often the server says that an idle consumer is there. It
	// says nothing while records are delivered: most leaders renew more often
	// than that, so that consumers which bring renewals have no heartbeats.
	heartbeat = 2 * time.Second
	// maxSilence is when a consumer may be lost. One answer of the server more,
	// and it counts as lost: messages that wait in front of that answer,
	// because this process was starved, are heard before it.
	maxSilence = 5 * heartbeat / 2
	// maxDebt is for how long a consumer may owe a write that a read has shown.
	maxDebt = time.Second
	// abandonAfter is when the server removes a consumer to which nobody
	// listens.
	abandonAfter = 5 * time.Second
	// renameEvery is how often the server is told of keys that came and went.
	renameEvery = 100 * time.Millisecond
	// pollMost is how many keys whose consumer does not stand are read in a
	// second.
	pollMost = 500
)

// ownConsumers is how many keys of a store have a consumer each, before the
// others share some. A user who may make consumers of named keys alone, as few
// rights as a candidate needs, is thus never refused one for two groups.
const ownConsumers = 4

// A consumption is the state of a feed's consumer.
type consumption struct {
	name     string    // of the consumer
	round    uint64    // number of the consumer, of all that the feed had
	standing bool      // it was made, and is heard
	making   bool      // it is being made
	renaming bool      // the server is being told of other keys
	probing  bool      // it is silent, and an answer of the server is awaited
	delivery uint64    // number of its last message
	present  uint64    // number of the message that completes the present state, once it stands
	caughtUp bool      // the present state is complete
	heardAt  time.Time // when it was last heard
	owesFrom time.Time // when a read showed a write that it has yet to bring; zero: none
	nextTry  time.Time
	attempts int
}

// shares reports whether the next key is to share a consumer with others.
func (h *hub) shares() bool {
	if h.plan.republished != "" || h.s.opts.WatchWholeBucket || h.alone {
		return false
	}
	own := 0
	for f := range h.consumers {
		if f.names == nil && !f.wide {
			own++
		}
	}
	return own >= ownConsumers
}

// sharedFeed returns a feed that will bring the key, besides others.
func (h *hub) sharedFeed(key string) (*feed, error) {
	for f := range h.consumers {
		if f.names != nil && !f.names.full() {
			f.names.add(key)
			return f, nil
		}
	}
	f := &feed{names: newFilterSet(), wide: true}
	f.names.add(key)
	return h.newFeed(f)
}

// refusedShared reports whether the reported error is the refusal of a consumer
// that names several keys. The first has every key watched by a consumer of its
// own.
func (h *hub) refusedShared(reported error) bool {
	if h.alone {
		return violation(reported, h.refused...) != nil
	}
	var shared []*feed
	var subjects []string
	for f := range h.consumers {
		if f.names == nil {
			continue
		}
		shared = append(shared, f)
		if f.name != "" {
			subjects = append(subjects, h.s.consumerSubject()+f.name)
		}
	}
	if violation(reported, subjects...) == nil {
		return false
	}
	h.alone, h.refused = true, subjects
	for _, f := range shared {
		h.split(f)
	}
	h.nudge()
	return true
}

// split ends a shared feed. Its keys get feeds of their own.
func (h *hub) split(f *feed) {
	var freed []*register
	for r := range h.served(f) {
		freed = append(freed, r)
	}
	h.unsubscribe(f)
	for _, r := range freed {
		if err := h.feed(r); err != nil { // of the connection, whose return brings all feeds
			h.lastErr = err
		}
		h.toRead(r)
	}
}

// pollEvery is how often a key is read whose consumer does not stand.
func (h *hub) pollEvery() time.Duration {
	return max(retryMost, time.Duration(len(h.registers))*time.Second/pollMost)
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
	f.owesFrom = time.Time{}
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
	for r := range h.served(f) {
		h.presentShown(r, f)
	}
}

// owes notes that a read has shown a write of which the feed has not told. A
// message of the consumer may be on its way; if none comes, the consumer is
// lost.
func (f *feed) owes() {
	if f != nil && f.standing && f.owesFrom.IsZero() {
		f.owesFrom = time.Now()
	}
}

// down gives a consumer up; work makes another. Its keys are read until that
// stands.
func (h *hub) down(f *feed) {
	f.standing, f.making, f.renaming, f.probing = false, false, false, false
	f.nextTry, f.owesFrom = time.Time{}, time.Time{}
	soon := time.Now().Add(retryMost)
	for r := range h.served(f) {
		h.missed(r)
		if f.wide { // the next consumer is there sooner than the answers to so many reads
			r.nextRead, r.spare = soon, true
		}
	}
	for _, v := range f.views {
		v.repeat = true
	}
}

// tend makes the feed's consumer if there is none, and notices when it is lost.
func (h *hub) tend(f *feed, now time.Time, due func(time.Time)) {
	switch {
	case f.making:
		if f.names != nil && !h.refusedShared(h.s.nc.LastError()) {
			due(now.Add(attention))
		}
	case !f.standing && now.Before(f.nextTry):
		due(f.nextTry)
	case !f.standing:
		h.make(f, now)
	case f.names != nil && f.names.changed && f.caughtUp && !f.renaming:
		h.rename(f, now, due)
	default:
		h.listenFor(f, now, due)
	}
}

// listenFor notices when a consumer that stands is lost.
func (h *hub) listenFor(f *feed, now time.Time, due func(time.Time)) {
	silent, owes := f.heardAt.Add(maxSilence), f.owesFrom.Add(maxDebt)
	switch {
	case f.probing || f.renaming: // which has a deadline
	case !f.owesFrom.IsZero() && now.After(owes):
		if !h.waiting(f) {
			h.down(f)
			h.make(f, now)
		}
	case now.After(silent):
		if !h.waiting(f) { // else its heartbeats may just be waiting for us
			h.probe(f, now)
		}
	case !f.owesFrom.IsZero():
		due(owes.Add(time.Millisecond))
	default:
		due(silent.Add(time.Millisecond))
	}
}

// probe asks the server for anything. A consumer that is not heard before the
// answer is lost.
func (h *hub) probe(f *feed, now time.Time) {
	f.probing = true
	heard := f.heardAt
	h.ask(now.Add(readTimeout), h.probeSubject(f), nil, func(*nats.Msg) {
		if f.probing && f.heardAt.Equal(heard) && !h.waiting(f) {
			h.down(f)
		}
		f.probing = false
	})
}

// probeSubject is that of a request which the user may make, if there is one.
func (h *hub) probeSubject(f *feed) string {
	for r := range h.served(f) {
		return h.s.directSubject(r.key)
	}
	return h.s.infoSubject()
}

// consumerRequest is the body of a CONSUMER.CREATE request.
type consumerRequest struct {
	Stream string                   `json:"stream_name"`
	Config jetstream.ConsumerConfig `json:"config"`
	Action string                   `json:"action"`
}

// askConsumer asks the server to make or to change the feed's consumer. The
// subject names the key or the pattern, on which the server checks the user's
// permission. It cannot name several keys.
func (h *hub) askConsumer(f *feed, action string, keys []string, now time.Time, done func(*nats.Msg)) {
	config := jetstream.ConsumerConfig{
		Name:              f.name,
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy:         jetstream.AckNonePolicy,
		MaxDeliver:        1,
		Replicas:          1,
		MemoryStorage:     true,
		InactiveThreshold: abandonAfter,
		DeliverSubject:    f.sub.Subject,
		IdleHeartbeat:     heartbeat,
	}
	subject := h.s.consumerSubject() + f.name
	if f.names == nil {
		config.FilterSubject = h.s.stored + f.filter
		subject += "." + config.FilterSubject
	}
	for _, key := range keys {
		config.FilterSubjects = append(config.FilterSubjects, h.s.stored+key)
	}
	sub := f.sub
	body := mustJSON(consumerRequest{Stream: h.s.stream, Action: action, Config: config})
	h.ask(now.Add(makeTimeout), subject, body, func(m *nats.Msg) {
		if f.sub == sub && h.feeds[sub] == f {
			done(m)
		}
	})
}

// make asks for a consumer that begins with the last record of each key. It
// delivers to a new inbox, so that nothing of its predecessor, which the server
// removes by itself, is taken for its own.
func (h *hub) make(f *feed, now time.Time) {
	if err := h.listen(f, h.s.nc.NewInbox()); err != nil {
		h.lastErr = err
		h.postpone(f)
		return
	}
	f.name = rand.Text()
	f.making, f.delivery, f.caughtUp = true, 0, false
	f.round++
	for _, v := range f.views {
		v.begin()
	}
	var keys []string
	if f.names != nil {
		keys = f.names.keys()
	}
	h.askConsumer(f, "create", keys, now, func(m *nats.Msg) { h.made(f, keys, m) })
}

// made handles the answer to make.
func (h *hub) made(f *feed, keys []string, m *nats.Msg) {
	f.making = false
	var info jetstream.ConsumerInfo
	if err := consumerReply(m, &info); err != nil {
		h.lastErr = fmt.Errorf("making a consumer: %w", err)
		h.postpone(f)
		h.unread(f.reads)
		return
	}
	now := time.Now()
	f.standing, f.attempts, f.heardAt = true, 0, now
	f.nextTry = now.Add(renameEvery)
	f.present = info.Delivered.Consumer + info.NumPending
	if f.names != nil {
		f.names.confirm(keys)
	}
	if f.delivery >= f.present {
		h.caughtUp(f)
	}
}

// errNoAnswer: the server has not answered a request in time.
var errNoAnswer = errors.New("no answer")

// consumerReply decodes the answer to a request for a consumer.
func consumerReply(m *nats.Msg, info *jetstream.ConsumerInfo) error {
	if m == nil {
		return errNoAnswer
	}
	return apiReply(m, info)
}

// rename tells the server which keys the consumer is to deliver now. It goes on
// with those that stay, and begins with what is written to the others from then
// on.
func (h *hub) rename(f *feed, now time.Time, due func(time.Time)) {
	if now.Before(f.nextTry) {
		due(f.nextTry)
		h.listenFor(f, now, due)
		return
	}
	f.nextTry = now.Add(renameEvery)
	f.renaming = true
	keys := f.names.keys()
	h.askConsumer(f, "update", keys, now, func(m *nats.Msg) { h.renamed(f, keys, m) })
}

// renamed handles the answer to rename. A consumer of which nobody knows which
// keys it names is given up.
func (h *hub) renamed(f *feed, keys []string, m *nats.Msg) {
	f.renaming = false
	var info jetstream.ConsumerInfo
	if err := consumerReply(m, &info); err != nil {
		h.lastErr = fmt.Errorf("changing a consumer: %w", err)
		h.down(f)
		h.postpone(f)
		return
	}
	for _, key := range f.names.confirm(keys) {
		if r := h.registers[key]; r != nil && r.feed == f {
			// A read before the consumer named the key may have missed a write.
			r.nextRead = time.Time{}
			h.toRead(r)
		}
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
