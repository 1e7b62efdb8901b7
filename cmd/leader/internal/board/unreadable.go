package board

import (
	"context"
	"strings"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/app"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
)

// A countingStore is a store that shows the board each entry before it delivers
// it. Of several malformed records in a row observers hear of one: the rest does
// not change who leads.
type countingStore struct {
	app.Reporting

	b *Board
}

// WatchPattern implements [store.PatternWatcher].
func (s countingStore) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (stop func(), err error) {
	return s.PatternWatcher.WatchPattern(ctx, pattern, func(e store.Entry) { s.b.countMalformed(e); deliver(e) }, present)
}

// A malformedCount is how many of a group's records could not be read.
type malformedCount struct {
	count  int
	latest uint64 // the revision that was counted last
}

// countMalformed counts an entry that cannot be read, once.
func (b *Board) countMalformed(e store.Entry) {
	// Tombstones are not counted: their values are vacancies, and observers
	// hear of one that is malformed.
	if e.Revision == 0 || e.Tombstone || inspect.ReadRecord(e).ID != "" ||
		strings.HasPrefix(e.Key, inspect.ControlKey("")) || !store.ValidKey(e.Key) {
		return
	}
	b.update(func() {
		s, there := b.malformed[e.Key]
		switch {
		case s.latest == e.Revision, !there && len(b.malformed) >= MaxGroups+MaxIgnored:
			return
		case b.malformed == nil:
			b.malformed = make(map[string]malformedCount)
		}
		b.malformed[e.Key] = malformedCount{s.count + 1, e.Revision}
		if g := b.find(e.Key); g != nil {
			g.Malformed++
		}
	})
}
