package sources

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

const (
	// makeTimeout is when a request for a consumer counts as lost. Making one
	// takes an agreement of the servers; many at once take their time.
	makeTimeout = 5 * time.Second
	// probeTimeout is when a probe counts as unanswered.
	probeTimeout = time.Second
	// abandonAfter is when the server removes a consumer to which nobody
	// listens.
	abandonAfter = 5 * time.Second
)

// Work makes the consumers that are missing, notices which sources are lost,
// and asks for them again. It reports to due when it has to be called again.
func (s *Set) Work(now time.Time, due func(time.Time)) {
	for f := range s.consumers { // not all sources: there may be thousands, and this follows each message
		s.tend(f, now, due)
	}
}

// Interrupted notes that the connection was lost: consumers may be gone, and
// what they delivered meanwhile is lost.
func (s *Set) Interrupted() {
	for f := range s.consumers {
		s.Lose(f)
	}
	// The client library subscribes again, and all is read.
	for _, f := range s.bySub {
		f.taken = nil
	}
}

// Lose gives a consumer up. Work makes another.
func (s *Set) Lose(f *Source) {
	f.lose()
	for key := range s.served(f) {
		s.keys.Lost(key, f.wide)
	}
	for _, v := range f.viewers {
		v.Lost()
	}
}

// tend makes the source's consumer if there is none, and notices when it is
// lost.
func (s *Set) tend(f *Source, now time.Time, due func(time.Time)) {
	what, until := f.next(now, f.names != nil && f.names.changed)
	switch what {
	case wait:
		if !until.IsZero() {
			due(until)
		}
	case create:
		s.createOrPostpone(f, now)
	case rename:
		s.rename(f, now)
	case giveUp:
		if !s.waiting(f) { // else what it owes may just be waiting for us
			s.Lose(f)
			s.createOrPostpone(f, now)
		}
	case probe:
		if !s.waiting(f) { // else its heartbeats may just be waiting for us
			s.probe(f, now)
		}
	}
}

// waiting reports whether messages of the source may wait to be received.
func (s *Set) waiting(f *Source) bool {
	n, _, err := f.sub.Pending()
	return s.owner.Waiting() || f.wide && err == nil && n > 0
}

// probe asks the server for anything. A consumer that is not heard before the
// answer is lost.
func (s *Set) probe(f *Source, now time.Time) {
	f.probing = true
	heard, sub := f.heardAt, f.sub
	s.owner.Ask(now.Add(probeTimeout), s.probeSubject(f), nil, func(*nats.Msg) {
		// Of a source that was closed meanwhile the viewers have another.
		if f.probing && f.heardAt.Equal(heard) && s.bySub[sub] == f && !s.waiting(f) {
			s.Lose(f)
		}
		f.probing = false
	})
}

// probeSubject returns the subject of a request that the user may make, if
// there is one.
func (s *Set) probeSubject(f *Source) string {
	for key := range s.served(f) {
		return s.Names.Direct(key)
	}
	return s.Names.Info()
}

// consumed handles a message of a consumer: a heartbeat or a record.
func (s *Set) consumed(f *Source, m *nats.Msg) {
	f.heardAt = time.Now()
	if m.Reply == "" { // every record has one, though it is not to be acknowledged
		s.heartbeat(f, m)
		return
	}
	md, err := m.Metadata()
	if err != nil {
		return
	}
	if !f.deliver(md.Sequence.Consumer) {
		s.Lose(f)
		return
	}
	s.brought(f, wire.Consumed(strings.TrimPrefix(m.Subject, f.prefix), md.Sequence.Stream, m))
	if s.bySub[m.Sub] == f && f.shown(md.NumPending) {
		s.caughtUp(f)
	}
}

func (s *Set) heartbeat(f *Source, m *nats.Msg) {
	last, err := strconv.ParseUint(m.Header.Get(wire.HeaderLastConsumer), 10, 64)
	switch {
	case m.Header.Get(wire.HeaderStatus) != wire.StatusHeartbeat || err != nil:
	case last != f.delivery:
		s.Lose(f)
	case f.standing:
		s.caughtUp(f) // the server is idle: nothing is left to deliver
	}
}

func (s *Set) caughtUp(f *Source) {
	if f.caughtUp {
		return
	}
	f.caughtUp = true
	for _, v := range f.viewers {
		v.Complete()
	}
	for key := range s.served(f) {
		s.keys.Complete(key, f.round)
	}
}

// createOrPostpone makes a consumer, or puts that off if it cannot be asked
// for.
func (s *Set) createOrPostpone(f *Source, now time.Time) {
	if err := s.create(f, now); err != nil {
		s.owner.Report(err)
		f.postpone(now)
	}
}

// create asks for a consumer that begins with the last record of each key. It
// delivers to a new inbox, so that nothing of its predecessor, which the server
// removes by itself, is taken for its own.
func (s *Set) create(f *Source, now time.Time) error {
	if err := s.listen(f, s.owner.NewInbox()); err != nil {
		return err
	}
	s.rounds++
	f.begin(rand.Text(), s.rounds)
	for _, v := range f.viewers {
		v.Begin()
	}
	var keys []string
	if f.names != nil {
		keys = f.names.keys()
	}
	s.ask(f, "create", keys, now, func(m *nats.Msg) { s.created(f, keys, m) })
	return nil
}

func (s *Set) created(f *Source, keys []string, m *nats.Msg) {
	now := time.Now()
	var info jetstream.ConsumerInfo
	if err := consumerAnswer(m, &info); err != nil {
		if f.names != nil && s.RefusedShared(s.owner.LastError()) {
			return
		}
		s.owner.Report(fmt.Errorf("making a consumer: %w", err))
		f.postpone(now)
		for _, v := range f.viewers {
			v.Failed()
		}
		return
	}
	f.stand(info.Delivered.Consumer+info.NumPending, now)
	if f.names != nil {
		f.names.confirm(keys)
	}
	if f.delivery >= f.present {
		s.caughtUp(f)
	}
}

// rename updates the keys that the consumer delivers. It continues with the
// keys that stay, and delivers writes to the new keys from then on.
func (s *Set) rename(f *Source, now time.Time) {
	f.nextTry = now.Add(renameEvery)
	f.renaming = true
	keys := f.names.keys()
	s.ask(f, "update", keys, now, func(m *nats.Msg) { s.renamed(f, keys, m) })
}

// renamed handles the answer to rename. A consumer of which nobody knows which
// keys it names is given up.
func (s *Set) renamed(f *Source, keys []string, m *nats.Msg) {
	f.renaming = false
	var info jetstream.ConsumerInfo
	if err := consumerAnswer(m, &info); err != nil {
		s.owner.Report(fmt.Errorf("changing a consumer: %w", err))
		s.Lose(f)
		f.postpone(time.Now())
		return
	}
	for _, key := range f.names.confirm(keys) {
		if s.byKey[key] == f {
			// A read before the consumer named the key may have missed a write.
			s.keys.ReadNow(key)
		}
	}
}

type consumerRequest struct {
	Stream string                   `json:"stream_name"`
	Config jetstream.ConsumerConfig `json:"config"`
	Action string                   `json:"action"`
}

// ask asks the server to make or to change the source's consumer. The subject
// names the key or the pattern, on which the server checks the user's
// permission. It cannot name several keys.
func (s *Set) ask(f *Source, action string, keys []string, now time.Time, done func(*nats.Msg)) {
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
	subject := s.Names.Consumers() + f.name
	if f.names == nil {
		config.FilterSubject = s.Names.Stored + f.filter
		subject += "." + config.FilterSubject
	}
	for _, key := range keys {
		config.FilterSubjects = append(config.FilterSubjects, s.Names.Stored+key)
	}
	sub := f.sub
	body := wire.JSON(consumerRequest{Stream: s.Names.Stream, Action: action, Config: config})
	s.owner.Ask(now.Add(makeTimeout), subject, body, func(m *nats.Msg) {
		if f.sub == sub && s.bySub[sub] == f {
			done(m)
		}
	})
}

// errNoAnswer: the server has not answered a request in time.
var errNoAnswer = errors.New("no answer")

func consumerAnswer(m *nats.Msg, info *jetstream.ConsumerInfo) error {
	if m == nil {
		return errNoAnswer
	}
	return wire.Answer(m, info)
}
