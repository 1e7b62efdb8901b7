// Package registry knows the latest state of each key that somebody watches,
// and who is to hear of it.
//
// A key's state comes from two places: a source, which brings its writes, and
// reads, which show its current state. The registry decides which keys are to
// be read and when, which states are believed, and which watches have received
// them. It neither sends nor subscribes: its [Owner] reads for it, and its
// [Sources] know which writes are brought.
package registry

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

const (
	// confirmAfter is when, in a cluster, a key is read a second time: a
	// subscription travels to the other servers by itself, and what the
	// stream's leader published before its arrival is lost.
	confirmAfter = 500 * time.Millisecond
	// pollMost is how many keys without a source are read in a second.
	pollMost = 500
	// silenceMost is how long the registry trusts silence of a source that may
	// lose writes without a trace. The record of a pause is written once, so
	// that no later write would show its loss.
	silenceMost = 30 * time.Second
	// checkMost is how many keys are read in a second since they were silent.
	checkMost = 100
)

// Sources report what is known of the sources of keys.
type Sources interface {
	// Brings reports whether the key's writes are brought, as far as anyone
	// knows.
	Brings(key string) bool
	// Lossy reports whether writes of a key may be lost although they are
	// brought, because its source is new.
	Lossy(key string) bool
	// Traceless reports whether writes of a key may be lost without a trace for
	// as long as its source exists.
	Traceless(key string) bool
	// DoubtFor has it found out whether the source was taken away, if that may
	// be.
	DoubtFor(key string)
	// Owes notes that a read showed a write of the key which its source has not
	// brought.
	Owes(key string)
}

// An Owner does for a registry what takes a connection.
type Owner interface {
	// Read asks for the key's current state. The answer goes to done; not ok
	// means that no answer came. A late answer also goes to done.
	Read(key string, now time.Time, done func(e store.Entry, ok bool))
	// AskLeader asks the stream's leader for the state of the keys that match a
	// pattern, and calls Forget where that is another stream than the one
	// before. The answer goes to done; not ok means that there is none.
	AskLeader(pattern string, done func(state wire.State, ok bool))
	// Informed reports whether the user may ask the stream's leader, as far as
	// anyone knows.
	Informed() bool
	// Heard notes that a write was heard.
	Heard()
	// Call calls a watch's function, without the lock that guards the registry.
	Call(owner any, f func())
}

// A Registry holds the keys that are watched. It is not safe for concurrent
// use: its owner guards it.
type Registry struct {
	owner     Owner
	sources   Sources
	keys      map[string]*register
	unsettled map[*register]struct{} // to be read or to be confirmed
	silent    order                  // all registers; the longest without news comes first
	nextCheck time.Time              // of a key that was silent; not before
	reads     int                    // under way
	readsMost int                    // at once
	begun     int                    // first states that watches received so far
	stream    int                    // how often it turned out to be another one
	doubtful  []finding              // of which the stream's leader is to be asked
	asking    bool                   // it is being asked
}

// New returns a registry that has no more than so many reads under way.
func New(owner Owner, sources Sources, readsMost int) *Registry {
	return &Registry{
		owner: owner, sources: sources, readsMost: readsMost,
		keys: make(map[string]*register), unsettled: make(map[*register]struct{}),
	}
}

// Add has the watch hear of the key.
func (g *Registry) Add(w *watch.Watch, key string) {
	w.Await(key)
	r := g.keys[key]
	if r == nil {
		r = &register{key: key, told: time.Now()}
		g.silent.push(r)
		g.keys[key] = r
	}
	r.watches = append(r.watches, w)
	r.nextRead, r.confirm = time.Time{}, true
	g.toRead(r)
}

// Remove ends what Add began, and reports whether the key is watched no more.
func (g *Registry) Remove(w *watch.Watch, key string) (unwatched bool) {
	r := g.keys[key]
	if r == nil {
		return false
	}
	r.watches = slices.DeleteFunc(r.watches, func(x *watch.Watch) bool { return x == w })
	if len(r.watches) > 0 {
		return false
	}
	delete(g.keys, key)
	delete(g.unsettled, r)
	g.silent.remove(r)
	if r.reading {
		g.reads--
	}
	return true
}

// Begun returns how many first states watches have received so far.
func (g *Registry) Begun() int { return g.begun }

// Keys returns the keys that are watched.
func (g *Registry) Keys() iter.Seq[string] { return maps.Keys(g.keys) }

// Work reads what is to be read now, and reports to due when it has to be
// called again.
//
// It looks at the unsettled keys alone: there may be thousands of others, and
// it follows each message.
func (g *Registry) Work(now time.Time, due func(time.Time)) {
	g.check(now, due)
	for r := range g.unsettled {
		g.refresh(r, now, due)
	}
}

// check has keys read of which nothing was heard for long. Where a route
// between servers, or the link of a leaf node, breaks for a moment, what the
// stream's server published meanwhile is lost, and the connection shows nothing
// of that (ADR 4). Of a subscription that the server has ended nothing comes
// any more, either.
func (g *Registry) check(now time.Time, due func(time.Time)) {
	for r := g.silent.first; r != nil; r = g.silent.first {
		at := r.told.Add(silenceMost)
		if at.Before(g.nextCheck) {
			at = g.nextCheck
		}
		if now.Before(at) {
			due(at)
			return
		}
		g.spoke(r, now)   // otherwise it would be asked for all the time
		if r.unreadable { // no read doubts the source
			g.sources.DoubtFor(r.key)
		}
		if !r.stale && !r.reading && g.sources.Traceless(r.key) {
			g.toRead(r)
			r.check = true
			g.nextCheck = now.Add(time.Second / checkMost)
		}
	}
}

// spoke notes that the key's current state was received, or is asked for.
func (g *Registry) spoke(r *register, now time.Time) {
	r.told = now
	g.silent.remove(r)
	g.silent.push(r)
}

// Read schedules a read of a key that a call found in a state which no source
// brought. It reports whether the key is watched.
func (g *Registry) Read(key string) (watched bool) {
	r := g.keys[key]
	if r != nil {
		g.toRead(r)
	}
	return r != nil
}

// Named notes the revision at which the stream's leader has a key: a read that
// shows less comes from a copy that lags.
func (g *Registry) Named(key string, revision uint64) {
	if r := g.keys[key]; r != nil {
		r.least = max(r.least, revision)
	}
}

// ReadNow has a key read at once, however often it failed.
func (g *Registry) ReadNow(key string) {
	if r := g.keys[key]; r != nil {
		r.nextRead = time.Time{}
		g.toRead(r)
	}
}

// ReadAll has all keys read: messages may have been dropped. A consumer notices
// that by its numbering; republished records are lost without a trace.
func (g *Registry) ReadAll() {
	for _, r := range g.keys {
		g.toRead(r)
	}
}

// Missed has all keys read and delivered: something may have been missed.
func (g *Registry) Missed() {
	for _, r := range g.keys {
		g.missed(r)
	}
}

// Reconnected is Missed after the connection was lost: no answer will come to
// what was asked, and reads that were not allowed may be so now.
func (g *Registry) Reconnected() {
	g.reads, g.doubtful, g.asking = 0, nil, false
	for _, r := range g.keys {
		r.unreadable, r.reading = false, false
		g.missed(r)
	}
}

// Forget drops the known state: the stream is another one, whose revisions may
// start again. Otherwise the registry would take states of the old stream for
// writes that a lagging replica of this stream does not show yet.
func (g *Registry) Forget() {
	g.stream++
	for _, r := range g.keys {
		r.known, r.least = false, 0
	}
}

// Renounce gives up reading a key that the user may not read. Only its source
// delivers its state.
func (g *Registry) Renounce(key string) {
	r := g.keys[key]
	if r == nil || r.unreadable {
		return
	}
	r.unreadable = true
	for _, w := range slices.Clone(r.watches) {
		w.Received(key)
		w.Begin()
	}
}

// Resume has what is still to be delivered read again: the goroutine that
// delivered it has ended in the middle.
func (g *Registry) Resume() {
	for _, r := range g.keys {
		if slices.ContainsFunc(r.watches, func(w *watch.Watch) bool { return w.Awaits(r.key) }) {
			r.nextRead = time.Time{}
			g.toRead(r)
		}
	}
}

// pollEvery is how often a key without a source is read. All together must not
// become the load that keeps their sources from standing.
func (g *Registry) pollEvery() time.Duration {
	return max(watch.RetryMost, time.Duration(len(g.keys))*time.Second/pollMost)
}
