package feed

import (
	"bytes"
	"errors"

	"github.com/seed-ff2cb582/leader/store"
)

// take makes an entry the known state of its key, and delivers it to the
// watches. The entry was read by a request that began when Feed.clock was at
// began, or is news; a state that became known after began is not replaced by
// an entry that may be older. f.mu is held.
func (f *Feed) take(e store.Entry, began uint64) {
	if !f.watched(e.Key) {
		return
	}
	e, changed := f.learn(e, began)
	for w := range f.exact[e.Key] {
		awaited := w.awaits(e.Key)
		delete(w.pending, e.Key)
		switch {
		case w.begun && (changed || awaited):
			w.Push(e)
		case !w.begun && len(w.pending) == 0 && w.failure == nil:
			f.present(w)
		}
	}
	if changed {
		f.announce(e)
	}
}

// learn makes an entry the known state of its key unless it is older than what
// became known since began. It returns what is known then, and reports whether
// that is new. f.mu is held.
//
// Other content of the same revision is new, too: revisions repeat where a
// store lost its state, or has none for what another tool wrote. A Source whose
// reads come now from a server that lags and now from another has each
// difference delivered, one for each read, for as long as the two differ: that
// looks like a register that is changed to and fro, and breaks what a Feed
// demands.
func (f *Feed) learn(e store.Entry, began uint64) (now store.Entry, changed bool) {
	known, is := f.known[e.Key]
	meanwhile := is && known.at > began
	switch {
	case is && same(known.entry, e):
		if e.Revision == 0 {
			// Only this time shows that an answer in which the key exists may
			// be from before its end.
			f.clock++
			f.known[e.Key] = state{known.entry, f.clock}
		}
		return known.entry, false
	case meanwhile && (e.Revision == 0 || known.entry.Revision == 0 || known.entry.Revision == e.Revision):
		f.doubt(e.Key)
		return known.entry, false
	case meanwhile && e.Revision < known.entry.Revision:
		return known.entry, false
	}
	f.clock++
	f.known[e.Key] = state{e, f.clock}
	return e, true
}

// same reports whether two entries of one key are the same state.
func same(a, b store.Entry) bool {
	return a.Revision == b.Revision && a.Tombstone == b.Tombstone && bytes.Equal(a.Value, b.Value)
}

// doubt has a key read again if two answers differ and no revision shows which
// is newer: absence has none, and other content may have the same. The read
// begins after both, so it settles the question unless something else becomes
// known meanwhile. f.mu is held.
func (f *Feed) doubt(key string) {
	f.dirty[key] = struct{}{}
	f.wake()
}

// announce delivers a new state to the watches of patterns. f.mu is held.
func (f *Feed) announce(e store.Entry) {
	for w := range f.wide {
		if w.begun && store.MatchPattern(w.pattern, e.Key) {
			w.Push(e)
		}
	}
}

// present begins a watch of keys, all of which are known.
func (f *Feed) present(w *watch) {
	for _, key := range w.keys {
		w.Push(f.known[key].entry)
	}
	w.begin()
}

// news applies a state that the system reported, if it is newer than the known
// state. A key that the last read found gone is read again, and so is every
// awaited key: news may be old when they arrive.
func (f *Feed) news(e store.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, is := f.known[e.Key]
	switch {
	case !f.watched(e.Key) || is && e.Revision <= known.entry.Revision:
		return
	case is && known.entry.Revision == 0:
		f.doubt(e.Key)
		return
	}
	f.learn(e, f.clock)
	for w := range f.exact[e.Key] {
		if w.begun {
			w.Push(e)
		}
	}
	f.announce(e)
}

// read takes in the answer to a read of some keys.
func (f *Feed) read(keys []string, entries []store.Entry, began uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	unknown := make(map[string]struct{}, len(keys))
	for _, key := range keys {
		unknown[key] = struct{}{}
	}
	for _, e := range entries {
		delete(unknown, e.Key)
		f.take(e, began)
	}
	for key := range unknown {
		if err == nil {
			f.take(store.Entry{Key: key}, began)
			continue
		}
		for w := range f.exact[key] {
			w.fail(err)
			w.pending[key] = struct{}{} // an interruption for this key
		}
		if f.watched(key) {
			f.dirty[key] = struct{}{} // to be read again
		}
	}
}

// listed takes in the answer to a list of a pattern.
func (f *Feed) listed(pattern string, entries []store.Entry, began uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var waiting []*watch
	for w := range f.wide {
		if w.pattern == pattern && w.awaits(pattern) {
			waiting = append(waiting, w)
		}
	}
	switch {
	case store.Classify(err) == store.Permanent && !errors.Is(err, store.ErrClosed):
		for _, w := range waiting {
			w.refused = err
		}
	case err != nil:
		for _, w := range waiting {
			w.fail(err)
		}
		return
	default:
		f.complete(pattern, entries, began)
	}
	for _, w := range waiting {
		if w.failure != nil {
			continue
		}
		delete(w.pending, pattern)
		if err == nil {
			w.refused = nil
			f.repeat(w)
		}
		w.PushLast(store.Entry{Key: complete})
		w.begin()
	}
}

// complete applies the answer to a list of all keys that match a pattern. Keys
// that are not among them no longer exist. f.mu is held.
func (f *Feed) complete(pattern string, entries []store.Entry, began uint64) {
	there := make(map[string]struct{}, len(entries))
	for _, e := range entries {
		if store.MatchPattern(pattern, e.Key) {
			there[e.Key] = struct{}{}
			f.take(e, began)
		}
	}
	for key, known := range f.known {
		if _, is := there[key]; is || !store.MatchPattern(pattern, key) {
			continue
		}
		if known.entry.Revision != 0 {
			f.take(store.Entry{Key: key}, began)
		}
		if known.at > began {
			continue
		}
		if len(f.exact[key]) == 0 {
			delete(f.known, key)
		}
	}
}

// repeat delivers all known keys of a pattern to its watch. f.mu is held.
func (f *Feed) repeat(w *watch) {
	for key, known := range f.known {
		if known.entry.Revision != 0 && store.MatchPattern(w.pattern, key) {
			w.Push(known.entry)
		}
	}
}

// watched reports whether anybody wants to know of the key. f.mu is held.
func (f *Feed) watched(key string) bool {
	if len(f.exact[key]) > 0 {
		return true
	}
	for w := range f.wide {
		if store.MatchPattern(w.pattern, key) {
			return true
		}
	}
	return false
}
