package wire_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

var long = strings.Repeat("x", wire.MaxName+1)

// A rule is a field that breaks its rule, and the word by which the error names
// it.
type rule[T any] struct {
	word   string
	broken func(v *T)
}

// refuses demands that a valid value is accepted, and that each rule refuses.
func refuses[T any](t *testing.T, valid func() T, validate func(*T) error, rules []rule[T]) {
	t.Helper()
	v := valid()
	if err := validate(&v); err != nil {
		t.Fatalf("a valid one: %v", err)
	}
	for i, r := range rules {
		v := valid()
		r.broken(&v)
		if err := validate(&v); err == nil || !strings.Contains(err.Error(), r.word) {
			t.Errorf("rule %d: %v; it should name %q", i, err, r.word)
		} else if len(err.Error()) > 400 {
			t.Errorf("rule %d: an error of %d bytes", i, len(err.Error()))
		}
	}
}

func record() wire.Record {
	return wire.Record{
		State: wire.Assigned, Payload: make([]byte, wire.MaxPayload), To: wire.Target{Worker: "w", Label: "l", Key: "\u00fc.*"},
		Timeout: wire.MaxTimeout, MaxAttempts: math.MaxInt, Backoff: wire.MaxTimeout, Submitted: time.Now(), Term: math.MaxUint64,
		Attempt: wire.MaxAttempt, Failures: 7, Worker: "w", Run: "r.1", Result: make([]byte, wire.MaxPayload), Error: "<e>",
	}
}

func TestRecordWithAFieldThatBreaksItsRuleIsRefused(t *testing.T) {
	refuses(t, record, (*wire.Record).Validate, []rule[wire.Record]{
		{"state", func(r *wire.Record) { r.State = "" }},
		{"state", func(r *wire.Record) { r.State = wire.State(strings.Repeat("x", 1<<20)) }},
		{"payload", func(r *wire.Record) { r.Payload = append(r.Payload, 0) }},
		{"to.worker", func(r *wire.Record) { r.To.Worker = "a.b" }},
		{"to.worker", func(r *wire.Record) { r.To.Worker = long }},
		{"to.label", func(r *wire.Record) { r.To.Label = "*" }},
		{"to.key", func(r *wire.Record) { r.To.Key = long }},
		{"to.key", func(r *wire.Record) { r.To.Key = "\xff" }},
		{"timeout", func(r *wire.Record) { r.Timeout = 0 }},
		{"timeout", func(r *wire.Record) { r.Timeout = math.MinInt64 }},
		{"timeout", func(r *wire.Record) { r.Timeout = math.MaxInt64 }},
		{"max_attempts", func(r *wire.Record) { r.MaxAttempts = 0 }},
		{"max_attempts", func(r *wire.Record) { r.MaxAttempts = math.MinInt }},
		{"backoff", func(r *wire.Record) { r.Backoff = -1 }},
		{"backoff", func(r *wire.Record) { r.Backoff = math.MaxInt64 }},
		// Both can be read and not be written again.
		{"submitted", func(r *wire.Record) { r.Submitted = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"submitted", func(r *wire.Record) { r.Submitted = time.Now().In(time.FixedZone("", 24*60*60)) }},
		{"attempt", func(r *wire.Record) { r.Attempt = -1 }},
		{"attempt", func(r *wire.Record) { r.Attempt = wire.MaxAttempt + 1 }},
		{"attempt", func(r *wire.Record) { r.Attempt = math.MaxInt }},
		{"failures", func(r *wire.Record) { r.Failures = -1 }},
		{"failures", func(r *wire.Record) { r.Failures = math.MaxInt }},
		{"failures", func(r *wire.Record) { r.Attempt, r.Failures = 7, 8 }},
		{"worker", func(r *wire.Record) { r.Worker = "w.h" }},
		{"run", func(r *wire.Record) { r.Run = long }},
		{"assigned", func(r *wire.Record) { r.Worker = "" }},
		{"assigned", func(r *wire.Record) { r.Run = "" }},
		{"assigned", func(r *wire.Record) { r.Attempt, r.Failures = 0, 0 }},
		{"further", func(r *wire.Record) { r.State = wire.Queued }},
		{"result", func(r *wire.Record) { r.Result = append(r.Result, 0) }},
		{"error", func(r *wire.Record) { r.Error = strings.Repeat("e", wire.MaxPayload+1) }},
	})
}

func TestRecordOfASubmitterIsValid(t *testing.T) {
	for _, r := range []wire.Record{
		{State: wire.Queued, Timeout: 1, MaxAttempts: 1},
		{State: wire.Failed, Timeout: 1, MaxAttempts: 1, Error: "cancelled"},
	} {
		if err := r.Validate(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func refs(id string, attempt int) []wire.Ref {
	return []wire.Ref{{ID: "x", Attempt: 1}, {ID: id, Attempt: attempt}}
}

func TestMessageOfAWorkerWithAFieldThatBreaksItsRuleIsRefused(t *testing.T) {
	refuses(t, func() wire.FromWorker {
		return wire.FromWorker{
			Worker: "w", Run: "r.1", Seen: math.MaxUint64, SeenToken: "t", Leaving: true,
			Presence: &wire.Presence{Labels: make64("l"), Capacity: wire.MaxCapacity, Lease: math.MaxInt64, Held: refs("y", wire.MaxAttempt)},
			Refused:  []wire.Refusal{{Ref: refs("y", 2)[1], Why: "a reason of later versions"}},
			Reports:  []wire.Report{{Ref: refs("y", 2)[1], Result: make([]byte, 1<<20)}},
		}
	}, (*wire.FromWorker).Validate, []rule[wire.FromWorker]{
		{"worker", func(m *wire.FromWorker) { m.Worker = "" }},
		{"worker", func(m *wire.FromWorker) { m.Worker = "w.h" }},
		{"worker", func(m *wire.FromWorker) { m.Worker = strings.Repeat("x", 1<<20) }},
		{"run", func(m *wire.FromWorker) { m.Run = "" }},
		{"run", func(m *wire.FromWorker) { m.Run = long }},
		{"labels", func(m *wire.FromWorker) { m.Presence.Labels = append(m.Presence.Labels, "l") }},
		{"label", func(m *wire.FromWorker) { m.Presence.Labels[7] = long }},
		{"label", func(m *wire.FromWorker) { m.Presence.Labels[7] = "" }},
		{"capacity", func(m *wire.FromWorker) { m.Presence.Capacity = -1 }},
		{"capacity", func(m *wire.FromWorker) { m.Presence.Capacity = math.MaxInt }},
		{"lease", func(m *wire.FromWorker) { m.Presence.Lease = -1 }},
		{"held: id", func(m *wire.FromWorker) { m.Presence.Held = refs("a.b", 1) }},
		{"held: attempt", func(m *wire.FromWorker) { m.Presence.Held = refs("y", 0) }},
		{"held: attempt", func(m *wire.FromWorker) { m.Presence.Held = refs("y", wire.MaxAttempt+1) }},
		{"refused: id", func(m *wire.FromWorker) { m.Refused[0].ID = "" }},
		{"why", func(m *wire.FromWorker) { m.Refused[0].Why = wire.Why(long) }},
		{"report: attempt", func(m *wire.FromWorker) { m.Reports[0].Attempt = math.MinInt }},
	})
}

// make64 returns as many labels as a worker may have.
func make64(label string) (labels []string) {
	for range wire.MaxLabels {
		labels = append(labels, label)
	}
	return labels
}

func TestMessageOfALeaderWithAFieldThatBreaksItsRuleIsRefused(t *testing.T) {
	refuses(t, func() wire.ToWorker {
		return wire.ToWorker{
			Term: wire.Term{Number: math.MaxUint64, Token: "t"}, Run: "r", Call: true, Revoked: refs("y", 2), Settled: refs("y", 2),
			Orders: []wire.Order{{Ref: refs("y", 1)[1], Payload: make([]byte, wire.MaxPayload), Timeout: wire.MaxTimeout}},
		}
	}, (*wire.ToWorker).Validate, []rule[wire.ToWorker]{
		{"run", func(m *wire.ToWorker) { m.Run = long }},
		{"order: id", func(m *wire.ToWorker) { m.Orders[0].ID = "a/../b" }},
		{"order: attempt", func(m *wire.ToWorker) { m.Orders[0].Attempt = 0 }},
		{"payload", func(m *wire.ToWorker) { m.Orders[0].Payload = make([]byte, wire.MaxPayload+1) }},
		{"timeout", func(m *wire.ToWorker) { m.Orders[0].Timeout = -1 }},
		{"timeout", func(m *wire.ToWorker) { m.Orders[0].Timeout = math.MaxInt64 }},
		{"revoked: id", func(m *wire.ToWorker) { m.Revoked = refs("", 1) }},
		{"settled: attempt", func(m *wire.ToWorker) { m.Settled = refs("y", math.MaxInt) }},
	})
}

// A field that is added needs a rule, or a reason to have none.
func TestEveryFieldHasARule(t *testing.T) {
	for of, n := range map[reflect.Type]int{
		reflect.TypeFor[wire.Record](): 14, reflect.TypeFor[wire.Target](): 3, reflect.TypeFor[wire.Ref](): 2, reflect.TypeFor[wire.Order](): 3,
		reflect.TypeFor[wire.ToWorker](): 6, reflect.TypeFor[wire.FromWorker](): 8, reflect.TypeFor[wire.Presence](): 5,
		reflect.TypeFor[wire.Refusal](): 2, reflect.TypeFor[wire.Report](): 5,
	} {
		if of.NumField() != n {
			t.Errorf("%v has %d fields, %d when its rules were written: see Validate", of, of.NumField(), n)
		}
	}
}
