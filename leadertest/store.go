package leadertest

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/store"
)

type connection = faultstore.Client

// A Store is one candidate's connection to the store of its [Group]. Besides
// [store.Watcher] it implements [store.PatternWatcher], [store.ConnReporter] and
// [store.Checker], as the store for NATS does. Its methods may be called
// concurrently.
type Store struct {
	*connection

	group  *Group
	id     string
	writes atomic.Uint32 // the store.Outcome of each write
}

var (
	_ store.PatternWatcher = (*Store)(nil)
	_ store.Watcher        = (*Store)(nil)
	_ store.ConnReporter   = (*Store)(nil)
	_ store.Checker        = (*Store)(nil)
)

// CutOff cuts the connection: calls get no answer, watches hear nothing, and
// ConnState is Disconnected. It returns at once. Earlier writes remain.
func (s *Store) CutOff() { s.group.network.Partition(s.id) }

// Reconnect ends CutOff. Watches hear the current state. It does nothing on a
// connection that is not cut.
func (s *Store) Reconnect() { s.group.network.Heal(s.id) }

// SetWriteOutcome lets every following write end in the given way, until
// another call. Reads and watches go on.
//
//	store.OK         as the store decides; the default
//	store.Conflict   it is refused, as if another candidate had been faster
//	store.Transient  it is refused, and may be tried again
//	store.Permanent  it is refused, as without the permission to write
//	store.Unknown    it is applied, and its acknowledgement is lost
func (s *Store) SetWriteOutcome(outcome store.Outcome) { s.writes.Store(uint32(outcome)) }

// CompareAndSwap implements [store.Store].
func (s *Store) CompareAndSwap(ctx context.Context, w store.Write) (revision uint64, err error) {
	if failure := failureOf(store.Outcome(s.writes.Load())); failure != nil {
		return 0, failure
	}
	revision, err = s.connection.CompareAndSwap(ctx, w)
	if err == nil && store.Outcome(s.writes.Load()) == store.Unknown {
		return 0, fmt.Errorf("%w: the test wants it so", store.ErrUnknown)
	}
	return revision, err
}

// failureOf returns the error of a write that is not to reach the store, or
// nil.
func failureOf(outcome store.Outcome) error {
	kind := map[store.Outcome]error{
		store.Conflict: store.ErrConflict, store.Transient: store.ErrTransient, store.Permanent: store.ErrPermanent,
	}[outcome]
	if kind == nil {
		return nil
	}
	return fmt.Errorf("%w: the test wants it so", kind)
}
