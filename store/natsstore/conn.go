package natsstore

import (
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store"
)

// connState returns what a status of the client library means for an election.
// A connection that drains still carries answers, and its end is reported as
// CLOSED. A connection that may yet come up is disconnected, also during its
// first attempt to connect. Elections end permanently at CLOSED.
func connState(st nats.Status) store.ConnState {
	switch st {
	case nats.CONNECTED, nats.DRAINING_SUBS, nats.DRAINING_PUBS:
		return store.Connected
	case nats.CLOSED:
		return store.Closed
	default:
		return store.Disconnected
	}
}

// A caller calls a caller's function on behalf of its owner, without the lock
// that guards what called it. With the lock, a function that calls back into
// the store would wait for itself. The owner is what the end of a registration
// waits by: see [loop.Loop.Settle].
type caller func(owner any, f func())

// A listener is one registration of OnConnState.
type listener struct {
	f       func(store.ConnState)
	heard   store.ConnState // the state that f last received
	stopped bool
}

// listeners report changes of the connection's state. Their owner guards them.
// A listener receives changes alone, so a later one reads the state itself
// ([Store.ConnState]).
type listeners struct {
	all   []*listener
	state store.ConnState // the latest that they were to hear of
	told  bool            // and all of them have heard it
}

func (l *listeners) empty() bool { return len(l.all) == 0 }

func (l *listeners) add(f func(store.ConnState)) *listener {
	x := &listener{f: f, heard: l.state}
	l.all = append(l.all, x)
	return x
}

func (l *listeners) remove(x *listener) {
	x.stopped = true
	l.all = slices.DeleteFunc(l.all, func(y *listener) bool { return y == x })
}

func (l *listeners) removeAll() {
	// A copy, since remove shifts what is ranged over.
	for _, x := range slices.Clone(l.all) {
		l.remove(x)
	}
}

// notify reports a state to each listener that has not received it yet. Only
// the loop's goroutine calls it, with each status that the client library
// reports. It also calls it with the current status before each round of work,
// because the library drops a status if its channel is full.
func (l *listeners) notify(st store.ConnState, call caller) {
	// Most rounds change nothing, and several states of the client library are
	// one here.
	if st == l.state && l.told {
		return
	}
	l.state, l.told = st, false
	// A copy, since a listener may remove itself or another while it is called.
	// The removed one is called no more.
	for _, x := range slices.Clone(l.all) {
		if !x.stopped && x.heard != st {
			// Of each by itself, and before the call: one that ends the
			// goroutine leaves the others to the next round, and is not called
			// again for the same.
			x.heard = st
			call(x, func() { x.f(st) })
		}
	}
	l.told = true
}
