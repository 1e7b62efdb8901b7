package tasks

import (
	"context"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// An Entry is a record as a store has it.
type Entry struct {
	// ID is the task's.
	ID string
	// Revision grows with each write of any task of the store, also across
	// tasks.
	Revision uint64
	// Record is what was written; zero if Deleted, Invalid or Own.
	Record wire.Record
	// Deleted: the record was removed by hand.
	Deleted bool
	// Invalid is the reason why the stored content is not a record of a task,
	// if it is not: it cannot be decoded, its ID is not a ValidName, or
	// wire.Record.Validate refuses it. A dispatcher reports it and leaves it as
	// it is.
	Invalid error
	// Own: the record states the Term of the Watch, which has not decoded it.
	Own bool
}

// A Write is applied if the task's record is at Expected, 0 for a task that the
// store does not know.
type Write struct {
	ID       string      // the task's
	Expected uint64      // a revision
	Record   wire.Record // the new record
}

// A Watch is what a dispatcher wants to hear of a store.
type Watch struct {
	// Term is the number of the watching leader's own term. Of records that
	// state it, the Entry needs no more than ID, Revision and Own.
	Term uint64
	// Deliver is called with the current state of each open task, and then with
	// each change, in the order of their revisions. States that were replaced
	// meanwhile, and tasks that are finished, may be left out. An entry without
	// ID only reports that the watch has come to its revision. Deliver returns
	// quickly, and calls never overlap.
	Deliver func(Entry)
	// Present is called when the current state has been delivered.
	Present func()
}

// A Store keeps the tasks of one group. Its methods may be called concurrently.
type Store interface {
	// Write applies a write, and calls done once, from any goroutine, with the
	// new revision or an error, soon after the store has answered or when it
	// takes too long. ErrConflict means that the write was not applied; after
	// any other error it may have been, or may yet be. done returns quickly. A
	// record that is finished may be removed by the store after a time that its
	// configuration states.
	Write(w Write, done func(revision uint64, err error))
	// Read returns the record of a task, ErrNotFound, or ErrInvalid for an
	// entry that a Watch would deliver as Invalid. With ErrNotFound the entry
	// has the Revision that a removal has left there, 0 for nothing, which the
	// next write has to expect; with ErrInvalid it has the record's revision.
	Read(ctx context.Context, id string) (Entry, error)
	// Watch reports the tasks until ctx is done, and then returns nil. An error
	// means that it has ended before, and may be called again.
	Watch(ctx context.Context, w Watch) error
	// Checkpoint records that no task that is open, now or later, has a
	// revision below the given one: a later Watch may begin there.
	Checkpoint(ctx context.Context, revision uint64) error
}

// write is Write that waits.
func write(ctx context.Context, st Store, w Write) (uint64, error) {
	type outcome struct {
		rev uint64
		err error
	}
	answer := make(chan outcome, 1)
	st.Write(w, func(rev uint64, err error) { answer <- outcome{rev, err} })
	select {
	case o := <-answer:
		return o.rev, o.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
