// Package pattern serves those who watch all keys that match a pattern.
//
// Writes come by the view's feed, and the present state with the consumer where
// the feed is one. Else that is read: by one direct get of all keys, which the
// server grants for up to 1,024 of them (nats-server, stream.go,
// getDirectMulti), or by a consumer made for it.
package pattern

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/feed"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/retry"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

const (
	// confirmAfter is the delay before the present state is read again. It is
	// read again if a survey contradicted what is known, or if writes may have
	// been lost while the subscription travelled through the cluster.
	confirmAfter = 500 * time.Millisecond
	// readTimeout is for how long an answer may pause before it counts as lost.
	readTimeout = time.Second
	// surveyEvery is how often the present state is read where writes may be
	// lost without a trace: a route between servers that breaks for a moment
	// takes republished records with it, and the connection shows nothing of
	// that (ADR 4). Where there are many keys, it is read more rarely.
	surveyEvery = 30 * time.Second
	// surveyTaken is how often it is read where no writes are brought at all,
	// since the server took the subscription away.
	surveyTaken = time.Second
	// surveyMost is how many keys are so read in a second.
	surveyMost = 100
)

// An Owner does for a view what takes a connection.
type Owner interface {
	// Publish sends a message.
	Publish(m *nats.Msg) error
	// NoDirect reports whether the bucket refuses direct gets.
	NoDirect() bool
	// AskLeader asks the stream's leader for the state of the keys that match a
	// pattern, and calls Forget where that is another stream than the one
	// before. The answer goes to done; not ok means that there is none.
	AskLeader(pattern string, done func(state wire.State, ok bool))
	// Unanswered notes that nobody answered a request.
	Unanswered(err error)
	// Clustered reports whether the servers are several.
	Clustered() bool
	// Informed reports whether the user may ask the stream's leader, as far as
	// anyone knows.
	Informed() bool
	// LastError is what the connection reported last.
	LastError() error
	// InboxPrefix is the beginning of the subjects of answers.
	InboxPrefix() string
	// Report notes a failure that a later attempt may clear.
	Report(err error)
	// Nudge has Work called soon.
	Nudge()
	// Call calls the watch's function, without the lock that guards the view.
	Call(owner any, f func())
}

// A View is a pattern that somebody watches. It is not safe for concurrent use:
// its owner guards it.
type View struct {
	owner   Owner
	feeds   *feed.Set
	names   wire.Names
	watch   *watch.Watch
	pattern string
	present func(error)
	feed    *feed.Feed
	ledger  *ledger
	ended   bool

	repeat     bool // the next survey delivers what is known already, too
	confirm    bool // the next survey is to be confirmed
	wanted     bool // a survey is due
	begun      bool // a survey that has shown all from its beginning on
	beginning  beginning
	unreadable bool // the user may not read; only the feed tells the state
	held       bool // nothing is read until it is known that the feed is allowed
	moved      bool // the feed is another one since that was asked

	reading    *reading // reads the present state
	byConsumer bool     // direct gets do not serve
	deadline   time.Time
	nextRead   time.Time
	nextSurvey time.Time // in case that writes were lost; set by the one before
	failures   int       // to read, in a row
	copies     int       // readings in a row that a mirror answered
	forgotten  int       // how often the stream turned out to be another one
}

// New returns a view that delivers to the watch, and tells present of the end
// of each survey that repeats what is known. Start begins its service.
func New(owner Owner, feeds *feed.Set, w *watch.Watch, pattern string, present func(error)) *View {
	return &View{
		owner: owner, feeds: feeds, names: feeds.Names, watch: w, pattern: pattern, present: present,
		ledger: newLedger(), repeat: true, confirm: true,
	}
}

// Start begins to listen. Nothing is read before [View.Release].
func (v *View) Start() error {
	if err := v.Reopen(); err != nil {
		return err
	}
	v.wanted, v.held = true, true
	return nil
}

// Reopen gives the view a feed if it has none.
func (v *View) Reopen() (err error) {
	if v.feed == nil {
		v.feed, err = v.feeds.Open(v)
	}
	return err
}

// Stop ends the view.
func (v *View) Stop() {
	v.ended = true
	v.beginning.void()
	v.endReading()
	if f := v.feed; f != nil {
		v.feed = nil
		v.feeds.Close(f, v)
	}
}

// StartOver has the present state read, and delivered even if it is the known
// one: something may have been missed, or permissions have changed.
func (v *View) StartOver() {
	v.endReading()
	v.beginning.void()
	v.repeat, v.confirm, v.wanted, v.unreadable, v.byConsumer = true, true, true, false, false
	v.nextRead, v.failures = time.Time{}, 0
}

// Survey has the present state read, if the key is one of the view's. It
// reports whether it is.
func (v *View) Survey(key string) bool {
	if !store.MatchPattern(v.pattern, key) {
		return false
	}
	v.wanted = true
	return true
}

// Forget has whatever another stream shows believed.
func (v *View) Forget() {
	v.ledger.forget()
	v.forgotten++
}

// Asked reports whether what brings the writes was asked for.
func (v *View) Asked() bool { return v.feed != nil && v.feed.Asked() }

// Held reports whether nothing is read until Release.
func (v *View) Held() bool { return v.held }

// Hold notes that the feed is another one: it is to be known of that one, too,
// whether it is allowed.
func (v *View) Hold() { v.held, v.moved = true, true }

// Release has the view read, for its feed is known to be allowed. After Hold
// that has to be found out once more.
func (v *View) Release() { v.held, v.moved = v.moved, false }

// Known returns of how many keys the view knows something.
func (v *View) Known() int { return len(v.ledger.keys) }

// Pattern implements [feed.Viewer].
func (v *View) Pattern() string { return v.pattern }

// Begin implements [feed.Viewer].
func (v *View) Begin() {
	v.ledger.begin()
	v.begun, v.wanted = true, false
}

// Bring implements [feed.Viewer].
func (v *View) Bring(e store.Entry, present bool) {
	switch {
	case present:
		v.shown(e)
		return
	case v.ignores(e.Key):
		return
	}
	deliver, survey := v.ledger.heard(e)
	v.wanted = v.wanted || survey
	if deliver {
		v.deliver(e)
	}
}

func (v *View) shown(e store.Entry) {
	if !v.ignores(e.Key) && v.ledger.shown(e, v.repeat) {
		v.deliver(e)
	}
}

// ignores reports whether the key must not be delivered. A subject may contain
// characters that a key may not: its publisher would choose the name of a group
// for terminals, paths and pages.
func (v *View) ignores(key string) bool { return v.watch.Stopped() || !store.ValidKey(key) }

func (v *View) deliver(e store.Entry) {
	v.owner.Call(v.watch, func() { v.watch.Deliver(e) })
	v.arrived(e.Key)
}

// Lost implements [feed.Viewer].
func (v *View) Lost() {
	v.beginning.void()
	v.begun, v.repeat = false, true
}

// Failed implements [feed.Viewer].
func (v *View) Failed() {}

// Closed implements [feed.Viewer].
func (v *View) Closed() { v.feed = nil }

// Taken implements [feed.Viewer].
func (v *View) Taken() {
	v.wanted = true // and from now on often
	v.presented(nil)
}

// Resumed implements [feed.Viewer].
func (v *View) Resumed() { v.StartOver() }

// Complete implements [feed.Viewer]: a survey has ended. That of a consumer
// which the view joined midway, since it brings the whole bucket, is none.
func (v *View) Complete() {
	if !v.begun {
		return
	}
	v.begun = false
	v.endReading()
	v.failures, v.copies = 0, 0
	v.nextSurvey = time.Now().Add(max(v.surveyEvery(), time.Duration(v.Known())*time.Second/surveyMost))
	for _, key := range v.ledger.gone() {
		if !v.watch.Stopped() {
			v.deliver(store.Entry{Key: key})
		}
	}
	lossy := v.confirm && v.feed != nil && !v.feed.Consumer() && v.owner.Clustered()
	v.confirm = false
	if v.ledger.doubts || lossy {
		v.wanted, v.nextRead = true, time.Now().Add(confirmAfter)
	}
	if v.ledger.doubts {
		v.judge()
	}
	if v.repeat {
		v.repeat = false
		v.finish()
	}
}

// judge asks the stream's leader about the keys of which a survey showed less
// than is known. Where it does not say for a while, the surveys decide.
func (v *View) judge() {
	before := v.forgotten
	v.owner.AskLeader(v.pattern, func(state wire.State, ok bool) {
		switch {
		case v.ended || v.forgotten != before: // what is known was another stream's
		case ok:
			v.ledger.judge(state)
		default:
			v.ledger.unjudged()
		}
	})
}

func (v *View) surveyEvery() time.Duration {
	if v.feed != nil && !v.feed.Standing() {
		return surveyTaken
	}
	return surveyEvery
}

// presented says that the present state is complete, or why it cannot be known.
// Where the subscription was taken away, that is told besides: what is read
// comes late, and by many requests.
func (v *View) presented(err error) {
	if v.watch.Stopped() {
		return
	}
	if err == nil && v.feed != nil && v.feed.Taken() != nil {
		err = fmt.Errorf("%w: the server has ended the subscription to the keys %q of bucket %q: %w", store.ErrPermanent, v.pattern, v.names.Bucket, v.feed.Taken())
	}
	v.owner.Call(v.watch, func() { v.present(err) })
	v.watch.Received(v.pattern)
	v.watch.Begin()
}

// Work begins a survey if one is due. It reports to due when it has to be
// called again.
func (v *View) Work(now time.Time, due func(time.Time)) {
	v.askAgain(now, due)
	v.check(now, due)
	switch {
	case v.reading != nil && v.reading.feed.Consumer():
		// The feeds look after it.
	case v.reading != nil && now.Before(v.deadline):
		due(v.deadline)
	case v.reading != nil:
		v.unread()
		due(now)
	case !v.wanted || v.unreadable || v.held || v.feed == nil:
	case now.Before(v.nextRead):
		due(v.nextRead)
	case v.feed.Consumer():
		if v.feed.Standing() { // else one is being made
			v.feeds.Lose(v.feed) // the next one begins with the present state
			due(now)
		}
	default:
		v.read(now)
		due(now)
	}
}

// check has the present state read if that was done long ago.
func (v *View) check(now time.Time, due func(time.Time)) {
	switch {
	case v.wanted || v.reading != nil || v.unreadable || v.held || v.feed == nil || v.feed.Consumer():
	case now.Before(v.nextSurvey):
		due(v.nextSurvey)
	default:
		v.wanted = true
	}
}

// Denied returns the reported error if it keeps the view from hearing of
// writes.
func (v *View) Denied(reported error) error {
	denied := v.feeds.Denied(v.feed, reported)
	if denied == nil && v.feed != nil && v.feed.Consumer() {
		return wire.Violation(reported, wire.Subscribe, v.owner.InboxPrefix())
	}
	return denied
}

// AskAgain asks once more for what the view may have been denied, and reports
// whether it did.
func (v *View) AskAgain() bool { return v.feeds.AskAgain(v.feed) }

// Unreadable handles a reported permission whose lack keeps the view from
// reading the present state: it tries the other way, and then does without.
func (v *View) Unreadable(reported error) {
	if v.reading == nil {
		return
	}
	replies := wire.Violation(reported, wire.Subscribe, v.owner.InboxPrefix())
	byConsumer := v.reading.feed.Consumer()
	consumer := v.feeds.Denied(v.reading.feed, reported)
	switch {
	case replies != nil:
		v.renounce(fmt.Errorf("%w: %w", errNoReplies, replies))
	case byConsumer && consumer != nil:
		v.renounce(consumer)
	case !byConsumer && wire.Violation(reported, wire.Publish, v.readSubject()) != nil:
		v.unread()
		v.owner.Nudge()
	}
}

var errNoReplies = errors.New("the user may not subscribe to replies")

// renounce gives up reading what the user may not read.
func (v *View) renounce(denied error) {
	if v.unreadable {
		return
	}
	v.endReading()
	v.beginning.void()
	v.unreadable, v.repeat = true, false
	v.presented(fmt.Errorf("%w: the user may read the keys %q of bucket %q neither by a direct get nor by a consumer,"+
		" and hears of each with its next write: %w", store.ErrPermanent, v.pattern, v.names.Bucket, denied))
}

// retryLater has the next attempt to read wait for a backoff.
func (v *View) retryLater() {
	v.nextRead = time.Now().Add(retry.After(v.failures))
	v.failures++
}
