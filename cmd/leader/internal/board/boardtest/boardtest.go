// Package boardtest has a board follow a store, for the tests of boards and of
// what shows them.
package boardtest

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/board"
	"github.com/seed-ff2cb582/leader/store"
)

// Follow follows a store until the test ends, and returns when the board knows
// its current state. It must run in virtual time.
func Follow(t *testing.T, st store.PatternWatcher) *board.Board {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b, done := &board.Board{}, make(chan struct{})
	go func() {
		defer close(done)
		if err := b.Follow(ctx, st, ">", func(board.News) {}); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return b
}
