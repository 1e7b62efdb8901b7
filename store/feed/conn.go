package feed

import (
	"errors"
	"slices"

	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
)

// link is what is known of the connection. Feed.mu guards it.
type link struct {
	state     store.ConnState
	listeners []*listener
}

// A listener is one registration of OnConnState.
type listener struct {
	f    func(store.ConnState)
	told store.ConnState // guarded by Feed.notify
}

// ConnState implements [store.ConnReporter]. A store is connected while its
// reads succeed and, if it follows the news, while these are not interrupted.
// News that the user may not read do not affect the state. It is closed when a
// read fails with store.ErrClosed. While there is no watch and no listener, the
// state is not updated.
func (f *Feed) ConnState() store.ConnState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.link.state
}

// OnConnState implements [store.ConnReporter].
func (f *Feed) OnConnState(fn func(store.ConnState)) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &listener{f: fn, told: f.link.state}
	f.link.listeners = append(f.link.listeners, l)
	if !f.closed {
		f.work()
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.link.listeners = slices.DeleteFunc(f.link.listeners, func(other *listener) bool { return other == l })
		f.rest()
	}
}

// heard updates the connection's state from the end of a read, or of the news.
// A client that was closed stays closed, and a listener has no other way to
// learn of it.
func (f *Feed) heard(err error) {
	_, follows := f.src.(Follower)
	f.mu.Lock()
	up := err == nil && (f.following || f.denied || !follows)
	down := err != nil && store.Classify(err) != store.Permanent
	f.mu.Unlock()
	switch {
	case errors.Is(err, store.ErrClosed):
		f.connected(store.Closed)
	case up:
		f.connected(store.Connected)
	case down:
		f.connected(store.Disconnected)
	}
}

// connected sets the state, and notifies the listeners if it is a new one.
func (f *Feed) connected(state store.ConnState) {
	f.notify.Lock()
	defer f.notify.Unlock()
	f.mu.Lock()
	if f.link.state != store.Closed {
		f.link.state = state
	}
	state = f.link.state
	listeners := slices.Clone(f.link.listeners)
	f.mu.Unlock()
	for _, l := range listeners {
		if l.told != state {
			l.told = state
			shield.Call(func() { l.f(state) }, f.panicked)
		}
	}
}
