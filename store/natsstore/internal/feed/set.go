// Package feed brings the writes to keys: by subscriptions to republished
// records, or by consumers where the bucket does not republish.
//
// A [Set] decides which feed serves which key, and keeps the consumers alive.
// It hands what they bring to the [Keys] and the [Viewer] that it was given,
// and knows nothing of what those make of it.
package feed

import (
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// An Owner does for a set of feeds what takes a connection.
type Owner interface {
	// Subscribe has messages come to Receive. Wide is for subjects that may
	// bring any number of messages at once, and costs a goroutine.
	Subscribe(subject string, wide bool) (*nats.Subscription, error)
	// NewInbox returns a subject that nobody else uses.
	NewInbox() string
	// Ask sends a request. Its answer goes to done, or nil after the deadline.
	Ask(deadline time.Time, subject string, body []byte, done func(*nats.Msg))
	// AskInVain publishes a request that has no effect, and ListenInVain
	// subscribes for a moment: a server denies what it would deny.
	AskInVain(subject string)
	ListenInVain(subject string)
	// Ping has done called when the server has handled all that was sent
	// before, or, not ok, when it has not said so in time.
	Ping(done func(ok bool))
	// Waiting reports whether messages wait for Receive.
	Waiting() bool
	// Clustered reports whether the servers are several.
	Clustered() bool
	// LastError is what the connection reported last.
	LastError() error
	// Report notes a failure that a later attempt may clear.
	Report(err error)
	// Nudge has Work called soon.
	Nudge()
}

// Keys take what feeds bring of single keys.
type Keys interface {
	// Heard takes a write.
	Heard(e store.Entry)
	// Shown takes part of the present state, with which a consumer begins.
	// Consumers differ by their number.
	Shown(e store.Entry, consumer uint64)
	// Complete says that the consumer has shown the present state.
	Complete(key string, consumer uint64)
	// Lost says that the consumer of the key, and of others if it is shared, is
	// lost. Another will follow.
	Lost(key string, shared bool)
	// Read says that the key is to be read, for it has another feed.
	Read(key string) (watched bool)
	// ReadNow is Read at once: an earlier read may have missed a write.
	ReadNow(key string)
}

// A Viewer takes all that a feed brings of the keys that match a pattern.
type Viewer interface {
	// Pattern is what the keys match.
	Pattern() string
	// Begin says that a new consumer will show the present state.
	Begin()
	// Bring takes an entry: part of the present state, or a write.
	Bring(e store.Entry, present bool)
	// Complete says that the present state is complete.
	Complete()
	// Lost says that the consumer is lost. Another will follow.
	Lost()
	// Failed says that the consumer could not be made. Another attempt follows.
	Failed()
	// Closed says that the feed has ended.
	Closed()
	// Taken says that the server took the feed away. It is asked for again.
	Taken()
	// Resumed says that the feed stands, and may have been away: what was
	// written meanwhile is to be read.
	Resumed()
}

// Config says how a set watches.
type Config struct {
	Names wire.Names
	// Whole has one feed bring all keys of the bucket.
	Whole bool
}

// A Set holds the feeds of a bucket. It is not safe for concurrent use: its
// owner guards it.
type Set struct {
	Config

	owner       Owner
	keys        Keys
	republished string // prefix of the subjects of republished records; empty: consumers

	byKey     map[string]*Feed
	bySub     map[*nats.Subscription]*Feed
	consumers map[*Feed]struct{} // the feeds by consumers
	rounds    uint64             // consumers made so far
	permitted bool               // one of them was heard, or was asked for and not denied
	whole     *Feed              // serves all keys, if the configuration says so
	alone     bool               // the user may not make a consumer of several keys,
	refused   []string           // which was refused on these subjects

	doubt    doubt     // whether subscriptions were taken away
	nextLook time.Time // not before
	retryAt  time.Time // when to ask for what was taken; zero: nothing was
	retries  []*Feed   // to be asked for again, one after the other,
	trying   bool      // as one is being
}

// NewSet returns a set without feeds.
func NewSet(config Config, owner Owner) *Set {
	return &Set{
		Config: config, owner: owner,
		byKey: make(map[string]*Feed), bySub: make(map[*nats.Subscription]*Feed), consumers: make(map[*Feed]struct{}),
		doubt: doubt{reported: owner.LastError()},
	}
}

// Serve names who takes what the feeds bring of single keys. It is called once,
// before the first feed.
func (s *Set) Serve(keys Keys) { s.keys = keys }

// Republished says where the bucket republishes its records. Feeds that are
// there already stay as they are until [Set.Reopen].
func (s *Set) Republished(prefix string) { s.republished = prefix }

// A Feed brings the writes to one key, to several that it names, or to all that
// match a pattern.
type Feed struct {
	filter   string     // the key or the pattern; empty if the feed has names
	names    *filterSet // the keys that its consumer names, or nil
	wide     bool       // it may bring any number of messages at once
	sub      *nats.Subscription
	prefix   string   // of the subjects of its messages, before the key
	consumer bool     // by a consumer, which must be made; else by republished records
	viewers  []Viewer // replaced when changed, so that it may be ranged over
	before   error    // what the connection had reported before it was asked for
	taken    error    // why the server took it away; nil: it did not
	// undecided is how often it was asked for again, and something else hid
	// what came of that.
	undecided int
	answers   func(*nats.Msg) // takes all messages, of a feed that is an inbox

	consumption // of a consumer
}

// Consumer reports whether the feed is a consumer.
func (f *Feed) Consumer() bool { return f.consumer }

// Standing reports whether the feed is heard, as far as anyone knows: its
// consumer was made, or its subscription was not taken away.
func (f *Feed) Standing() bool { return f.standing || !f.consumer && f.taken == nil }

// Taken returns why the server took the feed's subscription away, or nil.
func (f *Feed) Taken() error { return f.taken }

// Subject is where the feed listens.
func (f *Feed) Subject() string { return f.sub.Subject }

// Add gives a key a feed, unless it has one.
func (s *Set) Add(key string) (err error) {
	f := s.byKey[key]
	switch {
	case f != nil:
		return nil
	case s.shares():
		f, err = s.shared(key)
	default:
		f, err = s.open(&Feed{filter: key})
	}
	if err == nil {
		s.byKey[key] = f
	}
	return err
}

// Remove ends the key's part in its feed.
func (s *Set) Remove(key string) {
	f := s.byKey[key]
	delete(s.byKey, key)
	switch {
	case f == nil || f == s.whole:
	case f.names != nil:
		if f.names.drop(key) {
			s.close(f)
		}
	default:
		s.close(f)
	}
}

// Subject is where the key's feed listens, or "" if it has none.
func (s *Set) Subject(key string) string {
	if f := s.byKey[key]; f != nil {
		return f.Subject()
	}
	return ""
}

// Brings reports whether the key's writes are brought, as far as anyone knows.
func (s *Set) Brings(key string) bool {
	f := s.byKey[key]
	return f != nil && f.Standing() && (f.names == nil || f.names.named[key])
}

// MayConsume reports whether the user may make consumers, as one that was heard
// has shown, or a call of Permitted has said.
func (s *Set) MayConsume() bool { return s.permitted }

// Permitted says that a consumer was asked for, and that this was not denied.
func (s *Set) Permitted() { s.permitted = true }

// Asked reports whether the key's consumer was asked for. A key that needs none
// counts as one whose was.
func (s *Set) Asked(key string) bool {
	f := s.byKey[key]
	return f != nil && f.Asked()
}

// Asked reports whether the feed's consumer was asked for, if it needs one.
func (f *Feed) Asked() bool { return !f.consumer || f.making || f.standing }

// Lossy reports whether writes may be lost although they are brought: a
// subscription travels to a cluster's other servers by itself.
func (s *Set) Lossy(key string) bool {
	f := s.byKey[key]
	return f != nil && !f.consumer && s.owner.Clustered()
}

// Traceless reports whether writes may be lost without a trace for as long as
// the feed stands: republished records are messages like any other, which
// nobody keeps or numbers.
func (s *Set) Traceless(key string) bool {
	f := s.byKey[key]
	return f != nil && !f.consumer
}

// Owes notes that a read showed a write of the key which its feed has not
// brought.
func (s *Set) Owes(key string) {
	if f := s.byKey[key]; f != nil {
		f.owes(time.Now())
	}
}

// Open returns a feed that brings what matches the viewer's pattern. It may
// bring other keys, too, and serve others.
func (s *Set) Open(v Viewer) (*Feed, error) {
	f, err := s.open(&Feed{filter: v.Pattern(), wide: true})
	if err != nil {
		return nil, err
	}
	f.viewers = append(slices.Clone(f.viewers), v)
	return f, nil
}

// Show has a consumer made that shows the present state of what matches the
// viewer's pattern. It is there for the viewer alone.
func (s *Set) Show(v Viewer, now time.Time) (*Feed, error) {
	f := &Feed{filter: v.Pattern(), wide: true, prefix: s.Names.Stored, consumer: true}
	if err := s.create(f, now); err != nil {
		return nil, err
	}
	f.viewers = []Viewer{v} // from now on, for it has begun by itself
	return f, nil
}

// Inbox returns a feed whose messages go to answers. The viewer hears of its
// end only.
func (s *Set) Inbox(v Viewer, answers func(*nats.Msg)) (*Feed, error) {
	f := &Feed{wide: true, viewers: []Viewer{v}, answers: answers}
	if err := s.listen(f, s.owner.NewInbox()); err != nil {
		return nil, err
	}
	return f, nil
}

// Close ends the viewer's part in a feed, and the feed if it serves nobody
// else.
func (s *Set) Close(f *Feed, v Viewer) {
	f.viewers = slices.DeleteFunc(slices.Clone(f.viewers), func(x Viewer) bool { return x == v })
	if f != s.whole {
		s.close(f)
	}
}

// Reopen replaces the feeds of all keys, for the bucket republishes elsewhere
// now, or no longer. Viewers hear of the end of theirs, and open others.
func (s *Set) Reopen() {
	for _, f := range s.bySub {
		s.close(f)
	}
	s.whole = nil
}

// Unsubscribe ends all feeds for good. Nobody hears of it.
func (s *Set) Unsubscribe() {
	for sub := range s.bySub {
		_ = sub.Unsubscribe() // fails only if the connection is gone, and the subscription with it
	}
}

// open begins to listen, or returns the whole bucket's feed instead where the
// configuration says so.
func (s *Set) open(f *Feed) (*Feed, error) {
	if s.Whole {
		if s.whole != nil {
			return s.whole, nil
		}
		f.filter, f.wide = ">", true
	}
	f.prefix = s.republished
	subject := f.prefix + f.filter
	if f.prefix == "" {
		// Its messages have the subjects of the records, whatever it listens
		// to.
		f.consumer, f.prefix, subject = true, s.Names.Stored, s.owner.NewInbox()
	}
	if err := s.listen(f, subject); err != nil {
		return nil, err
	}
	if s.Whole {
		s.whole = f
	}
	return f, nil
}

// listen subscribes the feed to a subject, instead of to the one before.
func (s *Set) listen(f *Feed, subject string) error {
	before := s.owner.LastError()
	sub, err := s.owner.Subscribe(subject, f.wide)
	if err != nil {
		return err
	}
	if f.sub != nil {
		_ = f.sub.Unsubscribe()
		delete(s.bySub, f.sub)
	}
	f.sub, f.before = sub, before
	s.bySub[sub] = f
	if f.consumer {
		s.consumers[f] = struct{}{}
	}
	return nil
}

func (s *Set) close(f *Feed) {
	if f.sub != nil {
		_ = f.sub.Unsubscribe()
		delete(s.bySub, f.sub)
	}
	delete(s.consumers, f)
	for key := range s.served(f) {
		delete(s.byKey, key)
	}
	for _, v := range f.viewers {
		v.Closed()
	}
}

func (s *Set) served(f *Feed) iter.Seq[string] {
	return func(yield func(string) bool) {
		if f.names != nil {
			for key := range f.names.wanted {
				if s.byKey[key] == f && !yield(key) {
					return
				}
			}
			return
		}
		if !store.Wild(f.filter) {
			if s.byKey[f.filter] == f {
				yield(f.filter)
			}
			return
		}
		for key, by := range s.byKey {
			if by == f && !yield(key) {
				return
			}
		}
	}
}

// Receive handles a message, and reports whether it is one of a feed's.
func (s *Set) Receive(m *nats.Msg) bool {
	f := s.bySub[m.Sub]
	switch {
	case f == nil:
		return false
	case f.consumer:
		s.consumed(f, m)
	case f.answers != nil:
		f.answers(m)
	default:
		if e, ok := s.Names.Republication(f.prefix, m); ok {
			s.brought(f, e)
		}
	}
	return true
}

func (s *Set) brought(f *Feed, e store.Entry) {
	present := f.consumer && !f.caughtUp
	switch {
	case s.byKey[e.Key] != f:
	case present:
		s.keys.Shown(e, f.round)
	default:
		s.keys.Heard(e)
	}
	for _, v := range f.viewers {
		if store.MatchPattern(v.Pattern(), e.Key) {
			v.Bring(e, present)
		}
	}
}
