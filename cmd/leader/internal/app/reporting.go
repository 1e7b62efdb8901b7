package app

import "github.com/seed-ff2cb582/leader/store"

// Reporting is a store to build another one on that watches differently. An
// observer ends with the connection, whose state it reports as the store
// beneath does.
type Reporting struct{ store.PatternWatcher }

// ConnState implements [store.ConnReporter].
func (r Reporting) ConnState() store.ConnState {
	if c, ok := r.PatternWatcher.(store.ConnReporter); ok {
		return c.ConnState()
	}
	return store.Connected
}

// OnConnState implements [store.ConnReporter].
func (r Reporting) OnConnState(f func(store.ConnState)) (stop func()) {
	if c, ok := r.PatternWatcher.(store.ConnReporter); ok {
		return c.OnConnState(f)
	}
	return func() {}
}
