// Package writes sends compare-and-swaps of which nobody waits for the answer.
package writes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/shield"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/attend"
	"github.com/seed-ff2cb582/leader/store/natsstore/internal/wire"
)

// An Owner knows its connection and what answers mean.
type Owner interface {
	// Sendable returns why a write is not to be sent, if it is not.
	Sendable(w store.Write, deadline time.Time) error
	// Settle concludes a write whose first attempt ended with err. It may wait.
	Settle(ctx context.Context, before attend.Report, w store.Write, err error) (uint64, error)
	// Panicked reports a panic.
	Panicked(what string, value any, stack []byte)
}

// A Flight is a write that Begin started.
type Flight struct {
	attend.Call

	writes *Writes
	write  store.Write
	token  uint64
	leaves bool // it is being sent, or was
	done   func(revision uint64, err error)

	// Of what is settled after an answer, or without one; guarded by the lock
	// of writes:
	stop     context.CancelFunc // nil before
	canceled bool               // by the caller, when it was pending no more
}

// Cancel implements [store.Pending].
func (f *Flight) Cancel() {
	if !f.writes.giveUp(f, context.Canceled) {
		f.writes.hurry(f)
	}
}

// GiveUp implements [attend.Waiter].
func (f *Flight) GiveUp(cause error) { f.writes.giveUp(f, cause) }

// Writes sends flights and takes in their answers. A single goroutine sends. A
// goroutine for each write would grow its stack each time, a tenth of a
// renewal's cost. It is not the goroutine of the watches, so that a slow
// function of a caller there delays no write. The answers come to the goroutine
// of one subscription.
//
// Whatever takes a flight out of the pending ones concludes it.
//
// It is safe for concurrent use.
type Writes struct {
	owner     Owner
	nc        *nats.Conn
	attendant *attend.Attendant
	inbox     string // ends in a dot
	wake      chan struct{}
	quit      chan struct{}
	gone      sync.WaitGroup // the goroutine

	// Of the goroutine alone:
	form *wire.Form
	idle []*Flight // becomes out, empty, when that is taken

	mu      sync.Mutex // guards all that follows; taken before the attendant's
	sub     *nats.Subscription
	out     []*Flight // to be sent
	pending map[uint64]*Flight
	latest  uint64 // the token that was given last
	retired bool
}

// New returns writes that have sent nothing, and have no goroutine before they
// do.
func New(owner Owner, nc *nats.Conn, names wire.Names, attendant *attend.Attendant) *Writes {
	return &Writes{
		owner: owner, nc: nc, attendant: attendant, form: names.NewForm(), inbox: nc.NewInbox() + ".",
		wake: make(chan struct{}, 1), quit: make(chan struct{}), pending: make(map[uint64]*Flight),
	}
}

// Begin begins a write, as [store.AsyncWriter] describes. It reports false if
// it cannot: then done is not called.
func (w *Writes) Begin(deadline time.Time, write store.Write, done func(revision uint64, err error)) (f *Flight, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retired {
		return nil, false
	}
	if w.sub == nil {
		sub, err := w.nc.Subscribe(w.inbox+"*", w.answered)
		if err != nil {
			return nil, false
		}
		w.sub = sub
		w.gone.Go(w.run)
	}
	w.latest++
	f = &Flight{Call: attend.Call{Deadline: deadline}, writes: w, write: write, token: w.latest, done: done}
	w.pending[f.token] = f
	w.out = append(w.out, f)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return f, true
}

// Retire has the goroutine end, and the subscription with the last flight.
func (w *Writes) Retire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retired {
		return
	}
	w.retired = true
	close(w.quit)
	w.endIfIdle()
}

// Wait waits until the goroutine is gone.
func (w *Writes) Wait() { w.gone.Wait() }

func (w *Writes) endIfIdle() {
	if w.retired && w.sub != nil && len(w.pending) == 0 {
		_ = w.sub.Unsubscribe() // fails only if the connection is gone, and the subscription with it
		w.sub = nil
	}
}

func (w *Writes) run() {
	for last := false; !last; {
		select {
		case <-w.wake:
		case <-w.quit:
			last = true
		}
		out := w.unsent()
		for _, f := range out {
			if !w.shielded("the sending of a write", func() { w.send(f) }) {
				w.giveUp(f, errPanicked)
			}
		}
		w.form.Empty()
		clear(out)
		w.idle = out[:0]
	}
}

// shielded calls f, and reports whether it returned.
func (w *Writes) shielded(what string, f func()) bool {
	return shield.Call(f, func(value any, stack []byte) { w.owner.Panicked(what, value, stack) })
}

var errPanicked = errors.New("its sending panicked")

func (w *Writes) unsent() []*Flight {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.out
	w.out, w.idle = w.idle, nil
	return out
}

// take takes a flight out of the pending ones. It returns nil for one that was
// taken before.
func (w *Writes) take(token uint64) *Flight {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.pending[token]
	delete(w.pending, token)
	w.endIfIdle()
	return f
}

func (w *Writes) send(f *Flight) {
	faults.Point("writes")
	if err := w.owner.Sendable(f.write, f.Deadline); err != nil {
		if w.take(f.token) != nil {
			w.tell(f, 0, err)
		}
		return
	}
	m := w.form.Fill(f.write)
	var digits [16]byte
	m.Reply = w.inbox + string(strconv.AppendUint(digits[:0], f.token, 36))
	if !w.prepare(f, m.Subject) {
		return
	}
	if err := w.nc.PublishMsg(m); err != nil {
		w.giveUp(f, err)
	}
}

// prepare has a flight attended to, and reports whether it is to be sent.
func (w *Writes) prepare(f *Flight, subject string) bool {
	before := attend.ReportOf(w.nc)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[f.token] != f {
		return false // given up
	}
	f.leaves, f.Before, f.Subject = true, before, subject
	f.Waiter = f
	w.attendant.Attend(&f.Call)
	return true
}

// answered takes in an answer, on the goroutine of the subscription.
func (w *Writes) answered(m *nats.Msg) {
	token, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, w.inbox), 36, 64)
	if err != nil {
		return
	}
	f := w.take(token)
	if f == nil {
		return // too late, or a second answer
	}
	w.attendant.Forget(&f.Call)
	rev, err := wire.Ack(m)
	if err != nil {
		w.settle(f, err)
		return
	}
	w.tell(f, rev, nil)
}

// giveUp ends a flight that has no answer, and reports whether it did.
func (w *Writes) giveUp(f *Flight, cause error) bool {
	if w.take(f.token) == nil {
		return false
	}
	w.attendant.Forget(&f.Call)
	w.settle(f, cause)
	return true
}

// hurry ends the settling of a flight that has had an answer: the owner may
// have to ask the server, which may be silent until the deadline.
func (w *Writes) hurry(f *Flight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.canceled = true
	if f.stop != nil {
		f.stop()
	}
}

// settle concludes a flight that failed, on a separate goroutine: it may have
// to ask the server why.
func (w *Writes) settle(f *Flight, cause error) {
	go w.conclude(f, func() (uint64, error) {
		if !f.leaves {
			return 0, fmt.Errorf("%w: not sent: %w", store.ErrTransient, cause)
		}
		ctx, cancel := context.WithDeadline(context.Background(), f.Deadline)
		defer cancel()
		w.mu.Lock()
		f.stop = cancel
		if f.canceled {
			cancel()
		}
		w.mu.Unlock()
		return w.owner.Settle(ctx, f.Before, f.write, cause)
	})
}

// conclude reports the outcome that end returns. If end panics, the outcome is
// unknown.
func (w *Writes) conclude(f *Flight, end func() (uint64, error)) {
	var rev uint64
	err := fmt.Errorf("%w: key %q: the end of the write panicked", store.ErrUnknown, f.write.Key)
	w.shielded("the end of a write", func() { rev, err = end() })
	w.tell(f, rev, err)
}

func (w *Writes) tell(f *Flight, rev uint64, err error) {
	w.shielded("a function that a write calls", func() { f.done(rev, err) })
}
