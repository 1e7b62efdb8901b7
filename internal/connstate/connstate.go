// Package connstate follows the connection of a store.
package connstate

import "github.com/seed-ff2cb582/leader/store"

// WhenClosed calls f once the store's connection is permanently closed, perhaps
// more than once, until stop is called.
func WhenClosed(st store.Store, f func()) (stop func()) {
	c, ok := st.(store.ConnReporter)
	if !ok {
		return func() {}
	}
	stop = c.OnConnState(func(s store.ConnState) {
		if s == store.Closed {
			f()
		}
	})
	if c.ConnState() == store.Closed {
		f()
	}
	return stop
}
