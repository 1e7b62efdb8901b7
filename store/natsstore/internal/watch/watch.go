// Package watch holds the parts that all kinds of watches have in common: the
// function that receives the states, the names that are still awaited, and the
// rule when an older state is to be believed.
package watch

import "github.com/seed-ff2cb582/leader/store"

// A Watch is one call of Watch or WatchPattern. It waits for the current state
// of some names, which are keys or a pattern, and is ready once it has received
// each for the first time.
//
// It is not safe for concurrent use: its owner guards it.
type Watch struct {
	deliver func(store.Entry)
	pending map[string]struct{}
	ready   chan struct{}
	begun   bool
	stopped bool
}

// New returns a watch that waits for the names.
func New(deliver func(store.Entry), names ...string) *Watch {
	w := &Watch{deliver: deliver, pending: make(map[string]struct{}, len(names)), ready: make(chan struct{})}
	for _, name := range names {
		w.Await(name)
	}
	return w
}

// Deliver calls the watch's function. The caller makes sure that calls do not
// overlap.
func (w *Watch) Deliver(e store.Entry) { w.deliver(e) }

// Await notes that the name's state is to be delivered, even if it is the one
// that was delivered last.
func (w *Watch) Await(name string) { w.pending[name] = struct{}{} }

// Awaits reports whether the name's state is to be delivered, and to somebody.
func (w *Watch) Awaits(name string) bool {
	_, pending := w.pending[name]
	return pending && !w.stopped
}

// Received notes that the name's state is on its way to the watch, or will
// never be known.
func (w *Watch) Received(name string) { delete(w.pending, name) }

// Ready is closed when the watch has received its first states.
func (w *Watch) Ready() <-chan struct{} { return w.ready }

// Begin closes Ready if nothing is pending. It comes after the last delivery,
// which Ready is to imply.
func (w *Watch) Begin() {
	if !w.begun && len(w.pending) == 0 {
		w.begun = true
		close(w.ready)
	}
}

// Stop ends the watch, and reports whether it was still going on.
func (w *Watch) Stop() (first bool) {
	first = !w.stopped
	w.stopped = true
	return first
}

// Stopped reports whether the watch has ended.
func (w *Watch) Stopped() bool { return w.stopped }
