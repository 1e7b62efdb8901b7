package board

import (
	"context"
	"strings"

	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/store"
)

// A looker is a store that shows the board each entry besides. Of several
// records in a row that cannot be read, observers hear of one: the rest does
// not change who leads.
type looker struct {
	store.PatternWatcher

	b *Board
}

// WatchPattern implements [store.PatternWatcher].
func (l looker) WatchPattern(ctx context.Context, pattern string, deliver func(store.Entry), present func(error)) (stop func(), err error) {
	return l.PatternWatcher.WatchPattern(ctx, pattern, func(e store.Entry) { l.b.look(e); deliver(e) }, present)
}

// ConnState and OnConnState implement [store.ConnReporter], since an observer
// ends with the connection.
func (l looker) ConnState() store.ConnState {
	if c, ok := l.PatternWatcher.(store.ConnReporter); ok {
		return c.ConnState()
	}
	return store.Connected
}

func (l looker) OnConnState(f func(store.ConnState)) (stop func()) {
	if c, ok := l.PatternWatcher.(store.ConnReporter); ok {
		return c.OnConnState(f)
	}
	return func() {}
}

// A scrawl is what cannot be read of a group's records.
type scrawl struct {
	count  int
	latest uint64 // the revision that was counted last
}

// look counts an entry that cannot be read, once.
func (b *Board) look(e store.Entry) {
	// A deletion with a text is a vacancy. One that is none is told.
	if e.Revision == 0 || e.Tombstone || inspect.ReadRecord(e).ID != "" ||
		strings.HasPrefix(e.Key, inspect.ControlKey("")) || !store.ValidKey(e.Key) {
		return
	}
	b.update(func() {
		s, there := b.scrawls[e.Key]
		switch {
		case s.latest == e.Revision, !there && len(b.scrawls) >= MaxGroups+MaxIgnored:
			return
		case b.scrawls == nil:
			b.scrawls = make(map[string]scrawl)
		}
		b.scrawls[e.Key] = scrawl{s.count + 1, e.Revision}
		if g := b.find(e.Key); g != nil {
			g.Malformed++
		}
	})
}
