package trial

import (
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

// noticing is how long Noticed waits for a store that does not look, and so never
// notices anything. One that looks each 20 ms looks twenty times meanwhile.
const noticing = 400 * time.Millisecond

// Noticed waits until each of the stores has noticed that it is cut off. An
// interruption between two looks of a store that goes by the clock is none.
func Noticed(stores []store.Store) {
	cutOff := func(s store.Store) bool {
		c, ok := s.(store.ConnReporter)
		return ok && c.ConnState() != store.Connected
	}
	for deadline := time.Now().Add(noticing); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		if !slices.ContainsFunc(stores, func(s store.Store) bool { return !cutOff(s) }) {
			return
		}
	}
}
