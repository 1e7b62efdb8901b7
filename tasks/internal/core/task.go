package core

import (
	"time"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// begin handles a task that was not known, or differs from the leader's own
// write.
func (l *Leader) begin(now time.Duration, t *task) {
	switch {
	case t.rec.State == wire.Assigned:
		l.bind(now, t)
	case t.rec.Failures > 0:
		l.backOff(now, t)
	default:
		l.wait(t)
	}
}

// bind takes in an assignment that we did not make. Its worker goes on with it,
// if it has it.
func (l *Leader) bind(now time.Duration, t *task) {
	w := l.workers[t.rec.Worker]
	switch {
	case w == nil:
		l.orphan(now, t)
	case w.run != t.rec.Run:
		l.giveUp(now, t, "the worker was restarted")
	default:
		l.hold(t, w)
		l.expire(now, t)
		// Its presence shows whether it needs the order.
		if w.known && !w.foreign {
			l.order(now, t)
		}
	}
}

// orphan waits for the worker that has an attempt to show itself.
func (l *Leader) orphan(now time.Duration, t *task) {
	name := t.rec.Worker
	if l.orphans[name] == nil {
		l.orphans[name] = map[string]*task{}
	}
	l.orphans[name][t.id] = t
	attempt := t.rec.Attempt
	l.timers.arm(&t.timer, now+l.cfg.Lease, func(now time.Duration) {
		if l.orphans[name][t.id] == t && t.rec.Attempt == attempt {
			delete(l.orphans[name], t.id)
			l.giveUp(now, t, "the worker is silent")
		}
	})
}

// hold counts a task among a worker's tasks.
func (l *Leader) hold(t *task, w *worker) {
	l.release(t)
	t.holder = w
	w.tasks[t.id] = t
}

// release takes a task from the worker that had it, if any.
func (l *Leader) release(t *task) {
	delete(l.orphans[t.rec.Worker], t.id)
	if t.holder != nil {
		delete(t.holder.tasks, t.id)
		t.holder, l.dirty = nil, true
	}
}

// expire ends an attempt when it has had its time.
func (l *Leader) expire(now time.Duration, t *task) {
	attempt := t.rec.Attempt
	l.timers.arm(&t.timer, now+min(t.rec.Timeout, MaxTimeout)+l.cfg.Grace, func(now time.Duration) {
		if t.rec.State == wire.Assigned && t.rec.Attempt == attempt && t.report == nil {
			l.giveUp(now, t, "the deadline has passed")
		}
	})
}

// backOff keeps a task waiting after a failure.
func (l *Leader) backOff(now time.Duration, t *task) {
	l.timers.arm(&t.timer, now+backoff(t.rec), func(time.Duration) {
		if t.rec.State == wire.Queued && t.ticket == 0 && !t.pending() {
			l.wait(t)
		}
	})
}

// MaxBackoff bounds the delay after a failure, unless the first is longer.
const MaxBackoff = time.Minute

// MaxTimeout bounds the time of an attempt, the delay after one, and leases,
// even if a record, a worker or a setting states more: an instant beyond the
// largest duration would lie in the past.
const MaxTimeout = wire.MaxTimeout

// backoff returns how long a task waits after its latest failure.
func backoff(r wire.Record) time.Duration {
	d, limit := max(r.Backoff, 0), max(r.Backoff, MaxBackoff)
	// Never loop over the failures: a record may state any number.
	doublings := min(max(r.Failures-1, 0), 62)
	if d > limit>>doublings {
		return min(limit, MaxTimeout)
	}
	return min(d<<doublings, MaxTimeout)
}

// giveUp has an attempt count no more.
func (l *Leader) giveUp(now time.Duration, t *task, why string) {
	if t.report == nil {
		t.lost = why
		l.decide(now, t)
	}
}

// decide takes the next step for a task, unless its state is unknown.
func (l *Leader) decide(now time.Duration, t *task) {
	switch {
	case t.pending():
	case t.rec.State == wire.Queued:
		l.release(t) // the room that was meant for it
		if t.ticket == 0 {
			l.wait(t)
		}
	case t.report != nil:
		l.write(t, ended(t.rec, *t.report))
	case t.lost != "":
		l.write(t, givenUp(t.rec, t.lost, t.spared))
	case t.holder != nil && !t.sent:
		l.order(now, t)
	}
}

// ended is the record after an attempt whose worker has reported.
func ended(r wire.Record, report wire.Report) wire.Record {
	if !report.OK {
		return failed(r, report.Error, report.Permanent)
	}
	r.State, r.Payload, r.Result, r.Error = wire.Done, nil, report.Result, ""
	return r
}

// givenUp is the record after an attempt of which nobody has reported.
func givenUp(r wire.Record, why string, spared bool) wire.Record {
	if spared {
		return queued(r)
	}
	return failed(r, why, false)
}

func failed(r wire.Record, why string, permanent bool) wire.Record {
	r.Failures++
	r.Error = why
	if permanent || r.Failures >= r.MaxAttempts {
		r.State = wire.Failed
		return r
	}
	return queued(r)
}

// queued is the record of a task that waits for another attempt. The task fails
// if no number is left for an attempt.
func queued(r wire.Record) wire.Record {
	if r.Attempt >= wire.MaxAttempt {
		r.State, r.Error = wire.Failed, "the task has had as many attempts as can be numbered"
		return r
	}
	r.State, r.Worker, r.Run = wire.Queued, "", ""
	return r
}

// assign gives a waiting task to a worker. The order goes out when that is
// stored.
func (l *Leader) assign(t *task, w *worker) {
	t.leave()
	l.hold(t, w)
	next := t.rec
	next.State, next.Worker, next.Run, next.Error = wire.Assigned, w.name, w.run, ""
	next.Attempt++
	l.write(t, next)
}

// write stores a record in place of the one that is known.
func (l *Leader) write(t *task, next wire.Record) {
	next.Term = l.cfg.Term.Number
	t.writing, t.expected, t.next = true, t.rev, &next
	l.out.Writes = append(l.out.Writes, Write{ID: t.id, Expected: t.rev, Record: next})
}

// order sends the present attempt to its worker.
func (l *Leader) order(now time.Duration, t *task) {
	m := l.to(t.rec.Worker, t.rec.Run)
	m.Orders = append(m.Orders, wire.Order{Ref: t.ref(), Payload: t.rec.Payload, Timeout: t.rec.Timeout})
	t.sent, t.sentAt = true, now
}

// wrote takes in that our write was applied.
func (l *Leader) wrote(now time.Duration, t *task, rev uint64) {
	before, report, counted := t.rec, t.report, !t.spared
	t.rev, t.rec, t.next = rev, *t.next, nil
	t.writing, t.unsure, t.missing, t.failed = false, false, 0, 0
	if t.rec.State == wire.Assigned {
		l.assigned(now, t)
		return
	}
	if before.State == wire.Assigned {
		ref := wire.Ref{ID: t.id, Attempt: before.Attempt}
		if report != nil {
			m := l.to(before.Worker, before.Run)
			m.Settled = append(m.Settled, ref)
		} else {
			l.revoke(before.Worker, before.Run, ref)
		}
	}
	l.freed(t, before.Worker)
	switch {
	case t.rec.State.Finished():
		l.end(t)
	case counted:
		l.backOff(now, t)
	default:
		l.wait(t)
	}
}

// assigned handles that an assignment of this leader was stored.
func (l *Leader) assigned(now time.Duration, t *task) {
	t.report, t.lost, t.spared, t.sent = nil, "", false, false
	w := l.workers[t.rec.Worker]
	if w == nil || w.run != t.rec.Run {
		l.giveUp(now, t, "the worker is gone") // meanwhile
		return
	}
	if w.foreign {
		t.spared = true
		l.giveUp(now, t, "the worker obeys another leader")
		return
	}
	l.hold(t, w)
	l.expire(now, t)
	l.order(now, t)
}

// freed has nobody hold a task.
func (l *Leader) freed(t *task, worker string) {
	delete(l.orphans[worker], t.id)
	l.release(t)
	l.timers.stop(t.timer)
	l.timers.stop(t.reread)
	t.report, t.lost, t.spared, t.sent = nil, "", false, false
	t.leave()
}

// replaced handles a record that another writer stored: an earlier leader, or a
// person that cancels a task. A write of this leader that is in flight will be
// refused.
func (l *Leader) replaced(now time.Duration, t *task, rev uint64, rec wire.Record) {
	before := t.rec
	if before.State == wire.Assigned && (before.Attempt != rec.Attempt || rec.State != wire.Assigned) {
		l.revoke(before.Worker, before.Run, wire.Ref{ID: t.id, Attempt: before.Attempt})
	}
	l.freed(t, before.Worker)
	t.rev, t.rec, t.next, t.writing, t.unsure, t.missing, t.failed = rev, rec, nil, false, false, 0, 0
	if rec.State.Finished() {
		l.end(t)
		return
	}
	l.begin(now, t)
}
