package core_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/tasks/internal/core"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// A desk is a leader with one worker, whose writes are answered by the test.
type desk struct {
	t   *testing.T
	l   *core.Leader
	now time.Duration
	rev uint64
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, rev: 10}
	d.l = core.NewLeader(core.Config{Term: wire.Term{Number: 5, Token: "t"}, Lease: time.Minute, Grace: time.Second, Reread: 20 * ms})
	d.l.Present(0)
	d.l.Heard(0, wire.FromWorker{Worker: "w", Run: "1", Presence: &wire.Presence{Capacity: 1, Lease: time.Hour}})
	return d
}

// submit reports a task, and returns the write that assigns it.
func (d *desk) submit(id string) core.Write {
	d.t.Helper()
	d.rev++
	d.l.Stored(d.now, id, d.rev, wire.Record{State: wire.Queued, Timeout: time.Second, MaxAttempts: 9})
	return d.written()
}

// written returns the one write that is wanted.
func (d *desk) written() core.Write {
	d.t.Helper()
	d.l.Tick(d.now)
	out := d.l.Take()
	if len(out.Writes) != 1 {
		d.t.Fatalf("at %v: %+v, want one write", d.now, out)
	}
	return out.Writes[0]
}

// asked awaits the one read that is due.
func (d *desk) asked() {
	d.t.Helper()
	for range 1000 {
		d.l.Tick(d.now)
		if len(d.l.Take().Reads) == 1 {
			return
		}
		d.now += 10 * ms
	}
	d.t.Fatal("nothing is read")
}

// stored answers a write, and returns what follows.
func (d *desk) stored(w core.Write) core.Output {
	d.rev++
	d.l.Wrote(d.now, w.ID, w.Expected, d.rev, true)
	return d.l.Take()
}

func (d *desk) report(attempt int, ok bool) {
	d.l.Heard(d.now, wire.FromWorker{Worker: "w", Run: "1", Reports: []wire.Report{{Ref: wire.Ref{ID: "x", Attempt: attempt}, OK: ok}}})
}

func TestTheOrderFollowsTheWriteAndTheSettlementTheRecord(t *testing.T) {
	d := newDesk(t)
	w := d.submit("x")
	if w.Record.State != wire.Assigned || w.Record.Attempt != 1 || w.Record.Term != 5 || w.Expected != d.rev {
		t.Errorf("%+v", w)
	}
	if out := d.stored(w); len(out.Messages) != 1 || len(out.Messages[0].Orders) != 1 || out.Messages[0].Term.Number != 5 {
		t.Errorf("%+v, want the order", out)
	}
	d.report(1, true)
	w = d.written()
	if out := d.stored(w); w.Record.State != wire.Done || len(out.Messages) != 1 || len(out.Messages[0].Settled) != 1 {
		t.Errorf("%+v, %+v, want it settled", w, out)
	}
}

func TestAReportOfAnEarlierAttemptIsSettledAndNotRecorded(t *testing.T) {
	d := newDesk(t)
	d.stored(d.submit("x"))
	d.now = 3 * time.Second // the first attempt has had its time
	d.stored(d.written())
	d.l.Heard(d.now, wire.FromWorker{Worker: "w", Run: "1", Presence: &wire.Presence{Capacity: 1, Lease: time.Hour}})
	w := d.written()
	if w.Record.Attempt != 2 {
		t.Fatalf("%+v", w)
	}
	d.stored(w)
	d.report(1, true)
	if out := d.l.Take(); len(out.Writes) != 0 || len(out.Messages) != 1 || len(out.Messages[0].Settled) != 1 {
		t.Errorf("%+v", out)
	}
}

func TestAWriteOfUnknownOutcomeIsFollowedByARead(t *testing.T) {
	d := newDesk(t)
	w := d.submit("x")
	d.l.Wrote(d.now, w.ID, w.Expected, 0, false)
	if out := d.l.Take(); len(out.Writes)+len(out.Reads) != 0 {
		t.Errorf("at once: %+v", out)
	}
	d.now += 20 * ms
	d.l.Tick(d.now)
	if out := d.l.Take(); len(out.Reads) != 1 || len(out.Writes) != 0 {
		t.Errorf("after the pause: %+v", out)
	}
	// It was applied after all, and is taken for what it is.
	d.rev++
	d.l.Stored(d.now, w.ID, d.rev, w.Record)
	if out := d.l.Take(); len(out.Messages) != 1 || len(out.Messages[0].Orders) != 1 {
		t.Errorf("%+v, want the order", out)
	}
}

func TestLateReportsOfAFinishedTaskAreIgnored(t *testing.T) {
	d := newDesk(t)
	before := d.rev + 1
	d.stored(d.submit("x"))
	d.report(1, true)
	d.stored(d.written())
	d.l.Stored(d.now, "x", before, wire.Record{State: wire.Queued, Timeout: time.Second, MaxAttempts: 9})
	if out := d.l.Take(); len(out.Writes) != 0 {
		t.Errorf("%+v", out)
	}
	// Another task of that ID, once the record is gone, is one.
	d.l.Watched(d.rev)
	if w := d.submit("x"); w.Record.Attempt != 1 {
		t.Errorf("%+v", w)
	}
}

// After a store has lost its records two leaders may have one number. A worker
// obeys the one that it heard first.
func TestALeaderGivesNothingToAWorkerThatObeysAnotherOfItsNumber(t *testing.T) {
	d := newDesk(t)
	d.stored(d.submit("x"))
	d.l.Heard(d.now, wire.FromWorker{Worker: "w", Run: "1", Seen: 5, SeenToken: "t"})
	d.l.Heard(d.now, wire.FromWorker{Worker: "w", Run: "0", Seen: 5, SeenToken: "another's"})
	if out := d.l.Take(); len(out.Writes) > 0 {
		t.Errorf("%+v, and the worker obeys", out)
	}
	p := &wire.Presence{Capacity: 1, Lease: time.Hour}
	for range 2 {
		d.l.Heard(d.now, wire.FromWorker{Worker: "w", Run: "1", Seen: 5, SeenToken: "another's", Presence: p})
	}
	out := d.l.Take()
	if len(out.Writes) != 1 || out.Writes[0].Record.State != wire.Queued || !slices.Equal(out.Lost, []core.Lost{{Worker: "w"}}) {
		t.Fatalf("%+v, want the task back in its queue", out)
	}
	d.stored(out.Writes[0])
	d.now += time.Minute
	d.l.Tick(d.now)
	if out := d.l.Take(); len(out.Writes)+len(out.Messages) > 0 {
		t.Errorf("%+v, for a worker that obeys another", out)
	}
	d.l.Heard(d.now, wire.FromWorker{Worker: "v", Run: "1", Seen: 5, SeenToken: "t", Presence: p})
	if w := d.written(); w.Record.Worker != "v" || w.Record.Attempt != 2 {
		t.Errorf("%+v", w)
	}
}

// A sign of life is a term, and nothing else.
func TestASignOfLifeIsHeardAsAnOrderIs(t *testing.T) {
	w := core.NewWorker(core.WorkerConfig{Name: "w", Run: "1", Capacity: 1, Lease: time.Minute})
	w.Take() // shows itself
	for _, c := range []struct {
		name    string
		term    wire.Term
		refused bool
	}{
		{"the first", wire.Term{Number: 5, Token: "t"}, false},
		{"the same", wire.Term{Number: 5, Token: "t"}, false},
		{"an older one", wire.Term{Number: 4, Token: "s"}, true},
		{"the token of none", wire.Term{Number: 5, Token: "s"}, true},
		{"none", wire.Term{}, true},
		{"a newer one", wire.Term{Number: 6, Token: "u"}, false},
	} {
		before := w.Newest()
		w.Heard(wire.ToWorker{Term: c.term})
		_, _, say := w.Take()
		want := c.term
		if c.refused {
			want = before
		}
		if w.Newest() != want || (say != nil) != c.refused {
			t.Errorf("%s: the newest term is %+v, and the worker sends %+v", c.name, w.Newest(), say)
		}
		if say != nil && (say.Seen != want.Number || say.SeenToken != want.Token) {
			t.Errorf("%s: the worker sends %+v", c.name, say)
		}
	}
}

// A run's messages from before it was replaced may come late.
func TestAWorkersEarlierRunTakesNothingFromItsLaterOne(t *testing.T) {
	d := newDesk(t)
	d.stored(d.submit("x"))
	d.l.Heard(d.now, wire.FromWorker{Worker: "w", Run: "0", Presence: &wire.Presence{Capacity: 1, Lease: time.Hour}})
	if out := d.l.Take(); len(out.Writes)+len(out.Messages) > 0 {
		t.Errorf("%+v", out)
	}
	d.l.Heard(d.now, wire.FromWorker{Worker: "w", Run: "2", Presence: &wire.Presence{Capacity: 1, Lease: time.Hour}})
	if w := d.written(); w.Record.State != wire.Queued || w.Record.Failures != 1 {
		t.Errorf("%+v, and what the run before had is lost", w)
	}
}

func TestAWorkerLetsGoOfNothingButWhatIsMeant(t *testing.T) {
	w := core.NewWorker(core.WorkerConfig{Name: "w", Run: "2", Capacity: 1, Lease: time.Minute})
	term := wire.Term{Number: 5, Token: "t"}
	order := wire.Order{Ref: wire.Ref{ID: "x", Attempt: 2}}
	w.Heard(wire.ToWorker{Term: term, Run: "1", Orders: []wire.Order{order}})
	if starts, _, _ := w.Take(); len(starts) > 0 || w.Newest().Number != 0 {
		t.Errorf("an order for the run before was taken: %+v", starts)
	}
	w.Heard(wire.ToWorker{Term: term, Run: "2", Orders: []wire.Order{order}})
	if starts, _, _ := w.Take(); len(starts) != 1 {
		t.Fatalf("%+v", starts)
	}
	w.Heard(wire.ToWorker{Term: term, Settled: []wire.Ref{order.Ref}})
	w.Returned(wire.Report{Ref: order.Ref, OK: true})
	w.Heard(wire.ToWorker{Term: term, Settled: []wire.Ref{{ID: "x", Attempt: 1}}})
	w.Heard(wire.ToWorker{Term: term, Run: "1", Settled: []wire.Ref{order.Ref}})
	if w.Idle() {
		t.Fatal("a report is gone that nobody has recorded")
	}
	w.Heard(wire.ToWorker{Term: term, Settled: []wire.Ref{order.Ref}})
	if !w.Idle() {
		t.Error("a report that was recorded is held")
	}
}

// A store may be away for hours, and a worker repeats its reports three times
// in its lease.
func TestReportsBeforeTheTasksAreKnownAreBoundedAndRequestedAgain(t *testing.T) {
	for name, c := range map[string]struct{ result, more int }{
		"many": {}, "long": {result: 1 << 16}, "one that has room beside one that has none": {more: 1 << 16},
	} {
		t.Run(name, func(t *testing.T) {
			l := core.NewLeader(core.Config{Term: wire.Term{Number: 5, Token: "t"}, Lease: time.Hour, Grace: time.Second, Reread: 20 * ms})
			l.Take() // the first call
			x := wire.Report{Ref: wire.Ref{ID: "x", Attempt: 1}, OK: true, Result: make([]byte, c.result)}
			y := wire.Report{Ref: wire.Ref{ID: "y", Attempt: 1}, OK: true, Result: make([]byte, c.more)}
			for range 20_000 {
				l.Heard(0, wire.FromWorker{Worker: "w", Run: "1", Presence: &wire.Presence{Capacity: 1, Lease: time.Hour}, Reports: []wire.Report{x, y}})
			}
			if n, bytes := l.Early(); n == 0 || n > core.MaxEarly || bytes > core.MaxEarlyBytes {
				t.Errorf("%d reports with %d bytes wait", n, bytes)
			}
			l.Take()
			l.Stored(0, "x", 11, wire.Record{State: wire.Assigned, Attempt: 1, Worker: "w", Run: "1", Timeout: time.Hour, MaxAttempts: 1})
			l.Present(0)
			out := l.Take()
			if len(out.Writes) != 1 || out.Writes[0].Record.State != wire.Done {
				t.Errorf("%+v, want x recorded", out.Writes)
			}
			if len(out.Messages) == 0 || out.Messages[0].Worker != "" || !out.Messages[0].Call {
				t.Errorf("%+v, want a call for what was left out", out.Messages)
			}
		})
	}
}

// A lease without an end is one that never runs out, and not one that has.
func TestAWorkerOfAnEndlessLeaseIsThere(t *testing.T) {
	for name, cfg := range map[string]core.Config{
		"worker's": {Lease: time.Minute, Grace: time.Second},
		"leader's": {Lease: math.MaxInt64, Grace: math.MaxInt64},
	} {
		cfg.Term = wire.Term{Number: 5, Token: "t"}
		l := core.NewLeader(cfg)
		l.Present(0)
		l.Stored(1, "x", 1, wire.Record{State: wire.Assigned, Worker: "w", Run: "1", Attempt: 1, Timeout: time.Hour, MaxAttempts: 1})
		l.Tick(2)
		l.Heard(3, wire.FromWorker{Worker: "w", Run: "1", Presence: &wire.Presence{
			Capacity: 1, Lease: math.MaxInt64, Held: []wire.Ref{{ID: "x", Attempt: 1}},
		}})
		l.Tick(4)
		if out := l.Take(); l.Count().Workers != 1 || len(out.Writes) > 0 {
			t.Errorf("the %s: %+v, %+v", name, l.Count(), out)
		}
	}
}

// The lease is what the worker states, be it longer than the leader's or
// shorter.
func TestAWorkerIsMissedWhenItsOwnLeaseEnds(t *testing.T) {
	for _, lease := range []time.Duration{time.Second, time.Hour} {
		d := newDesk(t)
		d.l.Heard(0, wire.FromWorker{Worker: "v", Run: "1", Presence: &wire.Presence{Lease: lease}})
		d.l.Tick(lease - 1)
		if n := d.l.Count().Workers; n != 2 {
			t.Errorf("lease %v: %d workers before its end", lease, n)
		}
		d.l.Heard(lease-1, wire.FromWorker{Worker: "w", Run: "1"})
		d.l.Tick(lease)
		if n := d.l.Count().Workers; n != 1 {
			t.Errorf("lease %v: %d workers at its end", lease, n)
		}
	}
}

// A single answer that there is no record may come from a replica that lags.
// The third in a row is believed: a record that was removed by hand ends the
// attempt.
func TestARecordThatIsNotFoundThriceIsGone(t *testing.T) {
	d := newDesk(t)
	w := d.submit("x")
	d.l.Wrote(d.now, w.ID, w.Expected, 0, false)
	for range 2 {
		for range 2 {
			d.asked()
			d.l.Missing(d.now, "x")
		}
		d.asked()
		d.l.Stored(d.now, "x", w.Expected, wire.Record{State: wire.Queued, Timeout: time.Second, MaxAttempts: 9})
		w = d.written() // it is stored, and was not written
		d.l.Wrote(d.now, w.ID, w.Expected, 0, false)
	}
	for range 3 {
		d.asked()
		d.l.Missing(d.now, "x")
	}
	d.now += time.Hour
	d.l.Tick(d.now)
	if out := d.l.Take(); len(out.Reads)+len(out.Writes) > 0 || d.l.Count().Queued+d.l.Count().Assigned != 0 {
		t.Errorf("%+v, %+v", out, d.l.Count())
	}
}

// A store that refuses each write at once, or answers no read, would be asked
// fifty times a second for each task.
func TestAStoreThatFailsIsAskedLessAndLess(t *testing.T) {
	for name, read := range map[string]func(d *desk, w core.Write){
		"writes": func(d *desk, w core.Write) { d.l.Stored(d.now, "x", w.Expected, wire.Record{State: wire.Queued}) },
		"reads":  func(d *desk, _ core.Write) { d.l.Unread(d.now, "x") },
	} {
		d := newDesk(t)
		w := d.submit("x")
		d.l.Wrote(d.now, "x", w.Expected, 0, false)
		calls := 0
		for d.now = 0; d.now < time.Minute; d.now += 10 * ms {
			d.l.Tick(d.now)
			out := d.l.Take()
			for range out.Reads {
				calls++
				read(d, w)
				out.Writes = append(out.Writes, d.l.Take().Writes...)
			}
			for range out.Writes {
				d.l.Wrote(d.now, "x", w.Expected, 0, false)
			}
		}
		if calls < 50 || calls > 70 {
			t.Errorf("%s fail: %d reads in a minute", name, calls)
		}
		d.l.Stored(d.now, "x", w.Expected+100, wire.Record{State: wire.Queued, Term: 1})
		w = d.written()
		d.l.Wrote(d.now, "x", w.Expected, 0, false)
		d.now += 20 * ms
		d.l.Tick(d.now)
		if len(d.l.Take().Reads) != 1 {
			t.Errorf("%s: the first failure after that is not followed by a read at once", name)
		}
	}
}
