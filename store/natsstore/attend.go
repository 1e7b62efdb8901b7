package natsstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// Why a call that waits is ended before its time.
var (
	errInterrupted = errors.New("the connection broke during the call")
	errDenied      = errors.New("the user lacks a permission")
)

// attention is when a call that waits has its connection looked at first. Each
// further look comes after twice as long, up to attentionMost: a thousand calls
// that wait, because everything is slow, must not contend for the connection
// with those that would end their wait.
const (
	attention     = 20 * time.Millisecond
	attentionMost = 16 * attention
)

// attendants end the calls that wait in vain: their connection broke, or has
// reported that the user may not publish to the subject or hear the answer. The
// client library would let such a call wait for its deadline, though no answer
// will come.
//
// One timer serves all calls, for most have their answer long before the first
// look. It is set while a call waits, and for one look more.
type attendants struct {
	look func() connReport // the connection's state, for all calls that are due

	inbox string // prefix of the subjects of answers
	guard func(f func()) func()

	mu    sync.Mutex // guards all that follows
	calls []*attended
	timer *time.Timer
	next  time.Time // when the timer fires; zero: it is not set
}

// An attended call waits for its answer.
type attended struct {
	cancel  context.CancelCauseFunc
	before  connReport
	subject string
	at      time.Time // of the next look
	wait    time.Duration
	place   int // among the calls
}

// begin attends to a call, which is to wait no longer than the returned context
// lasts. The caller ends it by end.
func (a *attendants) begin(parent context.Context, before connReport, subject string) (context.Context, *attended) {
	ctx, cancel := context.WithCancelCause(parent)
	call := &attended{cancel: cancel, before: before, subject: subject, at: time.Now().Add(attention), wait: attention}
	a.mu.Lock()
	defer a.mu.Unlock()
	call.place = len(a.calls)
	a.calls = append(a.calls, call)
	a.lookBy(call.at)
	return ctx, call
}

// end ends what begin began.
func (a *attendants) end(call *attended) {
	call.cancel(nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	last := len(a.calls) - 1
	a.calls[call.place] = a.calls[last]
	a.calls[call.place].place = call.place
	a.calls[last] = nil
	a.calls = a.calls[:last]
}

func (a *attendants) lookBy(at time.Time) {
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
func (a *attendants) attend() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = time.Time{}
	if len(a.calls) == 0 {
		return
	}
	now, seen := time.Now(), a.look()
	for _, call := range a.calls {
		if !now.Before(call.at) {
			call.attend(seen, now, a.inbox)
		}
	}
	for _, call := range a.calls {
		a.lookBy(call.at)
	}
}

func (c *attended) attend(seen connReport, now time.Time, inbox string) {
	switch {
	case !seen.connected || seen.reconnects != c.before.reconnects:
		c.cancel(errInterrupted)
	case wire.Violation(seen.since(c.before), c.subject, inbox) != nil:
		c.cancel(errDenied)
	}
	c.wait = min(2*c.wait, attentionMost)
	c.at = now.Add(c.wait)
}

// interrupted replaces the cancellation by which attend ended a call with its
// reason.
func interrupted(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, errInterrupted) || errors.Is(cause, errDenied) {
		return cause
	}
	return err
}
