// Package pattern serves those who watch all keys that match a pattern.
//
// Writes come by the view's source. If the source is a consumer, the current
// state comes by it, too. Otherwise the view reads the current state: by one
// direct get of all keys, which the server grants for up to 1,024 of them
// (nats-server, stream.go, getDirectMulti), or by a consumer made for it.
package pattern

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/sources"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

const (
	// confirmAfter is the delay before the current state is read again. It is
	// read again if a survey contradicted the known state, or if writes may
	// have been lost while the subscription travelled through the cluster.
	confirmAfter = 500 * time.Millisecond
	// readTimeout is for how long an answer may pause before it counts as lost.
	readTimeout = time.Second
	// surveyEvery is how often the current state is read if writes may be lost
	// without a trace: a route between servers that breaks for a moment loses
	// republished records, and the connection does not report the loss (ADR 4).
	// Where there are many keys, it is read more rarely.
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
	sources *sources.Set
	names   wire.Names
	watch   *watch.Watch
	pattern string
	present func(error)
	source  *sources.Source
	ledger  *ledger
	ended   bool

	repeat     bool // the next survey delivers what is known already, too
	confirm    bool // the next survey is to be confirmed
	wanted     bool // a survey is due
	begun      bool // a survey that has shown all from its beginning on
	beginning  beginning
	unreadable bool // the user may not read; only the source delivers the state

	reading    *reading // reads the current state
	byConsumer bool     // direct gets do not serve
	deadline   time.Time
	nextRead   time.Time
	nextSurvey time.Time // in case that writes were lost; set by the one before
	failures   int       // to read, in a row
	copies     int       // readings in a row that a mirror answered
	forgotten  int       // how often the stream turned out to be another one
}

// New returns a view that delivers to the watch, and calls present at the end
// of each survey that repeats the known state. Start begins its service.
func New(owner Owner, set *sources.Set, w *watch.Watch, pattern string, present func(error)) *View {
	return &View{
		owner: owner, sources: set, names: set.Names, watch: w, pattern: pattern, present: present,
		ledger: newLedger(), repeat: true, confirm: true,
	}
}

// Start begins to listen, and requests the current state.
func (v *View) Start() error {
	if err := v.Reopen(); err != nil {
		return err
	}
	v.wanted = true
	return nil
}

// Reopen gives the view a source if it has none.
func (v *View) Reopen() (err error) {
	if v.source == nil {
		v.source, err = v.sources.Open(v)
	}
	return err
}

// Stop ends the view.
func (v *View) Stop() {
	v.ended = true
	v.beginning.void()
	v.endReading()
	if f := v.source; f != nil {
		v.source = nil
		v.sources.Close(f, v)
	}
}

// StartOver requests the current state and its delivery, even of entries that
// are already known: something may have been missed, or permissions have
// changed.
func (v *View) StartOver() {
	v.endReading()
	v.beginning.void()
	v.repeat, v.confirm, v.wanted, v.unreadable, v.byConsumer = true, true, true, false, false
	v.nextRead, v.failures = time.Time{}, 0
}

// Survey requests the current state, if the key is one of the view's. It
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

// Source returns what brings the writes.
func (v *View) Source() *sources.Source { return v.source }

// Known returns of how many keys the view knows something.
func (v *View) Known() int { return len(v.ledger.keys) }

// Pattern implements [sources.Viewer].
func (v *View) Pattern() string { return v.pattern }

// Begin implements [sources.Viewer].
func (v *View) Begin() {
	v.ledger.begin()
	v.begun, v.wanted = true, false
}

// Bring implements [sources.Viewer].
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

// Lost implements [sources.Viewer].
func (v *View) Lost() {
	v.beginning.void()
	v.begun, v.repeat = false, true
}

// Failed implements [sources.Viewer].
func (v *View) Failed() {}

// Closed implements [sources.Viewer].
func (v *View) Closed() { v.source = nil }

// Taken implements [sources.Viewer].
func (v *View) Taken() {
	v.wanted = true // and from now on often
	v.presented(nil)
}

// Resumed implements [sources.Viewer].
func (v *View) Resumed() { v.StartOver() }

// Complete implements [sources.Viewer]: a survey has ended. That of a consumer
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
	lossy := v.confirm && v.source != nil && !v.source.Consumer() && v.owner.Clustered()
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
// than is known. If the leader does not answer for a while, the surveys decide.
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
	if v.source != nil && !v.source.Standing() {
		return surveyTaken
	}
	return surveyEvery
}

// presented reports that the current state is complete, or why it cannot be
// known. If the server took the subscription away, presented also reports that:
// the view then reads entries late, and by many requests.
func (v *View) presented(err error) {
	if v.watch.Stopped() {
		return
	}
	if err == nil && v.source != nil && v.source.Taken() != nil {
		err = fmt.Errorf("%w: the server has ended the subscription to the keys %q of bucket %q: %w", store.ErrPermanent, v.pattern, v.names.Bucket, v.source.Taken())
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
	case v.reading != nil && v.reading.source.Consumer():
		// The sources look after it.
	case v.reading != nil && now.Before(v.deadline):
		due(v.deadline)
	case v.reading != nil:
		v.unread()
		due(now)
	case !v.wanted || v.unreadable || v.source == nil:
	case now.Before(v.nextRead):
		due(v.nextRead)
	case v.source.Consumer():
		if v.source.Standing() { // else one is being made
			v.sources.Lose(v.source) // the next one starts with the current state
			due(now)
		}
	default:
		v.read(now)
		due(now)
	}
}

// check requests the current state if it was read long ago.
func (v *View) check(now time.Time, due func(time.Time)) {
	switch {
	case v.wanted && !v.unreadable || v.reading != nil || v.source == nil || v.source.Consumer():
	case now.Before(v.nextSurvey):
		due(v.nextSurvey)
	case v.unreadable: // no reading doubts the source
		v.nextSurvey = now.Add(v.surveyEvery())
		v.sources.Doubt(v.source)
		due(v.nextSurvey)
	default:
		v.wanted = true
	}
}

// ReadsByConsumer reports whether the current state is read by a consumer.
func (v *View) ReadsByConsumer() bool { return v.byConsumer || v.owner.NoDirect() }

// ReadByConsumer reads the current state by a consumer, since the user may not
// read it by a direct get.
func (v *View) ReadByConsumer() {
	v.byConsumer = true
	if v.reading != nil && !v.reading.source.Consumer() {
		v.unread()
	}
}

// Renounce gives up reading what the user may not read.
func (v *View) Renounce(denied error) {
	if v.unreadable {
		return
	}
	v.endReading()
	v.beginning.void()
	v.unreadable, v.repeat = true, false
	v.nextSurvey = time.Now().Add(surveyEvery)
	v.presented(fmt.Errorf("%w: the user may read the keys %q of bucket %q neither by a direct get nor by a consumer,"+
		" and hears of each with its next write: %w", store.ErrPermanent, v.pattern, v.names.Bucket, denied))
}

// retryLater has the next attempt to read wait for a backoff.
func (v *View) retryLater() {
	v.nextRead = time.Now().Add(watch.RetryAfter(v.failures))
	v.failures++
}
