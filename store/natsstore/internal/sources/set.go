// Package sources brings the writes to keys: by subscriptions to republished
// records, or by consumers where the bucket does not republish.
//
// A [Set] decides which source serves which key, and keeps the consumers alive.
// It hands what they bring to the [Keys] and the [Viewer] that it was given,
// and knows nothing of what those make of it.
package sources

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// An Owner does for a set of sources what takes a connection.
type Owner interface {
	// Subscribe has messages come to Receive. Wide is for subjects that may
	// bring any number of messages at once, and costs a goroutine.
	Subscribe(subject string, wide bool) (*nats.Subscription, error)
	// NewInbox returns a subject that nobody else uses.
	NewInbox() string
	// Ask sends a request. Its answer goes to done, or nil after the deadline.
	Ask(deadline time.Time, subject string, body []byte, done func(*nats.Msg))
	// Refused asks the server whether the user may subscribe, and calls done
	// with the denial, or with nil.
	Refused(subject string, done func(denied error))
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

// Keys take what sources bring of single keys.
type Keys interface {
	// Heard takes a write.
	Heard(e store.Entry)
	// Shown takes an entry of the current state, which a consumer delivers
	// first. The number identifies the consumer.
	Shown(e store.Entry, consumer uint64)
	// Complete reports that the consumer has shown the current state.
	Complete(key string, consumer uint64)
	// Lost reports that the consumer of the key, and of others if it is shared,
	// is lost. Another will follow.
	Lost(key string, shared bool)
	// Read requests a read of the key, because it has another source.
	Read(key string) (watched bool)
	// ReadNow is Read at once: an earlier read may have missed a write.
	ReadNow(key string)
}

// A Viewer takes all that a source brings of the keys that match a pattern.
type Viewer interface {
	// Pattern is what the keys match.
	Pattern() string
	// Begin reports that a new consumer will show the current state.
	Begin()
	// Bring takes an entry: part of the current state, or a write.
	Bring(e store.Entry, present bool)
	// Complete reports that the current state is complete.
	Complete()
	// Lost reports that the consumer is lost. Another will follow.
	Lost()
	// Failed reports that the consumer could not be made. Another attempt
	// follows.
	Failed()
	// Closed reports that the source has ended.
	Closed()
	// Taken reports that the server took the source away. It is asked for
	// again.
	Taken()
	// Resumed reports that the source is back, and may have been away: the
	// viewer must read the writes that it missed meanwhile.
	Resumed()
}

// Config configures how a set watches.
type Config struct {
	Names wire.Names
	// Whole has one source bring all keys of the bucket.
	Whole bool
}

// A Set holds the sources of a bucket. It is not safe for concurrent use: its
// owner guards it.
type Set struct {
	Config

	owner       Owner
	keys        Keys
	republished string // prefix of the subjects of republished records; empty: consumers

	byKey     map[string]*Source
	bySub     map[*nats.Subscription]*Source
	consumers map[*Source]struct{} // the sources by consumers
	rounds    uint64               // consumers made so far
	whole     *Source              // serves all keys, if the configuration requests it
	alone     bool                 // the user may not make a consumer of several keys

}

// NewSet returns a set without sources.
func NewSet(config Config, owner Owner) *Set {
	return &Set{
		Config: config, owner: owner,
		byKey: make(map[string]*Source), bySub: make(map[*nats.Subscription]*Source), consumers: make(map[*Source]struct{}),
	}
}

// Serve names who takes what the sources bring of single keys. It is called
// once, before the first source.
func (s *Set) Serve(keys Keys) { s.keys = keys }

// Republished sets the subjects on which the bucket republishes its records.
// Existing sources stay as they are until [Set.Reopen].
func (s *Set) Republished(prefix string) { s.republished = prefix }

// A Source brings the writes to one key, to several that it names, or to all
// that match a pattern.
type Source struct {
	filter   string     // the key or the pattern; empty if the source has names
	names    *filterSet // the keys that its consumer names, or nil
	wide     bool       // it may bring any number of messages at once
	sub      *nats.Subscription
	prefix   string          // of the subjects of its messages, before the key
	consumer bool            // by a consumer, which must be made; else by republished records
	viewers  []Viewer        // replaced when changed, so that it may be ranged over
	before   error           // what the connection had reported before it was asked for
	taken    error           // why the server took it away; nil: it did not
	doubtAt  time.Time       // when it may be asked for again
	answers  func(*nats.Msg) // takes all messages, of a source that is an inbox

	consumption // of a consumer
}

// Consumer reports whether the source is a consumer.
func (f *Source) Consumer() bool { return f.consumer }

// Standing reports whether the source is heard, as far as anyone knows: its
// consumer was made, or its subscription was not taken away.
func (f *Source) Standing() bool { return f.standing || !f.consumer && f.taken == nil }

// Taken returns why the server took the source's subscription away, or nil.
func (f *Source) Taken() error { return f.taken }

// Subject is where the source listens.
func (f *Source) Subject() string { return f.sub.Subject }

// Add gives a key a source, unless it has one.
func (s *Set) Add(key string) (err error) {
	f := s.byKey[key]
	switch {
	case f != nil:
		return nil
	case s.shares():
		f, err = s.shared(key)
	default:
		f, err = s.open(&Source{filter: key})
	}
	if err == nil {
		s.byKey[key] = f
	}
	return err
}

// Remove ends the key's part in its source.
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

// Brings reports whether the key's writes are brought, as far as anyone knows.
func (s *Set) Brings(key string) bool {
	f := s.byKey[key]
	return f != nil && f.Standing() && (f.names == nil || f.names.named[key])
}

// Shared reports whether the key's source is a consumer of several keys.
func (s *Set) Shared(key string) bool {
	f := s.byKey[key]
	return f != nil && f.names != nil
}

// RightFor is [Set.Right] of the key's source.
func (s *Set) RightFor(key string) (act wire.Act, subject string) { return s.Right(s.byKey[key]) }

// Right returns what the user must be allowed to do for the source to bring
// anything.
func (s *Set) Right(f *Source) (act wire.Act, subject string) {
	switch {
	case f == nil:
		return wire.Subscribe, s.owner.NewInbox()
	case f.names != nil:
		return wire.Publish, s.Names.Consumers() + cmp.Or(f.name, wire.AnyName)
	case f.consumer:
		return wire.Publish, s.Names.Consumer(f.filter)
	default:
		return wire.Subscribe, f.Subject()
	}
}

// Lossy reports whether writes may be lost although they are brought: a
// subscription travels to a cluster's other servers by itself.
func (s *Set) Lossy(key string) bool {
	f := s.byKey[key]
	return f != nil && !f.consumer && s.owner.Clustered()
}

// Traceless reports whether writes may be lost without a trace for as long as
// the source exists: republished records are ordinary messages, which the
// server neither keeps nor numbers.
func (s *Set) Traceless(key string) bool {
	f := s.byKey[key]
	return f != nil && !f.consumer
}

// Owes notes that a read showed a write of the key which its source has not
// brought.
func (s *Set) Owes(key string) {
	if f := s.byKey[key]; f != nil {
		f.owes(time.Now())
	}
}

// Open returns a source that brings what matches the viewer's pattern. It may
// bring other keys, too, and serve others.
func (s *Set) Open(v Viewer) (*Source, error) {
	f, err := s.open(&Source{filter: v.Pattern(), wide: true})
	if err != nil {
		return nil, err
	}
	f.viewers = append(slices.Clone(f.viewers), v)
	return f, nil
}

// Show makes a consumer that shows the current state of the keys that match the
// viewer's pattern. It serves the viewer alone.
func (s *Set) Show(v Viewer, now time.Time) (*Source, error) {
	f := &Source{filter: v.Pattern(), wide: true, prefix: s.Names.Stored, consumer: true}
	if err := s.create(f, now); err != nil {
		return nil, err
	}
	f.viewers = []Viewer{v} // not before create, since the viewer needs no Begin
	return f, nil
}

// Inbox returns a source whose messages go to answers. The viewer hears of its
// end only.
func (s *Set) Inbox(v Viewer, answers func(*nats.Msg)) (*Source, error) {
	f := &Source{wide: true, viewers: []Viewer{v}, answers: answers}
	if err := s.listen(f, s.owner.NewInbox()); err != nil {
		return nil, err
	}
	return f, nil
}

// Close ends the viewer's part in a source, and the source if it serves nobody
// else.
func (s *Set) Close(f *Source, v Viewer) {
	f.viewers = slices.DeleteFunc(slices.Clone(f.viewers), func(x Viewer) bool { return x == v })
	if f != s.whole {
		s.close(f)
	}
}

// Reopen replaces the sources of all keys, because the bucket republishes
// elsewhere now, or no longer. Viewers learn that their sources ended, and open
// others.
func (s *Set) Reopen() {
	for _, f := range s.bySub {
		s.close(f)
	}
	s.whole = nil
}

// Unsubscribe ends all sources permanently. It reports this to no keys or
// viewers.
func (s *Set) Unsubscribe() {
	for sub := range s.bySub {
		_ = sub.Unsubscribe() // fails only if the connection is gone, and the subscription with it
	}
}

// open begins to listen, or returns the whole bucket's source instead if the
// configuration requests it.
func (s *Set) open(f *Source) (*Source, error) {
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

// listen subscribes the source to a subject, instead of to the one before.
func (s *Set) listen(f *Source, subject string) error {
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

func (s *Set) close(f *Source) {
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

func (s *Set) served(f *Source) iter.Seq[string] {
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

// Receive handles a message, and reports whether it is one of a source's.
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

func (s *Set) brought(f *Source, e store.Entry) {
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
