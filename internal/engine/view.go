package engine

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/bits"
	"strconv"
	"time"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
)

// A snapshot is what readers see, except the trust window. It is immutable.
// Readers load it as a whole, so that its fields come from one step, and none
// of them waits for the loop.
type snapshot struct {
	state     machine.Public
	bars      machine.Bars
	at        time.Time // since when
	reason    machine.Reason
	heartbeat time.Time
	revision  uint64
	leader    leadership.Info // another candidate, or why there is none
}

// same reports whether readers see in o what they see in s. A leader's
// description of itself changes with its record alone, and with the record the
// end of its lease.
func (s *snapshot) same(o *snapshot) bool {
	l, m := &s.leader, &o.leader
	return s.state == o.state && s.at.Equal(o.at) && s.reason == o.reason && s.bars == o.bars &&
		s.heartbeat.Equal(o.heartbeat) && s.revision == o.revision &&
		l.Same(*m) && l.Group == m.Group && l.Correlation == m.Correlation && l.Priority == m.Priority &&
		l.Acquired == m.Acquired && l.Renewed == m.Renewed && l.Version == m.Version && l.Address == m.Address && (l.Params == nil) == (m.Params == nil) && len(l.Meta) == len(m.Meta) && l.Until.Equal(m.Until)
}

// publish makes the new state visible to readers, and reports a transition. It
// comes after syncWindow, by which a term that is over is over for readers, and
// before the actions: the program finds each state that the actions report when
// it looks.
func (l *loop) publish(before past) {
	s := &l.state
	old := l.snap.Load()
	next := snapshot{state: s.Public(), at: old.at, reason: old.reason, bars: s.Barred}
	l.describe(&next.leader)
	if s.Phase == machine.Holding {
		next.heartbeat, next.revision = l.clock.time(s.Grant.Sent.Mono), s.Grant.Rev
	}
	changed := next.state != old.state
	if changed {
		next.at, next.reason = time.Now(), l.reason()
	}
	if !next.same(old) { // most steps show readers nothing new
		stored := next
		l.snap.Store(&stored)
	}
	// After the snapshot is stored: a callback that asks for the status sees
	// the state that it was called for.
	news := l.tell() && l.told.ID != "" && l.told.ID != l.cfg.InstanceID
	if changed || news && next.state == machine.Follower {
		l.announce(before, old, &next, news)
	}
	if next.bars != old.bars {
		l.tellBars(next.bars ^ old.bars)
	}
	if s.Phase == machine.Claiming && before.phase != machine.Claiming {
		l.callbacks.tellCampaign(s.Reason)
	}
}

// tellBars reports which of changed keep the candidate from campaigning now, or
// no longer do. Otherwise a program that follows in a paused group would log
// nothing, since a follower has no transition. The lack of room comes and goes
// with each role of a manager, and is left to its status.
func (l *loop) tellBars(changed machine.Bars) {
	s := &l.state
	tell := func(bar machine.Bars, barred, unbarred string) {
		switch {
		case changed&bar == 0:
		case s.Barred&bar != 0:
			l.tellBar(NoteBarred, barred)
		default:
			l.tellBar(NoteUnbarred, unbarred)
		}
	}
	by := func(bar machine.Bars) string {
		x := s.BarExits[bits.TrailingZeros8(uint8(bar))]
		if x.Why == "" {
			return strconv.Quote(x.By)
		}
		return fmt.Sprintf("%q (%s)", x.By, leadership.Words(x.Why))
	}
	tell(machine.Paused,
		fmt.Sprintf("group %q is paused by %s: this candidate does not campaign until it is resumed", l.cfg.Group, by(machine.Paused)),
		fmt.Sprintf("group %q is no longer paused", l.cfg.Group))
	tell(machine.Withdrawn,
		fmt.Sprintf("instance %q is drained by %s: it does not campaign until it is undrained, or starts again", l.cfg.InstanceID, by(machine.Withdrawn)),
		fmt.Sprintf("instance %q is no longer drained", l.cfg.InstanceID))
	tell(machine.Unhealthy, "the health check fails: this candidate does not campaign until it passes", "the health check passes again")
}

func (l *loop) tellBar(kind, text string) { l.note(Note{At: time.Now(), Kind: kind, Text: text}) }

// announce reports what readers see next, if its state differs from the state
// that they saw in old. Otherwise the next leader was too fast for readers to
// see anything between it and the last. That is a line of the log alone, since
// a hook receives changes of state, of which there was none.
func (l *loop) announce(before past, old, next *snapshot, news bool) {
	t := l.transition(before, old.state, next)
	if next.state != old.state {
		l.report.transition(t, news)
		return
	}
	l.report.event(slog.LevelInfo, t)
}

// tellSupervisor passes on to the supervisor what readers see now.
func (l *loop) tellSupervisor() {
	if s := l.cfg.Supervisor; s != nil {
		snap := l.snap.Load()
		s.Stepped(View{snap.state, barred(snap.bars)}, l.told)
	}
}

// publishCrash makes the end visible to readers. w is the term that it has
// ended, or nil. It does for a crash what publish, announce and tell do for a
// step: those ask the core, which is not to be trusted now.
func (l *loop) publishCrash(w *window) {
	old := l.snap.Load()
	if old.state == machine.Ended {
		// A panic after the last step has nothing left to end.
		return
	}
	next := &snapshot{state: machine.Ended, at: time.Now(), reason: leadership.ReasonCrashed, leader: old.leader}
	t := Transition{At: next.at, Event: EventStopped, From: stateName(old.state), To: StateStopped, Reason: leadership.ReasonCrashed}
	led := old.state == machine.Leader && w != nil
	if led {
		next.leader = leadership.Info{
			Group: l.cfg.Group, Term: w.term.Number, Transitions: w.transitions, Correlation: w.correlation,
			Acquired: w.acquired, Renewed: w.written(), Reason: leadership.ReasonCrashed,
		}
	}
	l.snap.Store(next)
	if led {
		// A leader is demoted before it stops: who counts promotions and
		// demotions in a hook must find as many of each.
		d := t
		d.Event, d.To, d.Term, d.LeaderTerm, d.Correlation = EventDemoted, StateDemoted, w.term, w.term.Number, w.correlation
		l.report.transition(d, false)
		t.From = StateDemoted
		l.told = next.leader
		l.callbacks.tellLeader(l.told)
	}
	l.report.transition(t, false)
	l.tellSupervisor()
}

// reason is why the state is what it is. The core knows of a stop, but not who
// asked for it.
func (l *loop) reason() machine.Reason {
	if l.severed && l.state.Phase == machine.Stopped {
		return leadership.ReasonClosed
	}
	return l.state.Reason
}

// transition describes a change of state. The leader is the one that observers
// learn of by this very step, since publish has called tell first.
func (l *loop) transition(before past, from machine.Public, next *snapshot) Transition {
	s := &l.state
	t := Transition{
		At: next.at, Event: eventOf(next.state), From: stateName(from), To: stateName(next.state), Reason: next.reason,
		Term: transitionTerm(before, pastOf(s)), LeaderID: l.told.ID, LeaderTerm: l.told.Term, Correlation: l.told.Correlation,
	}
	// An Exit stays until the next one, and does not concern other transitions.
	if t.To == StateDemoted {
		t.By, t.Why = s.Exit.By, s.Exit.Why
	}
	if !t.Term.IsZero() {
		t.Correlation = t.Term.Correlation()
	}
	return t
}

// transitionTerm is the term that began or ended by a step, if one did. A claim
// that cools down is not a term: it ends unseen if it is not promoted.
func transitionTerm(before, after past) leadership.Term {
	for _, s := range []past{after, before} {
		if s.phase == machine.Holding && s.promoted {
			return s.term
		}
	}
	return leadership.Term{}
}

// describe sets info, which is zero, to who leads by the record as it was seen
// last. Our own record does not name us: readers look at our window for that.
func (l *loop) describe(info *leadership.Info) {
	v, r := &l.state.View, &l.record
	info.Group, info.Term, info.Correlation = l.cfg.Group, v.Term(), l.correlation(v.Rec.Token)
	info.Transitions = uint64(r.Transitions)
	info.Acquired, info.Renewed = l.times()
	switch {
	case v.Kind == machine.Held && v.Rec.Token == l.state.Grant.Token:
		info.Reason = l.state.Reason
		if p := l.state.Phase; p == machine.Draining || p == machine.Releasing {
			// The vacancy will contain this, which is then no news.
			x := l.state.Exit
			info.By, info.Why, info.Successor = cmp.Or(x.By, l.cfg.InstanceID), x.Why, x.Successor
		}
	// A candidate claims a holder's record when the lease is over: that holder
	// leads no more.
	case v.Kind == machine.Held && l.state.Phase == machine.Claiming:
		info.Reason = machine.ReasonExpired
	case v.Kind == machine.Held:
		// Not DueAt, by which this candidate claims: it may let others go
		// first, or back off.
		until := l.state.ViewAt + int64(machine.Wait(l.rules.Lease(&l.state), l.cfg.ClockDrift))
		info.ID, info.Until = v.Rec.ID, l.clock.time(until)
		// The last read may have returned something that the core ignored, as
		// older than what it knew.
		if r.Token == v.Rec.Token {
			info.Priority, info.Version = r.Priority, r.Version
			info.Address, info.Params, info.Meta = r.Address, r.Params, r.Meta
		}
	case v.Kind == machine.Vacant:
		info.Reason, info.By, info.Why, info.Successor = v.Rec.Reason, v.Rec.By, v.Rec.Why, v.Rec.Successor
	default:
		info.Reason = l.state.Reason
	}
}

// times returns when the term of the last seen record began, and when the
// record was written, by its own account.
func (l *loop) times() (acquired, renewed record.Moment) {
	v, r, g := &l.state.View, &l.record, &l.state.Grant
	switch {
	case v.Kind == machine.Held && v.Rec.Token == g.Token && v.Rev == g.Rev && g.Term != 0:
		// An acknowledged write is known before the watch reports it.
		return l.counted().acquired, record.MomentAt(g.Sent.Wall)
	case r.Token == v.Rec.Token:
		return r.Acquired, r.Renewed
	default:
		return 0, 0
	}
}

// correlation returns the correlation of the term with this token. Every call
// to the store asks for it. It is a hash, and most calls belong to the same
// term.
func (l *loop) correlation(token string) string {
	if token != l.hashed {
		l.hashed, l.hash = token, leadership.Correlation(token)
	}
	return l.hash
}

// barred returns the reason that readers see for a candidate that does not
// campaign: one reason, and first a reason that holds for the whole group. A
// missing control record is not among them, since that passes within a lease.
func barred(b machine.Bars) machine.Reason {
	switch {
	case b&machine.Paused != 0:
		return machine.ReasonPaused
	case b&machine.Withdrawn != 0:
		return machine.ReasonDrained
	case b&machine.Unhealthy != 0:
		return machine.ReasonUnhealthy
	case b&machine.Full != 0:
		return leadership.ReasonFull
	default:
		return ""
	}
}

// expiry is when the leader that observers know is seen to have fallen silent.
// The core does not ask to be woken for that if it may not campaign. It stays
// in the past until observers are notified, since a hook may outlast that
// instant. The step that follows notifies them, and thereby ends it.
func (l *loop) expiry() int64 {
	leader := &l.snap.Load().leader
	if leader.ID == "" || leader.ID != l.told.ID {
		return machine.Never
	}
	return int64(leader.Until.Sub(l.clock.origin))
}

// tell notifies observers and callbacks who leads, if that changed, and reports
// whether it did. An open window of this candidate settles that without a look
// at the record.
func (l *loop) tell() bool {
	if w := l.current.Load(); w != nil && l.toldOfUs(w.term.Number) && w.open() {
		return false // as with each renewal
	}
	return l.tellNews()
}

// toldOfUs reports whether the last news for observers was that this candidate
// leads in this term.
func (l *loop) toldOfUs(term uint64) bool {
	t := &l.told
	return t.ID == l.cfg.InstanceID && t.Term == term && t.Reason == "" && t.By == "" && t.Why == "" && t.Successor == ""
}

// tellNews is the rest of tell. It is separate, and not inlined, to keep its
// variables off the loop's stack. Otherwise each renewal would grow that stack,
// and each garbage collection shrink it.
//
//go:noinline
func (l *loop) tellNews() bool {
	var info leadership.Info
	if !l.self(&info) {
		info = l.Leader()
	}
	if info.Same(l.told) {
		return false
	}
	l.tellOf(&info)
	return true
}

// tellOf is the rest of tell, for a change. A leader of an earlier version may
// leave without a vacancy. Observers that keep account of terms are notified of
// a vacancy all the same, between the two leaders.
func (l *loop) tellOf(info *leadership.Info) {
	if before, ok := leadership.VacancyAfter(l.told, l.state.View); ok && info.ID != "" {
		l.callbacks.tellLeader(before)
	}
	l.told = *info
	l.callbacks.tellLeader(*info)
}
