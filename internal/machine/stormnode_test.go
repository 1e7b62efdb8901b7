package machine

import (
	"fmt"
	"time"
)

// A simClock runs at its rate from the true instant since on.
type simClock struct {
	base, since int64
	rate        int64 // parts of a million of true time; 0 while it is stopped
}

// at reads the clock.
func (c *simClock) at(now int64) int64 {
	d := now - c.since
	return c.base + d/1e6*c.rate + d%1e6*c.rate/1e6
}

func (c *simClock) set(now, rate int64) { c.base, c.since, c.rate = c.at(now), now, rate }

// A node is one candidate, its machine's clocks and its program.
type node struct {
	w    *storm
	m    Machine
	s    State
	life uint32 // counts its processes; what was meant for an earlier one comes to nothing
	runs bool   // there is a process

	mono, wall simClock
	suspends   bool // a suspension stops the monotonic clock; else the wall clock may leap
	rate       int64
	frozen     bool    // the process does not run
	inbox      []Event // what has arrived meanwhile
	slot       *Seen   // and the latest observation

	tokens  int
	token   string
	alarm   int64  // the true time of the timer that is set, 0 without one
	alarms  uint64 // its number: earlier ones are off
	watched uint64 // what the watch delivered last
	inOrder int64  // when the last delivery that is under way arrives

	out, in bool // nothing gets out, nothing comes in

	term    uint8 // noTerm, live, cancelled
	number  uint64
	work    uint8 // idle, working, stopping
	drainBy int64 // monotonic: when the release may go without waiting for the work

	down   bool  // the connection is reported lost
	downAt int64 // since when (monotonic)
}

func (n *node) alive() bool { return n.runs && n.s.Phase != Stopped }

func (n *node) now() Instant {
	return Instant{Mono: n.mono.at(n.w.now), Wall: n.wall.at(n.w.now)}
}

// leads reports whether the candidate's program, asked now, considers itself
// the leader.
func (n *node) leads() bool { return n.runs && n.w.mutant.leads(&n.s, n.now()) }

// join starts a process.
func (n *node) join() {
	if n.runs {
		return
	}
	w := n.w
	n.life++
	n.s, n.runs, n.frozen, n.inbox, n.slot = State{}, true, false, nil, nil
	n.watched, n.inOrder, n.term, n.work, n.alarm, n.down = 0, 0, noTerm, idle, 0, false
	n.newToken()
	w.say("%s joins", n.m.ID)
	n.step(Event{Kind: Bar, Bars: Uninformed})
	n.step(Event{Kind: Start, Doubt: w.doubt(&n.m)})
	n.resync()
	n.later(w.trip(), func() {
		if w.paused {
			n.step(Event{Kind: Bar, Bars: Paused, Exit: Exit{Reason: ReasonPaused, By: "operator"}})
		}
		n.step(Event{Kind: Unbar, Bars: Uninformed})
	})
}

// crash ends the process at once.
func (n *node) crash() {
	n.life++
	n.s, n.runs, n.frozen, n.term, n.work = State{}, false, false, noTerm, idle
	n.restoreClock()
}

// later plans something for the present process.
func (n *node) later(d time.Duration, do func()) {
	life := n.life
	n.w.after(d, func() {
		if n.life == life && n.runs {
			do()
		}
	})
}

func (n *node) newToken() {
	n.tokens++
	n.token = fmt.Sprintf("%s%d.%d", n.m.ID, n.life, n.tokens)
}

// freeze stops the process for a while, and its monotonic clock too if the
// machine is suspended.
func (n *node) freeze(d time.Duration, suspend bool) {
	if n.frozen {
		return
	}
	n.frozen = true
	if suspend {
		n.rate = n.mono.rate
		n.mono.set(n.w.now, 0)
	}
	n.later(d, n.thaw)
}

func (n *node) restoreClock() {
	if n.mono.rate == 0 {
		n.mono.set(n.w.now, n.rate)
	}
}

// thaw lets the process go on. The events that have arrived meanwhile and the
// due ones come in any order: nothing in the core may depend on one.
func (n *node) thaw() {
	if !n.frozen {
		return
	}
	w := n.w
	n.frozen = false
	n.restoreClock()
	w.say("%s goes on", n.m.ID)
	inbox, slot := n.inbox, n.slot
	n.inbox, n.slot = nil, nil
	if w.chance(0.3) {
		n.step(Event{Kind: Tick})
	}
	if slot != nil && w.chance(0.3) {
		n.observe(*slot)
		slot = nil
	}
	for _, ev := range inbox {
		n.step(ev)
	}
	if slot != nil {
		n.observe(*slot)
	}
	n.step(Event{Kind: Tick})
}

// observe handles what the watch delivers, as the runtime does: it ignores late
// news from before our own write, unless the watch itself goes back.
func (n *node) observe(seen Seen) {
	if n.frozen {
		n.slot = &seen
		return
	}
	old := seen.Rev < n.s.View.Rev && seen.Rev >= n.watched
	n.watched = seen.Rev
	if !old {
		n.step(Event{Kind: Observed, Seen: seen})
	}
}

// step lets ev happen to the candidate, judges what comes of it, and does it.
func (n *node) step(ev Event) {
	w := n.w
	switch {
	case !n.runs || w.bad != "":
		return
	case n.frozen:
		n.inbox = append(n.inbox, ev)
		return
	}
	w.busy++
	if w.busy > 10_000 {
		w.fail("spin", "%s takes no rest", n.m.ID)
		return
	}
	now := n.now()
	w.nonces++
	ev.Token, ev.Rand, ev.Nonce = n.token, w.rng.Uint64(), w.nonces
	if ev.Kind == Observed || ev.Kind == Read {
		n.rank(&ev.Seen)
	}
	if n.term == live && w.mutant.reached(n.s.Grant.Trust, now) {
		n.term = cancelled // by the runtime's timer, before anything else
	}
	before := n.s
	s, actions := w.mutant.doStep(n.m, before, ev, now)
	n.s = s
	if s.Grant.Token == n.token {
		n.newToken()
	}
	n.account(&before, ev, actions)
	n.hearsOfConn(ev.Kind, now)
	w.count.shapes.saw(&before, &n.s, actions)
	promoted := false
	for _, a := range actions {
		if promoted && a.Kind == Demote {
			w.fail("seam", "%s is promoted and demoted in one step", n.m.ID)
		}
		promoted = promoted || a.Kind == Promote
		n.judge(&before, a, now)
		n.perform(a, now)
	}
	n.judgeState(&before)
	if n.leads() {
		n.judgeLead()
	}
	n.setAlarm()
}

// hearsOfConn notes since when the connection is reported lost.
func (n *node) hearsOfConn(k EventKind, now Instant) {
	switch {
	case k == ConnUp:
		n.down = false
	case k == ConnDown && !n.down:
		n.down, n.downAt = true, now.Mono
	}
}

// rank sets how many others the candidate lets go first.
func (n *node) rank(seen *Seen) {
	if seen.Kind != Held && seen.Kind != Vacant || !n.w.ranked {
		return
	}
	seen.Ranked = true
	higher := map[int]bool{}
	for _, o := range n.w.nodes {
		if o.m.Priority > n.m.Priority {
			higher[o.m.Priority] = true
		}
	}
	seen.Behind = uint8(len(higher))
}

// setAlarm sets the timer to when the core asks to be called next.
func (n *node) setAlarm() {
	wake := n.m.Wake(&n.s)
	if wake == Never || !n.runs {
		n.alarm = 0
		n.alarms++
		return
	}
	w := n.w
	mono := n.mono.at(w.now)
	at := w.now + 1
	if wake > mono {
		at = w.now + (wake-mono)*1e6/n.mono.rate + 1
	}
	if at == n.alarm {
		return
	}
	n.alarm = at
	n.alarms++
	number := n.alarms
	d := time.Duration(at - w.now)
	if w.hit(tLateTimer) {
		d += w.between(0, w.ttl/4)
	}
	n.later(d, func() {
		if n.alarms == number {
			n.alarm = 0
			n.step(Event{Kind: Tick})
		}
	})
}

// perform does what the core asked for.
func (n *node) perform(a Action, now Instant) {
	w := n.w
	switch a.Kind {
	case Send:
		n.send(a)
	case Look:
		n.look(a)
	case Examine:
		n.call(Examined, a.Op, func(c *storeCall) { n.reply(c, Event{Doubt: w.doubt(&n.m)}) })
	case Promote:
		n.term, n.work, n.number = live, working, n.s.Grant.Term
		w.lastTerm = max(w.lastTerm, n.number)
	case Demote:
		n.term, n.work = noTerm, stopping
		n.drainBy = now.Mono + int64(n.m.DrainBudget)
		d := w.between(0, n.m.DrainBudget)
		switch {
		case w.hit(tFastWork):
			d = 0
		case w.hit(tStuckWork):
			d += w.between(0, 2*w.drain)
		}
		n.later(d, func() {
			n.work = idle
			n.step(Event{Kind: Drained})
		})
	default:
	}
}

// judge checks what each action must satisfy.
func (n *node) judge(before *State, a Action, now Instant) {
	w, id := n.w, n.m.ID
	if before.Phase == Stopped {
		w.fail("stop", "%s acts after its end: %v", id, a.Kind)
	}
	switch a.Kind {
	case Send:
		n.judgeSend(before, a, now)
	case Promote:
		n.judgePromotion(before, now)
	case Demote:
		if n.term == noTerm {
			w.fail("G3", "%s is demoted without having led", id)
		}
		byRequest := a.Reason == ReasonSteppedDown || a.Reason == ReasonOutranked || a.Reason == ReasonBalanced
		if byRequest && !w.asked[before.Grant.Term] {
			w.fail("control", "%s ends term %d, and no request was for that", id, before.Grant.Term)
		}
	case Finish:
		if n.term != noTerm || n.work == stopping && now.Mono < n.drainBy {
			w.fail("stop", "%s is finished while its work runs", id)
		}
	default:
	}
}

func (n *node) judgeSend(before *State, a Action, now Instant) {
	w, id := n.w, n.m.ID
	switch {
	case a.Write == Release && (n.work == working || n.work == stopping && now.Mono < n.drainBy):
		w.fail("G4", "%s releases while its work runs", id)
	case a.Write == Acquire && n.work != idle:
		w.fail("G4", "%s claims while the work of its last term runs", id)
	case a.Write == Acquire && before.Phase == Watching && n.s.Barred != 0:
		w.fail("fitness", "%s claims and is barred from leading", id)
	case a.Write == Acquire && before.Phase == Watching && n.down && n.m.DisconnectGrace > 0:
		w.fail("grace", "%s claims without its connection", id)
	case a.Write == Acquire && (a.Rec.Term != 0 || a.Rec.Renewal != 0):
		w.fail("claim", "%s claims with term %d of an earlier claim", id, a.Rec.Term)
	case a.Write == Renew && w.mutant.reached(n.s.Grant.Trust, now):
		w.fail("rule 2", "%s renews when its window is closed", id)
	}
}

func (n *node) judgePromotion(before *State, now Instant) {
	w, id, g := n.w, n.m.ID, n.s.Grant
	switch {
	case n.term != noTerm:
		w.fail("G3", "%s is promoted twice", id)
	case n.work != idle:
		w.fail("G3", "%s is promoted while the work of its last term runs", id)
	case before.Barred&(Unhealthy|Paused) != 0:
		w.fail("fitness", "%s is promoted and barred from leading", id)
	case n.s.Phase == Holding && w.mutant.reached(g.Trust, now):
		w.fail("G3", "%s is promoted for term %d, whose window is closed", id, g.Term)
	}
	if w.forgetful() {
		return // revisions come again
	}
	if g.Term <= w.lastTerm {
		w.fail("G2", "%s is promoted for term %d after term %d", id, g.Term, w.lastTerm)
	}
	if w.reg.applied[g.Term] != g.Token {
		w.fail("G6", "%s is promoted for term %d by a write that was not applied", id, g.Term)
	}
}

// judgeState checks what must hold of a candidate's state after each step.
func (n *node) judgeState(before *State) {
	w, id, s := n.w, n.m.ID, &n.s
	switch {
	case s.Grant.Promoted && s.Phase != Holding:
		w.fail("state", "%s is promoted and %v", id, s.Phase)
	case s.Phase == Holding && s.Barred&(Unhealthy|Paused) != 0:
		w.fail("fitness", "%s holds and is barred from leading", id)
	case s.Phase == Holding && s.Undrained:
		w.fail("state", "%s holds while undrained", id)
	case s.Phase == Watching && s.Write != Write{}:
		w.fail("state", "%s watches with a write under way", id)
	case (s.Phase == Claiming || s.Phase == Releasing) && s.Write.Stage == NoStage:
		w.fail("state", "%s is %v and its write is nowhere", id, s.Phase)
	case before.Phase == Stopped && s.Phase != Stopped:
		w.fail("stop", "%s rises from the dead", id)
	case s.Phase == Stopped && n.m.Wake(s) != Never:
		w.fail("stop", "%s is stopped and wants to be woken", id)
	case s.Phase == Holding && before.Phase == Holding && s.Grant.Token == before.Grant.Token && s.Grant.Term != before.Grant.Term:
		w.fail("G2", "%s goes from term %d to %d without leaving in between", id, before.Grant.Term, s.Grant.Term)
	case s.Phase == Holding && n.term == noTerm && s.Grant.Promoted:
		w.fail("state", "%s leads and was not promoted", id)
	}
}

// judgeLead judges G1. Two leaders overlap only if one of them is under way
// when the other begins, so looking at each step of a leader misses nothing. A
// process that is stopped is judged as if it could answer.
func (n *node) judgeLead() {
	w := n.w
	if n.term != live {
		w.fail("G3", "%s leads after the end of its term's context", n.m.ID)
	}
	if g := int64(n.m.DisconnectGrace); g > 0 && n.down && n.now().Mono >= n.downAt+g {
		w.fail("grace", "%s leads for %d without its connection", n.m.ID, n.now().Mono-n.downAt)
	}
	for _, o := range w.nodes {
		if o == n || !o.leads() {
			continue
		}
		if w.regime == unprotected {
			w.holed = true
			return
		}
		w.fail("G1", "%s leads in term %d and %s in term %d", n.m.ID, n.s.Grant.Term, o.m.ID, o.s.Grant.Term)
	}
}
