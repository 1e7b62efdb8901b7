package core

import (
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// A worker that was held up reads the order and its revocation together.
// Nothing of such an attempt is started: it may have been given to another
// meanwhile, and a handler whose attempt is gone is never stopped again.
func TestAnOrderThatIsRevokedInTimeDoesNotStart(t *testing.T) {
	w := NewWorker(WorkerConfig{Name: "w", Run: "r", Capacity: 1})
	term := wire.Term{Number: 1, Token: "t"}
	first, second := wire.Ref{ID: "x", Attempt: 1}, wire.Ref{ID: "x", Attempt: 2}
	w.Heard(wire.ToWorker{Term: term, Orders: []wire.Order{{Ref: first, Timeout: time.Hour}}})
	w.Heard(wire.ToWorker{Term: term, Revoked: []wire.Ref{first}})
	if starts, stops, _ := w.Take(); len(starts) != 0 || len(stops) != 0 {
		t.Errorf("begins %v, stops %v", starts, stops)
	}
	if !w.Idle() {
		t.Error("it is not idle")
	}
	// Its place is free again, and a later attempt takes an earlier one's
	// place.
	w.Heard(wire.ToWorker{Term: term, Orders: []wire.Order{{Ref: first, Timeout: time.Hour}}})
	w.Heard(wire.ToWorker{Term: term, Orders: []wire.Order{{Ref: second, Timeout: time.Hour}}})
	starts, stops, say := w.Take()
	if len(starts) != 1 || starts[0].Ref != second || len(stops) != 0 || say != nil && len(say.Refused) != 0 {
		t.Errorf("begins %v, stops %v, sends %+v", starts, stops, say)
	}
}

// A transport may deliver an order twice, and late. The handler of a revoked
// attempt may still run then: a second one would take its place in the books.
func TestAnOrderThatComesAgainAfterItsRevocationBeginsNothing(t *testing.T) {
	w := NewWorker(WorkerConfig{Name: "w", Run: "r", Capacity: 2})
	term, ref := wire.Term{Number: 1, Token: "t"}, wire.Ref{ID: "x", Attempt: 1}
	order := wire.ToWorker{Term: term, Orders: []wire.Order{{Ref: ref, Timeout: time.Hour}}}
	w.Heard(order)
	w.Take()
	w.Heard(wire.ToWorker{Term: term, Revoked: []wire.Ref{ref}})
	w.Take()
	w.Heard(order)
	if starts, _, _ := w.Take(); len(starts) != 0 {
		t.Errorf("begins %v", starts)
	}
	w.Returned(wire.Report{Ref: ref, OK: true})
	_, _, say := w.Take()
	if !w.Idle() || say == nil || len(say.Reports) != 0 || say.Presence == nil || say.Presence.Capacity != 2 {
		t.Errorf("idle: %v, sends %+v", w.Idle(), say)
	}
}
