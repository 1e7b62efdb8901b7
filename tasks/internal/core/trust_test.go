package core_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/tasks/internal/core"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

func TestRecordOfANewerTermIsLeftAloneAndStopsNothing(t *testing.T) {
	d := newDesk(t)
	poison := waiting()
	poison.Term = 6
	d.rev++
	d.l.Stored(d.now, "poison", d.rev, poison)
	d.l.Watched(d.rev)
	out := d.l.Take()
	if len(out.Parked) != 1 || out.Parked[0].ID != "poison" || len(out.Writes) > 0 || d.l.Count().Parked != 1 {
		t.Fatalf("%+v, %+v", out, d.l.Count())
	}
	at := d.rev
	if w := d.submit("x"); w.ID != "x" || w.Record.Term != 5 {
		t.Errorf("%+v", w)
	}
	if low := d.l.Low(); low != at {
		t.Errorf("a successor reads from %d, and would miss the record at %d", low, at)
	}
}

// Late news of a parked record, or of a record that was repaired, changes
// nothing.
func TestRecordThatIsRepairedIsHandedOut(t *testing.T) {
	d := newDesk(t)
	d.l.Invalid(d.now, "x", 20, "broken")
	d.l.Stored(d.now, "x", 19, waiting())
	if out := d.l.Take(); len(out.Writes) > 0 || len(out.Parked) != 1 || d.l.Count().Parked != 1 {
		t.Errorf("%+v, %+v", out, d.l.Count())
	}
	d.l.Stored(d.now, "x", 21, waiting())
	d.l.Invalid(d.now, "x", 20, "broken")
	if w := d.written(); w.ID != "x" || w.Expected != 21 || d.l.Count().Parked != 0 {
		t.Errorf("%+v, %+v", w, d.l.Count())
	}
	d.l.Invalid(d.now, "y", 30, "broken")
	d.l.Deleted(d.now, "y", 31)
	d.l.Watched(31)
	d.l.Invalid(d.now, "y", 30, "broken")
	if n := d.l.Count().Parked; n != 0 {
		t.Errorf("%d records are parked after their removal", n)
	}
}

func TestAttemptOfATaskWhoseRecordWasSpoiledIsRevoked(t *testing.T) {
	d := newDesk(t)
	d.stored(d.submit("x"))
	d.rev++
	d.l.Invalid(d.now, "x", d.rev, "broken")
	d.l.Wrote(d.now, "x", d.rev-1, d.rev+1, false)
	out := d.l.Take()
	if len(out.Messages) != 1 || len(out.Messages[0].Revoked) != 1 || len(out.Writes)+len(out.Reads) > 0 {
		t.Errorf("%+v, want the attempt revoked", out)
	}
	d.report(1, true)
	if out := d.l.Take(); len(out.Writes) > 0 {
		t.Errorf("%+v: a spoiled record is written", out)
	}
}

// Anybody may state our term, so the term does not make a record ours.
func TestRecordOfOurTermThatWeDidNotWriteIsRead(t *testing.T) {
	d := newDesk(t)
	w := d.submit("x")
	d.l.Own("x", d.rev+1) // reported before its acknowledgement
	d.stored(w)
	d.l.Own("x", d.rev)
	if out := d.l.Take(); len(out.Reads) > 0 {
		t.Errorf("%+v: our own record is read", out)
	}
	d.l.Own("x", d.rev+1)
	d.l.Own("y", d.rev+2)
	d.l.Watched(d.rev + 2)
	d.l.Own("z", d.rev) // reported again, as after an interruption
	if out := d.l.Take(); !slices.Equal(out.Reads, []string{"x", "y"}) {
		t.Errorf("%+v, want x and y read", out)
	}
}

func TestWorkerThatReportsANewerTermIsGivenNothing(t *testing.T) {
	d := newDesk(t)
	d.stored(d.submit("x"))
	presence := &wire.Presence{Capacity: 2, Lease: time.Hour, Held: []wire.Ref{{ID: "x", Attempt: 1}}}
	for range 2 {
		d.l.Heard(d.now, wire.FromWorker{Worker: "w", Run: "1", Seen: math.MaxUint64, Presence: presence})
	}
	d.rev++
	d.l.Stored(d.now, "y", d.rev, waiting())
	if out := d.l.Take(); !slices.Equal(out.Lost, []core.Lost{{Worker: "w", Newer: true}}) || len(out.Writes)+len(out.Messages) > 0 {
		t.Errorf("%+v: it keeps what it has, and is given nothing", out)
	}
	// Other workers go on.
	d.l.Heard(d.now, wire.FromWorker{Worker: "v", Run: "1", Presence: &wire.Presence{Capacity: 1, Lease: time.Hour}})
	if w := d.written(); w.ID != "y" || w.Record.Worker != "v" {
		t.Errorf("%+v", w)
	}
	// Its attempt ends with the deadline.
	d.now = 3 * time.Second
	if w := d.written(); w.ID != "x" || w.Record.State != wire.Queued {
		t.Errorf("%+v", w)
	}
	// Another program may have spoken in its name.
	d.l.Heard(d.now, wire.FromWorker{Worker: "w", Run: "1", Seen: 5, SeenToken: "t", Presence: presence})
	d.rev++
	d.l.Stored(d.now, "z", d.rev, waiting())
	if w := d.written(); w.ID != "z" || w.Record.Worker != "w" {
		t.Errorf("%+v", w)
	}
}

// A record may state any number of failures.
func TestDelayAfterAFailureIsNotALoopOverTheFailures(t *testing.T) {
	for _, c := range []struct {
		backoff  time.Duration
		failures int
		want     time.Duration
	}{
		{0, math.MaxInt, 0}, {-1, math.MaxInt, 0}, {1, math.MaxInt, time.Minute}, {time.Second, math.MaxInt, time.Minute},
		{time.Second, 1, time.Second}, {time.Second, 3, 4 * time.Second}, {time.Second, 6, 32 * time.Second}, {time.Second, 7, time.Minute},
		{time.Hour, 9, time.Hour}, {math.MaxInt64, 9, core.MaxTimeout},
	} {
		d := newDesk(t)
		r := waiting()
		r.Backoff, r.Failures, r.MaxAttempts = c.backoff, c.failures, math.MaxInt
		d.l.Stored(0, "x", 11, r)
		if c.want > 0 {
			d.now = c.want - 1
			d.l.Tick(d.now)
			if out := d.l.Take(); len(out.Writes) > 0 {
				t.Errorf("%+v: before its time: %+v", c, out)
			}
		}
		d.now = c.want
		d.l.Heard(d.now, wire.FromWorker{Worker: "w", Run: "1", Presence: &wire.Presence{Capacity: 1, Lease: time.Hour}})
		d.written()
	}
}

func TestTaskWithoutANumberForAnotherAttemptFails(t *testing.T) {
	for name, end := range map[string]func(d *desk){
		"failure": func(d *desk) { d.report(wire.MaxAttempt, false) },
		"refusal": func(d *desk) {
			d.l.Heard(d.now, wire.FromWorker{Worker: "w", Run: "1", Refused: []wire.Refusal{{Ref: wire.Ref{ID: "x", Attempt: wire.MaxAttempt}, Why: wire.Full}}})
		},
	} {
		d := newDesk(t)
		r := waiting()
		r.Attempt = wire.MaxAttempt - 1
		d.rev++
		d.l.Stored(0, "x", d.rev, r)
		d.stored(d.written())
		end(d)
		if w := d.written(); w.Record.State != wire.Failed || w.Record.Error == "" || w.Record.Validate() != nil {
			t.Errorf("%s: %+v", name, w.Record)
		}
	}
}

func TestLeaderKnowsABoundedNumberOfWorkers(t *testing.T) {
	d := newDesk(t)
	d.l.Take()
	for i := range core.MaxWorkers {
		d.l.Heard(d.now, wire.FromWorker{Worker: fmt.Sprint("x", i), Run: "1", Presence: &wire.Presence{Lease: time.Second}})
	}
	out := d.l.Take()
	if n := d.l.Count().Workers; n != core.MaxWorkers || !slices.Equal(out.Excess, []string{fmt.Sprint("x", core.MaxWorkers-1)}) {
		t.Errorf("%d workers, %v were not admitted", n, out.Excess)
	}
	d.now = time.Minute
	d.l.Tick(d.now)
	d.l.Heard(d.now, wire.FromWorker{Worker: "late", Run: "1", Presence: &wire.Presence{Lease: time.Second}})
	if !d.l.Knows("late") {
		t.Error("a worker is not admitted though others have gone")
	}
}
