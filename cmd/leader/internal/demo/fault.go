package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-ff2cb582/leader/store"
)

// A trial is a fault and what followed.
//
// A trial is done when its effect is known, and reported when the last samples
// have shown for how long nobody led. If a successor with an earlier term is
// heard of before that, it replaces the noted successor.
type trial struct {
	Outcome
	at       int64
	hit      *process // nil if nobody led
	over     int64    // when the fault itself had ended, if its leader may outlive it
	done     bool
	promoted int64 // when the successor was promoted, if that ended it
	told     bool
}

// errNoLeader: a fault found nobody to hit.
var errNoLeader = errors.New("nobody leads at the moment")

// downTime is how long the server is down at a restart, in addition to stopping
// and starting.
const downTime = 300 * time.Millisecond

// strike does a fault to the leader, or returns why it cannot be. Nothing is
// noted of a fault that was not done. Faults that take long go on elsewhere,
// and post what became of them: the stage must hear its workers meanwhile.
func (st *stage) strike(f Fault) error {
	p := st.leader()
	switch {
	case st.leaving:
		return errors.New("the demo is ending")
	case p == nil && !(f.ofServers() && st.offers(f)):
		return st.vacancy()
	case !st.offers(f) && f == Restart:
		return errNotOurs
	case !st.offers(f):
		return errNoMembers
	case f.ofServers() && st.busy != "":
		return fmt.Errorf("not now: %s", st.busy)
	case f == Return:
		return st.returnMember()
	}
	m := st.members.first(false)
	if f == Kill && m == nil {
		return errors.New("no member is left")
	}
	t := st.trial(f, p)
	e := Event{T: t.T, Kind: EventFault, Fault: f, Worker: t.Worker, Term: t.Term}
	if f == Kill {
		e.Text = m.name
	}
	st.emit(e)
	switch f {
	case Crash:
		p.fault, p.leaving = Crash, true
		p.kill()
		st.replaceLater(p)
	case Freeze, Cut:
		st.hold(p, t)
	case Resign:
		p.tell(orderResign)
	case Delete:
		// The answer may take seconds where the server is down.
		go st.deleteKey(t)
	case Restart:
		st.restart(t)
	case Kill:
		m.down = true
		st.operate("member "+m.name+" stops", func() error { m.Stop(); return nil }, func() { t.over = st.now() })
	case Return: // it is done elsewhere: it hits no leader
	}
	return nil
}

// offers reports whether the demo's servers allow the fault.
func (st *stage) offers(f Fault) bool {
	switch f {
	case Restart:
		return st.server != nil
	case Kill, Return:
		return st.members != nil
	default:
		return true
	}
}

// vacancy is why nobody can be hit. On a server that is not the demo's another
// candidate may lead, which it leaves alone.
func (st *stage) vacancy() error {
	for _, p := range st.processes {
		if p.alive() && p.last.Leader != "" && !st.owns(p.last.Leader) {
			return fmt.Errorf("the leader %s is not a worker of this demo", p.last.Leader)
		}
	}
	return errNoLeader
}

// owns reports whether a worker of this demo has, or had, the name.
func (st *stage) owns(id string) bool {
	for n := range st.named {
		if id == st.name(n+1) {
			return true
		}
	}
	return false
}

// trial notes a fault that hits a leader, or nobody, which a restart of the
// server can.
func (st *stage) trial(f Fault, p *process) *trial {
	now := st.now()
	t := &trial{at: now, hit: p, Outcome: Outcome{Fault: f, T: st.offset(now), Term: st.latest}}
	if p != nil {
		t.Worker, t.Term = p.id, p.last.Seen
		st.leadership(p.id, p.last.Seen).hit = true
	}
	st.trials = append(st.trials, t)
	return t
}

// spoil ends a trial whose fault could not be done: otherwise the script would
// wait forever for its effect.
func (st *stage) spoil(t *trial, why string) {
	if !t.done {
		t.done, t.told, t.Failed = true, true, why
	}
	st.emit(Event{Kind: EventNote, Worker: t.Worker, Text: string(t.Fault) + ": " + why})
}

// hold freezes a leader or cuts it off, and has it repaired later. A freeze
// that fails is reported and goes on: the repair does no harm, and the leader
// is then seen to have kept its term.
func (st *stage) hold(p *process, t *trial) {
	// From now on it is not hit again, and the view shows what it is under.
	p.fault = t.Fault
	if t.Fault == Freeze && canFreeze {
		if err := freeze(p.cmd.Process); err != nil {
			st.emit(Event{Kind: EventNote, Worker: p.id, Text: "freeze: " + err.Error()})
		}
	} else {
		p.tell(orderCut)
	}
	st.after(st.outage(), func() {
		// Somebody may have killed it meanwhile: then there is nothing to
		// repair.
		if p.gone {
			return
		}
		st.repair(p)
		t.over = st.now()
	})
}

// repair ends what hold began, also when the demo ends before its time.
func (st *stage) repair(p *process) {
	text := p.id + " is reached by the network again"
	if p.fault == Freeze && canFreeze {
		text = p.id + " runs on (SIGCONT)"
		if err := thaw(p.cmd.Process); err != nil {
			text = p.id + ": thaw: " + err.Error()
		}
	} else {
		p.tell(orderHeal)
	}
	st.emit(Event{Kind: EventHealed, Fault: p.fault, Worker: p.id, Text: text})
	p.fault = ""
}

// deleteKey deletes the group's key as nats kv del does: with no regard to its
// holder. It runs on a separate goroutine, and waits for a server that may be
// away. Only a failure is reported: the transitions show a deletion's effect.
func (st *stage) deleteKey(t *trial) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := st.erase(ctx); err != nil {
		st.post(func() { st.spoil(t, err.Error()) })
	}
}

// eraseOnNATS deletes the key by the ordinary client, without a condition, as
// an operator's tool does.
func (st *stage) eraseOnNATS(ctx context.Context) error {
	js, err := jetstream.New(st.nc)
	if st.domain != "" {
		js, err = jetstream.NewWithDomain(st.nc, st.domain)
	}
	if err != nil {
		return err
	}
	kv, err := js.KeyValue(ctx, st.plan.Bucket)
	if err != nil {
		return err
	}
	return kv.Delete(ctx, st.plan.Key)
}

// erase leaves of a register what a foreign deletion does: a tombstone without
// a value. Only a leader that renews at the same instant gets in between.
func erase(ctx context.Context, st store.Store, key string) error {
	for {
		e, err := st.Get(ctx, key)
		if err != nil {
			return err
		}
		// A store has no unconditional write. The condition is the current
		// record, which is looked up again after a conflict.
		_, err = st.CompareAndSwap(ctx, store.Write{Key: key, Expected: e.Revision, Tombstone: true})
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// returnMember starts a member again that was killed.
func (st *stage) returnMember() error {
	m := st.members.first(true)
	if m == nil {
		return errors.New("no member is down")
	}
	st.operate("member "+m.name+" starts", m.Start, func() {
		m.down = false
		st.emit(Event{Kind: EventHealed, Fault: Return, Text: "member " + m.name + " is back"})
	})
	return nil
}

// restart stops the demo's server and starts it again.
func (st *stage) restart(t *trial) {
	st.operate("the server restarts", func() error {
		st.server.Stop()
		<-time.After(downTime)
		return st.server.Start()
	}, func() {
		t.over = st.now()
		st.emit(Event{Kind: EventHealed, Fault: Restart, Text: fmt.Sprintf(
			"the server is back after %s", ms(millis(time.Duration(t.over-t.at))))})
	})
}

// operate does something to a server on a separate goroutine, and then calls
// done. A demo that is being left waits for it: close must not meet a server
// that is starting.
func (st *stage) operate(what string, work func() error, done func()) {
	st.busy = what
	go func() {
		err := work()
		st.post(func() {
			st.busy = ""
			switch {
			case err != nil:
				st.fail(err)
			case st.leaving:
				st.leaveOn()
			default:
				done()
			}
		})
	}()
}

// promoted closes the trials that a new leader ends. Reports of different
// workers come in any order, and late under load. So a fault may have been
// meant for a leader that another had followed already: it hit nobody.
func (st *stage) promoted(p *process, r report) {
	for _, t := range st.trials {
		// Of several successors that are heard of, the successor with the
		// earliest term followed the fault.
		if t.told || r.Term <= t.Term || t.promoted != 0 && r.Term >= t.NextTerm {
			continue
		}
		t.done, t.promoted = true, r.At
		t.Leader, t.NextTerm, t.Reason = p.id, r.Term, r.Reason
		t.Took = millis(time.Duration(max(0, r.At-t.at)))
		t.Late = r.At < t.at
	}
}

// tellOutcomes reports the outcomes of the faults, when the last samples of the
// leader that was hit have come in, which show for how long nobody led, and no
// earlier successor is to be heard of. A reported outcome does not change, so
// that the events and the summary agree; a frozen leader may have some samples
// that nobody waits for.
func (st *stage) tellOutcomes(end bool) {
	for _, t := range st.trials {
		// At the end nothing more will come, and what is known has to do.
		if t.promoted == 0 || t.told || !end && !st.sampled(t) {
			continue
		}
		if seen := st.lastSeen(t); seen != 0 && !t.Late {
			t.Seen, t.Gap = true, millis(time.Duration(max(0, t.promoted-seen)))
		}
		t.told = true
		st.emit(t.ended())
	}
}

// ended is the event for a trial that a promotion ended.
func (t *trial) ended() Event {
	if t.Late {
		return Event{Kind: EventNote, Worker: t.Worker, Text: fmt.Sprintf("the %s came too late: %s led already", t.Fault, t.Leader)}
	}
	return Event{
		Kind: EventFailover, Fault: t.Fault, From: t.Worker, To: t.Leader, Term: t.NextTerm, Reason: t.Reason,
		Took: t.Took, Gap: t.Gap, Seen: t.Seen,
	}
}

// sampled reports whether no further report can change the trial: no sample of
// the leader that was hit which is older than its successor, and no promotion.
// Reports of one worker come in order, so that its latest report decides. A
// frozen worker reports nothing until it runs, and nobody waits for that; nor,
// for long, for a worker other than the leader that was hit, which the user may
// have stopped.
func (st *stage) sampled(t *trial) bool {
	const settled = 10 * tellEvery // of those that the system has taken from a worker and not handed on
	since := time.Duration(st.now() - t.promoted)
	owes := func(p *process) bool { return !p.gone && p.fault != Freeze && p.told < t.promoted }
	if since < settled || t.hit != nil && owes(t.hit) {
		return false
	}
	return since >= tellPatience || !slices.ContainsFunc(st.processes, owes)
}

// tellPatience is how long an outcome waits for silent workers.
const tellPatience = 5 * time.Second

// lastSeen is when the leader that a fault hit was seen to lead last; 0 if it
// never was.
func (st *stage) lastSeen(t *trial) int64 {
	for _, r := range st.leaderships {
		if r.worker == t.Worker && r.term == t.Term {
			return r.seen
		}
	}
	return 0
}

// kept closes the trials that the leader has outlived: the fault is over, and
// it has renewed since. A renewal from before the end of the fault would prove
// nothing: a restarted server, for one, has to know the leader again.
func (st *stage) kept(p *process) {
	for _, t := range st.trials {
		if t.done || t.hit != p || t.over == 0 || !p.last.Leading || p.last.Seen != t.Term || p.last.Renewed < t.over {
			continue
		}
		t.done, t.told, t.Kept = true, true, true
		st.emit(Event{Kind: EventKept, Fault: t.Fault, Worker: p.id, Term: t.Term})
	}
}

// open reports whether a fault is not dealt with yet.
func (st *stage) open() bool {
	for _, t := range st.trials {
		if !t.done {
			return true
		}
	}
	return st.busy != ""
}

// summary is what the demo saw. Terms are counted by whatever shows them: a
// report of the promotion, a sample, or a fault.
func (st *stage) summary() Summary {
	s := Summary{
		Seconds: st.offset(st.now()), Samples: st.detector.Asked, TwoLeaders: st.detector.Double, Outcomes: []Outcome{},
	}
	for _, r := range st.leaderships {
		// A worker that was killed may not have reported its promotion.
		if r.from != 0 || r.seen != 0 || r.hit {
			s.Terms++
		}
	}
	for _, t := range st.trials {
		s.Outcomes = append(s.Outcomes, t.Outcome)
	}
	return s
}
