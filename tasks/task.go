package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// The bounds of what is stored of a task.
const (
	// MaxPayload is the length of the longest payload, and of the longest
	// result, in bytes.
	MaxPayload = wire.MaxPayload
	// MaxTimeout bounds the time of an attempt, and the delay after one.
	MaxTimeout = wire.MaxTimeout
	// MaxName is the length of the longest ID of a task, name of a worker,
	// label and key, in bytes.
	MaxName = wire.MaxName
)

// The defaults of a Spec.
const (
	DefaultTimeout     = time.Minute
	DefaultMaxAttempts = 5
	DefaultBackoff     = time.Second
)

var (
	// ErrInvalid means that a setting, a task or a record in the store is not
	// allowed; the text contains which, and the rule.
	ErrInvalid = errors.New("tasks: invalid")
	// ErrExists means that another task has the ID.
	ErrExists = errors.New("tasks: another task has this ID")
	// ErrNotFound means that the store does not know such a task (any more).
	ErrNotFound = errors.New("tasks: no such task")
	// ErrConflict means that a write was not applied, since the record is at
	// another revision.
	ErrConflict = errors.New("tasks: the record was changed meanwhile")
	// ErrFinished means that a task has ended before it could be cancelled.
	ErrFinished = errors.New("tasks: the task has ended")
	// ErrPermanent marks the error of a handler that another attempt would not
	// help: the task has then failed. See [Permanent].
	ErrPermanent = errors.New("tasks: permanent")
	// ErrPanicked means that a function that the caller gave panicked.
	ErrPanicked = errors.New("tasks: panicked")
	// ErrRevoked is the cause of the end of a handler's context when the leader
	// has given the task to another, or it was cancelled.
	ErrRevoked = errors.New("tasks: the attempt was revoked")
	// ErrDeadline is the cause of the end of a handler's context when its time
	// is over.
	ErrDeadline = errors.New("tasks: the attempt has had its time")
	// ErrLeaving is the cause of the end of a handler's context when its worker
	// ends and has waited long enough.
	ErrLeaving = errors.New("tasks: the worker ends")
)

// Permanent marks an error of a handler: another attempt would not help. It
// returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrPermanent, err)
}

// A Target selects the workers that may be given a task: see the package
// documentation. The zero Target is any. A Worker without a Key is taken
// whatever its labels.
type Target = wire.Target

// A State is the stage that a task has reached.
type State = wire.State

// The states of a task. The last two are final.
const (
	Queued   = wire.Queued
	Assigned = wire.Assigned
	Done     = wire.Done
	Failed   = wire.Failed
)

// A Spec is a task as it is submitted.
type Spec struct {
	// ID names the task within its group: 1 to MaxName letters, digits and
	// -_=/. Two tasks never share one.
	ID string
	// Payload is for the handler. At most MaxPayload bytes.
	Payload []byte
	// To selects the workers that may be given the task.
	To Target
	// Timeout is how long one attempt may take, MaxTimeout at most. Default:
	// DefaultTimeout.
	Timeout time.Duration
	// MaxAttempts is how many attempts may fail or get lost before the task has
	// failed. Default: DefaultMaxAttempts.
	MaxAttempts int
	// Backoff is the delay after the first attempt that failed; it doubles with
	// each, up to a minute. Default: DefaultBackoff. Negative: none.
	Backoff time.Duration
}

// record checks the task and returns what is stored first.
func (s Spec) record(now time.Time) (wire.Record, error) {
	var errs []error
	bad := func(broken bool, format string, args ...any) {
		if broken {
			errs = append(errs, fmt.Errorf("%w: task %.200q: %s", ErrInvalid, s.ID, fmt.Sprintf(format, args...)))
		}
	}
	bad(!ValidName(s.ID), "ID: %s", nameRule)
	bad(s.To.Worker != "" && !ValidName(s.To.Worker), "To.Worker %.200q: %s", s.To.Worker, nameRule)
	bad(s.To.Label != "" && !ValidName(s.To.Label), "To.Label %.200q: %s", s.To.Label, nameRule)
	bad(len(s.To.Key) > MaxName || !utf8.ValidString(s.To.Key), "To.Key %.200q: must have at most %d bytes of UTF-8", s.To.Key, MaxName)
	bad(len(s.Payload) > MaxPayload, "Payload of %d bytes: must have at most %d", len(s.Payload), MaxPayload)
	bad(s.Timeout < 0 || s.Timeout > MaxTimeout, "Timeout %v: must be 0 to %v", s.Timeout, MaxTimeout)
	bad(s.Backoff > MaxTimeout, "Backoff %v: must be at most %v", s.Backoff, MaxTimeout)
	bad(s.MaxAttempts < 0, "MaxAttempts %d: must not be negative", s.MaxAttempts)
	r := wire.Record{
		State: Queued, Payload: s.Payload, To: s.To, Timeout: s.Timeout, MaxAttempts: s.MaxAttempts, Backoff: max(s.Backoff, 0), Submitted: now,
	}
	if r.Timeout == 0 {
		r.Timeout = DefaultTimeout
	}
	if r.MaxAttempts == 0 {
		r.MaxAttempts = DefaultMaxAttempts
	}
	if s.Backoff == 0 {
		r.Backoff = DefaultBackoff
	}
	return r, errors.Join(errs...)
}

var nameRule = fmt.Sprintf("must be 1 to %d letters, digits and -_=/", MaxName) //nolint:gochecknoglobals // a constant that Go cannot declare as one

// ValidName reports whether a task, a worker or a label may have the name: 1 to
// [MaxName] letters, digits and -_=/. A dot is not allowed, so that a name is
// one token of a NATS subject.
func ValidName(name string) bool { return wire.ValidName(name) }

// A Task is what a handler is given.
type Task struct {
	// ID and Payload are what the task was submitted with.
	ID      string
	Payload []byte
	// Attempt counts the assignments of the task, from 1 on.
	Attempt int
	// Term is the term of the leader that ordered the attempt, for the
	// resources that the handler changes. Later leaders may have taken the
	// attempt over from it meanwhile.
	Term leader.Term
}

// A Handler runs an attempt of a task, and returns its result, at most
// MaxPayload bytes. An error means that the attempt has failed. An error that
// matches [ErrPermanent] means that the task has failed. ctx ends when the
// attempt has had its time, when it is revoked, and when the worker has to end;
// its cause shows which. Handlers run side by side, as many as the worker's
// capacity. A panic counts as an error.
type Handler func(ctx context.Context, t Task) (result []byte, err error)

// A Status describes a task.
type Status struct {
	// ID is the task's ID, and State its state.
	ID    string
	State State
	// Attempt is the number of the latest assignment, Failures how many
	// attempts failed or got lost.
	Attempt, Failures int
	// Term is the number of the term that wrote the record, 0 for the
	// submitter.
	Term uint64
	// Worker has the task, or had it at its end.
	Worker string
	// Result is what the handler returned, of a task that is Done.
	Result []byte
	// Error is the reason why the latest attempt failed.
	Error string
	// Revision is the record's revision in its store.
	Revision uint64
}

func statusOf(e Entry) Status {
	r := e.Record
	return Status{
		ID: e.ID, State: r.State, Attempt: r.Attempt, Failures: r.Failures, Term: r.Term, Worker: r.Worker,
		Result: r.Result, Error: r.Error, Revision: e.Revision,
	}
}
