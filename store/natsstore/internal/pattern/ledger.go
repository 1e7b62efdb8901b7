package pattern

import (
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/watch"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// A ledger holds what was delivered of each key.
//
// A survey is one delivery of the current state. Each survey has a number,
// which identifies the keys that it does not show. If it contradicts the known
// state of a key, it is believed only if the next surveys agree with it and the
// stream's leader does not contradict: the replica that answers may lag behind.
type ledger struct {
	keys   map[string]*observed
	survey uint64 // number of the latest
	doubts bool   // it contradicted what is known
}

// observed is what was delivered of a key.
type observed struct {
	revision uint64
	seen     uint64       // number of the survey in which it was last shown or heard
	doubted  uint64       // number of the latest survey that showed less
	doubts   watch.Doubts // surveys in a row that did
}

// doubt notes that a survey shows less of the key than is known, and reports
// whether that is to be believed.
func (k *observed) doubt(survey uint64) bool {
	if k.doubted+1 != survey {
		k.doubts = watch.Doubts{}
	}
	k.doubted = survey
	return k.doubts.Grow()
}

func newLedger() *ledger { return &ledger{keys: make(map[string]*observed)} }

func (l *ledger) begin() {
	l.survey++
	l.doubts = false
}

// shown takes an entry that the survey shows, and reports whether to deliver
// it. Repeat means that the survey also delivers entries that are already
// known.
func (l *ledger) shown(e store.Entry, repeat bool) (deliver bool) {
	k := l.keys[e.Key]
	switch {
	case k == nil || e.Revision > k.revision:
	case e.Revision == k.revision:
		k.seen = l.survey
		if !repeat {
			return false
		}
	case k.seen == l.survey || k.doubted == l.survey:
		return false // overtaken by the message of a write
	case !k.doubt(l.survey):
		l.doubts = true
		return false
	}
	l.note(e)
	return true
}

// knows reports whether a key was delivered, and is not known to be gone.
func (l *ledger) knows(key string) bool {
	k := l.keys[key]
	return k != nil && k.revision != 0
}

// exceeds reports whether a key was delivered that the stream's leader, though
// it knows of later writes, has no more.
func (l *ledger) exceeds(state wire.State) bool {
	if !state.Whole() {
		return false
	}
	for key, k := range l.keys {
		if k.revision != 0 && k.revision <= state.LastSequence && !state.Has(key) {
			return true
		}
	}
	return false
}

// heard takes the entry of a write, and reports whether to deliver it. An entry
// older than the known one requests a survey: it is a late message, or the
// first write to a stream that was made again.
func (l *ledger) heard(e store.Entry) (deliver, survey bool) {
	k := l.keys[e.Key]
	switch {
	case k == nil || e.Revision > k.revision:
		l.note(e)
		return true, false
	case e.Revision == k.revision:
		k.seen = l.survey
		return false, false
	default:
		return false, true
	}
}

func (l *ledger) note(e store.Entry) {
	l.keys[e.Key] = &observed{revision: e.Revision, seen: l.survey}
}

// gone ends a survey: it returns the keys that are to be believed gone, and
// forgets them.
func (l *ledger) gone() (keys []string) {
	for key, k := range l.keys {
		switch {
		case k.seen == l.survey || k.doubted == l.survey:
		case k.doubt(l.survey):
			delete(l.keys, key)
			keys = append(keys, key)
		default:
			l.doubts = true
		}
	}
	return keys
}

// forget has whatever another stream shows believed.
func (l *ledger) forget() {
	for _, k := range l.keys {
		k.revision = 0
	}
}

// judge compares the doubted keys, of which a survey showed less than is known,
// with the state that the stream's leader reports.
func (l *ledger) judge(state wire.State) {
	for key, k := range l.keys {
		switch {
		case !k.doubts.Any() || state.LastSequence < k.revision:
		case state.Has(key):
			k.doubts = watch.Doubts{} // the replica lags
		default:
			k.doubts.Confirm() // erased: the next survey is believed
		}
	}
}

// unjudged notes that the stream's leader did not answer.
func (l *ledger) unjudged() {
	for _, k := range l.keys {
		k.doubts.Unanswered()
	}
}
