// Package attend ends calls whose answer will never come from the server.
package attend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// Why a call that waits is ended before its time.
var (
	ErrInterrupted = errors.New("the connection broke during the call")
	ErrDenied      = errors.New("the user lacks a permission")
)

// FirstLook is the delay before a waiting call first has its connection looked
// at. It doubles up to rarest: when everything is slow, a thousand such looks
// must not compete with the answers for the connection.
const (
	FirstLook = 20 * time.Millisecond
	rarest    = 16 * FirstLook
)

// A Report is what a connection had to report at some instant.
type Report struct {
	Err        error
	Reconnects uint64
	Connected  bool
}

// ReportOf returns what the connection has to report now.
func ReportOf(nc *nats.Conn) Report {
	return Report{Err: nc.LastError(), Reconnects: nc.Stats().Reconnects, Connected: nc.IsConnected()}
}

// Since returns what was reported last, if that was after the report before,
// and on the same connection.
func (r Report) Since(before Report) error {
	//nolint:errorlint // the same value again is the same report, an equal text in another value is a new one
	if r.Err == before.Err || r.Reconnects != before.Reconnects {
		return nil
	}
	return r.Err
}

// An Attendant ends calls whose answer will never come: their connection broke,
// or has reported that the user may not publish to the subject or receive the
// answer. The client library would let each such call wait for its deadline.
//
// A single timer serves all calls, because most get their answer long before the
// first look. It is set while a call waits, and for one look more.
//
// It is safe for concurrent use.
type Attendant struct {
	look  func() Report
	inbox string
	guard func(f func()) func()

	mu    sync.Mutex // guards all that follows
	calls []*Call
	timer *time.Timer
	next  time.Time // when the timer fires; zero: it is not set
}

// New returns an attendant. Look returns what the connection has to report,
// inbox is the prefix of the subjects of answers, and guard returns f for a
// goroutine that is not its caller's.
func New(look func() Report, inbox string, guard func(f func()) func()) *Attendant {
	return &Attendant{look: look, inbox: inbox, guard: guard}
}

// A Waiter waits for the answer to a call.
type Waiter interface {
	// GiveUp ends the wait, unless it has ended.
	GiveUp(cause error)
}

// A canceler ends a context by which somebody waits.
type canceler context.CancelCauseFunc

func (c canceler) GiveUp(cause error) { c(cause) }

// A Call waits for its answer.
type Call struct {
	// Waiter receives the end of the call. Before is what the connection had to
	// report before the call was sent, and Subject where it was published.
	Waiter  Waiter
	Before  Report
	Subject string
	// Deadline is by when it is ended. Zero: the caller sees to that.
	Deadline time.Time
	// refused asks the server for the call's right alone, and returns its
	// denial, if any. The connection shows the latest denial alone, so another
	// one may hide the call's. Nil: that cannot be asked, or has been.
	refused func() error

	at    time.Time // of the next look
	wait  time.Duration
	place int // among the calls, from 1 on; 0: not among them
}

// Begin attends to a call, which waits no longer than the returned context
// lasts. Refused, if not nil, asks the server for the call's right alone and
// returns its denial, if any. Begin calls it once at most, on a separate
// goroutine. The caller ends the call by End.
func (a *Attendant) Begin(parent context.Context, before Report, subject string, refused func(context.Context) error) (context.Context, *Call) {
	ctx, cancel := context.WithCancelCause(parent)
	call := &Call{Waiter: canceler(cancel), Before: before, Subject: subject}
	if refused != nil {
		call.refused = func() error { return refused(ctx) }
	}
	a.Attend(call)
	return ctx, call
}

// Attend attends to a call until Forget.
func (a *Attendant) Attend(call *Call) {
	call.lookAfter(time.Now(), FirstLook)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, call)
	call.place = len(a.calls)
	a.lookBy(call.at)
}

// End ends what Begin began.
func (a *Attendant) End(call *Call) {
	call.Waiter.GiveUp(nil)
	a.Forget(call)
}

// Forget ends what Attend began, if it did.
func (a *Attendant) Forget(call *Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if call.place == 0 {
		return
	}
	last := len(a.calls)
	moved := a.calls[last-1]
	a.calls[call.place-1], moved.place = moved, call.place
	a.calls[last-1], call.place = nil, 0
	a.calls = a.calls[:last-1]
}

func (a *Attendant) lookBy(at time.Time) {
	switch {
	case !a.next.IsZero() && !at.Before(a.next):
		return
	case a.timer == nil:
		a.timer = time.AfterFunc(time.Until(at), a.guard(a.attend))
	default:
		a.timer.Reset(time.Until(at))
	}
	a.next = at
}

// attend looks at the connection for all calls that are due.
func (a *Attendant) attend() {
	for _, act := range a.due() {
		act()
	}
}

// due returns the cancellations of the calls that wait without hope, and the
// questions for those whose denial may be hidden.
func (a *Attendant) due() (acts []func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = time.Time{}
	if len(a.calls) == 0 {
		return nil
	}
	now, seen := time.Now(), a.look()
	for _, call := range a.calls {
		if now.Before(call.at) {
			continue
		}
		if cause := call.vain(seen, now, a.inbox); cause != nil {
			acts = append(acts, func() { call.Waiter.GiveUp(cause) })
		} else if call.refused != nil && errors.Is(seen.Since(call.Before), nats.ErrPermissionViolation) {
			refused := call.refused
			call.refused = nil // a right that the user has is not asked for twice
			ask := a.guard(func() {
				if denied := refused(); denied != nil {
					call.Waiter.GiveUp(fmt.Errorf("%w: %w", ErrDenied, denied))
				}
			})
			acts = append(acts, func() { go ask() })
		}
		call.lookAfter(now, min(2*call.wait, rarest))
	}
	for _, call := range a.calls {
		a.lookBy(call.at)
	}
	return acts
}

// vain returns the reason why no answer will come, if there is one.
func (c *Call) vain(seen Report, now time.Time, inbox string) error {
	switch {
	case !seen.Connected || seen.Reconnects != c.Before.Reconnects:
		return ErrInterrupted
	case c.denied(seen.Since(c.Before), inbox):
		return fmt.Errorf("%w: %w", ErrDenied, seen.Err)
	case !c.Deadline.IsZero() && !now.Before(c.Deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// denied reports whether the reported error denies the call or its answer.
func (c *Call) denied(reported error, inbox string) bool {
	return wire.Violation(reported, wire.Publish, c.Subject) != nil || wire.Violation(reported, wire.Subscribe, inbox) != nil
}

// lookAfter plans the next look, which comes no later than the deadline.
func (c *Call) lookAfter(now time.Time, wait time.Duration) {
	c.wait, c.at = wait, now.Add(wait)
	if c.Deadline.After(now) && c.at.After(c.Deadline) {
		c.at = c.Deadline
	}
}

// Interrupted replaces the cancellation by which a call was ended with its
// reason.
func Interrupted(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrInterrupted) || errors.Is(cause, ErrDenied) {
		return cause
	}
	return err
}
