package tasks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-ff2cb582/leader/internal/backoff"
)

// pace is the backoff of repetitions.
func pace() backoff.Policy {
	return backoff.Policy{Initial: 10 * time.Millisecond, Max: time.Second, Jitter: 0.2}
}

// Submit stores a task, for the leader to hand out. It is idempotent: a task
// that is stored already, with the same payload and target, is left as it is,
// however far it has come, and its status returned. Submit needs no leader.
//
// With nil the task is stored. ErrInvalid (of the Spec, or of a record that is
// stored under the ID) and ErrExists (another task has the ID) are final. After
// any other error, ctx's error included, it is unknown whether the task is
// stored: submit it again. A store that does not answer is asked again until
// ctx is done.
func Submit(ctx context.Context, st Store, s Spec) (Status, error) {
	rec, err := s.record(time.Now())
	if err != nil {
		return Status{}, err
	}
	var stored Status
	first := Write{ID: s.ID, Record: rec}
	done := pace().Repeat(ctx, func() bool {
		stored, err = submit(ctx, st, s, &first)
		return err == nil || errors.Is(err, ErrExists) || errors.Is(err, ErrInvalid)
	})
	if !done {
		err = fmt.Errorf("tasks: %q may not be stored: %w", s.ID, errors.Join(context.Cause(ctx), err))
	}
	return stored, err
}

func submit(ctx context.Context, st Store, s Spec, first *Write) (Status, error) {
	rev, err := write(ctx, st, *first)
	if err == nil {
		return Status{ID: s.ID, State: Queued, Revision: rev}, nil
	}
	rec := first.Record
	e, readErr := st.Read(ctx, s.ID)
	switch {
	case readErr != nil:
		if errors.Is(readErr, ErrNotFound) {
			first.Expected = e.Revision // of what a removal by hand has left there
		}
		return Status{}, errors.Join(err, readErr)
	case e.Record.To != rec.To || e.Record.State != Done && !bytes.Equal(e.Record.Payload, rec.Payload):
		// The payload of one that is done is gone.
		return statusOf(e), fmt.Errorf("%w: %q", ErrExists, s.ID)
	default:
		return statusOf(e), nil
	}
}

// Look returns the status of a task, ErrNotFound, or ErrInvalid for a record
// that is not valid, which no leader acts on.
func Look(ctx context.Context, st Store, id string) (Status, error) {
	e, err := st.Read(ctx, id)
	if err != nil {
		return Status{}, err
	}
	return statusOf(e), nil
}

// Wait returns the status of a task when it is finished. It asks the store, at
// first often and then each second. ErrNotFound, ErrInvalid as of [Look] and
// the end of ctx end it earlier.
func Wait(ctx context.Context, st Store, id string) (s Status, err error) {
	done := pace().Repeat(ctx, func() bool {
		s, err = Look(ctx, st, id)
		return errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalid) || err == nil && s.State.Finished()
	})
	if !done {
		err = errors.Join(context.Cause(ctx), err)
	}
	return s, err
}

// Cancel makes a task fail, with a reason for people, in any state; the leader
// revokes it from the worker that has it. Of the reason a kibibyte is stored.
// Errors are ErrNotFound, ErrFinished, ErrInvalid for a record that is not
// valid, and ctx's error.
func Cancel(ctx context.Context, st Store, id, why string) (s Status, err error) {
	why = text(why)
	done := pace().Repeat(ctx, func() bool {
		var e Entry
		if e, err = st.Read(ctx, id); err != nil {
			return errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalid)
		}
		if e.Record.State.Finished() {
			s = statusOf(e)
			if e.Record.State == Failed && e.Record.Error == why {
				return true // ours: its answer was lost
			}
			err = fmt.Errorf("%w: %q", ErrFinished, id)
			return true
		}
		// It must not look like a leader's write, or the current leader would
		// take it for its own.
		e.Record.State, e.Record.Error, e.Record.Term = Failed, why, 0
		if e.Revision, err = write(ctx, st, Write{ID: id, Expected: e.Revision, Record: e.Record}); err == nil {
			s = statusOf(e)
		}
		return err == nil
	})
	if !done {
		err = errors.Join(context.Cause(ctx), err)
	}
	return s, err
}
