package leader

import (
	"cmp"
	"context"
	"log/slog"
	mrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/goid"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A loop is the goroutine that owns an election's state: it turns what happens
// into events, and performs the actions that the core answers with. Only it
// touches the fields.
type loop struct {
	e     *election
	rules machine.Machine
	state machine.State
	timer bell
	goid  atomic.Uint64 // of the loop's goroutine, 0 without one

	ctx    context.Context // of all I/O
	cancel context.CancelFunc
	io     sync.WaitGroup
	// endHealth ends the context of the health checks, before that of all I/O.
	endHealth context.CancelFunc
	// unwatch, set by join, ends the watch. That ends with ctx too, but only stop waits for its end.
	unwatch func()

	token   string         // fresh, for the next claim
	word    string         // that of token
	claimed string         // the word of the latest claim of ours
	rtt     time.Duration  // of the latest write that was applied
	offers  *offers        // nil before the first
	record  record.Record  // what the latest sight said in full
	watched uint64         // the revision that the watch told of last
	control record.Control // the latest control record
	ending  *grant         // the term whose demotion is due
	since   int64          // when the present grant was acquired (monotonic)
	known   standings      // of the group, as its latest record tells, or we do
	aged    string         // the token of the claim for which they have aged
	bid     bid
	// controlled is the revision of the control record that was delivered last.
	controlled uint64
	mend       mend
	nomination nomination
	// informBy is when the election goes on without knowing the control record (monotonic), 0 without that. What it says comes with the
	// watch; it may be one that this candidate may not read.
	informBy int64
	waiters  []*waiter
	told     LeaderInfo // what observers were told last

	peers peers

	// overrunAt is when it is said again that the work of a term does not end (monotonic).
	overrunAt int64

	severed bool // the store is closed for good, and the core told to end

	// The latest token whose correlation was asked for, and that.
	hashed, hash string
}

// begin starts the goroutine. err is why rules are not known yet, if so.
func (l *loop) begin(parent context.Context, e *election, rules conditions, err error) {
	l.e, l.rules = e, rules.Machine
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(parent))
	l.timer = e.clock.bell()
	stopConn := e.followConn()
	l.spawn("join", func() { e.join(l.ctx, rules, err) })
	health, endHealth := context.WithCancel(l.ctx)
	l.endHealth = endHealth
	if e.cfg.HealthChecker != nil {
		l.spawn("health checks", func() { e.followHealth(health) })
	}
	if e.cfg.Fencing.ValidationInterval > 0 {
		l.spawn("validations", func() { e.validatePeriodically(l.ctx) })
	}
	go l.live(parent, stopConn)
}

// live is the goroutine. The end is deferred, since runtime.Goexit in a hook
// takes the goroutine along.
func (l *loop) live(parent context.Context, stopConn func()) {
	defer l.end(stopConn)
	l.e.guard("loop", func() { l.run(parent) })
}

// end ends what the election began, whatever becomes of the parts.
func (l *loop) end(stopConn func()) {
	e := l.e
	defer close(e.done)
	e.callEach([]func(){
		l.finish, l.cancel, stopConn, l.refuseOffers, l.endListening, l.io.Wait, l.unwatchAll, l.dispose, l.awaitCallbacks, l.reportRest,
		func() { e.seat.vacate(e.crashed()) },
	}, func(value any, stack []byte) { e.crash("the end", value, stack) })
}

// finish tells the program that its term is over, if it was not told, and after a
// crash also the readers. The core may be broken and is not asked: its record
// is left to expire.
func (l *loop) finish() {
	if g := l.e.current.Swap(nil); g != nil {
		g.close(ReasonCrashed)
		l.demoteLate()
		l.ending = g
	}
	g := l.ending
	l.demoteLate()
	if l.e.crashed() {
		l.publishCrash(g)
	}
}

// publishCrash makes the end visible to readers. g is the term that it has
// ended, nil for none.
func (l *loop) publishCrash(g *grant) {
	e := l.e
	old := e.snap.Load()
	if old.state == machine.Ended {
		return
	}
	next := &snapshot{state: machine.Ended, at: time.Now(), reason: ReasonCrashed, leader: old.leader}
	t := Transition{At: next.at, Event: EventStopped, From: stateName(old.state), To: StateStopped, Reason: ReasonCrashed}
	led := old.state == machine.Leader && g != nil
	if led {
		next.leader = LeaderInfo{Group: e.cfg.Group, Term: g.term.Number, Correlation: g.correlation, Reason: ReasonCrashed}
	}
	e.snap.Store(next)
	if led {
		d := t
		d.Event, d.To, d.Term, d.LeaderTerm, d.Correlation = EventDemoted, StateDemoted, g.term, g.term.Number, g.correlation
		e.reportTransition(d, false)
		t.From = StateDemoted
		l.told = next.leader
		e.tellLeader(l.told)
	}
	e.reportTransition(t, false)
	e.seat.stepped(l.told)
}

func (l *loop) unwatchAll() {
	if l.unwatch != nil {
		l.unwatch()
	}
}

func (l *loop) dispose() {
	if f := l.e.dispose; f != nil {
		f()
	}
}

// inside reports whether the caller is a hook, which runs on the loop's goroutine.
func (l *loop) inside() bool {
	id := l.goid.Load()
	return id != 0 && id == goid.Current()
}

func (l *loop) run(parent context.Context) {
	l.goid.Store(goid.Current())
	defer l.goid.Store(0)
	l.e.askHooks()
	defer l.timer.Stop()
	stop := parent.Done()
	for l.state.Phase != machine.Stopped && !l.e.crashed() {
		faults.Point("loop")
		select {
		case <-l.e.mail.wake:
			l.takeMail()
		case <-l.timer.C:
			// What has arrived by now comes first: a process that was stalled would else
			// challenge a record that it has been told is gone.
			l.takeMail()
			l.step(machine.Event{Kind: machine.Tick})
			if l.e.clock.now().Mono >= l.uninformedUntil() {
				l.unbar(machine.Uninformed)
			}
			if l.e.clock.now().Mono >= l.overrunDue() {
				l.outlived()
			}
			l.answerWaiters()
		case <-stop:
			stop = nil
			l.e.askStop(l.e.cfg.DeleteOnStop)
		}
		if l.state.Stopping {
			l.endHealth() // a check that is under way ends while the work stops, and not after it
		}
		l.considerBid()
		l.makeBid()
		l.considerNomination()
		l.schedule()
	}
	l.answerWaiters()
}

// schedule sets the timer to when the core wants to be called next.
func (l *loop) schedule() {
	wake := min(l.rules.Wake(l.state), l.expiry(), l.bid.due(), l.nominationDue(), l.uninformedUntil(), l.overrunDue())
	if wake == machine.Never {
		l.timer.Stop()
		return
	}
	l.timer.Reset(time.Duration(wake - l.e.clock.now().Mono))
}

func (l *loop) uninformedUntil() int64 {
	if l.informBy == 0 || l.state.Barred&machine.Uninformed == 0 {
		return machine.Never
	}
	return l.informBy
}

// expiry is when the leader that observers were told of is seen to have fallen silent. The core does
// not ask to be woken for that if it may not campaign.
func (l *loop) expiry() int64 {
	if until := l.e.snap.Load().leader.Until; l.e.clock.present().Before(until) {
		return int64(until.Sub(l.e.clock.origin))
	}
	return machine.Never
}

func (l *loop) takeMail() {
	letters, sight, control := l.e.mail.take()
	for _, letter := range letters {
		l.open(letter)
	}
	if control != nil {
		l.takeControl(*control)
	}
	if sight != nil {
		l.sight(*sight)
	}
	l.obey()
	l.takeTurn()
	l.answerWaiters()
}

func (l *loop) open(letter letter) {
	switch {
	case letter.rules != nil:
		l.rules = letter.rules.Machine
		l.step(machine.Event{Kind: machine.Bar, Bars: machine.Uninformed})
		l.step(machine.Event{Kind: machine.Start, Doubt: letter.rules.doubt})
	case letter.wait != nil:
		l.waiters = append(l.waiters, letter.wait)
	case letter.note != nil:
		l.report(*letter.note)
	case letter.bid != nil:
		l.bidMade(*letter.bid)
	case letter.nominee != nil:
		l.nomination.hear(*letter.nominee)
	case letter.mended != nil:
		l.mended(*letter.mended)
	case letter.closed != nil:
		l.sever(letter.closed)
	case letter.watched:
		l.informBy = l.e.clock.now().Mono + int64(l.e.cfg.TTL)
	default:
		if letter.call != nil {
			l.reportCall(*letter.call)
			l.took(*letter.call)
			l.failWaiters(*letter.call)
		}
		if letter.entry != nil {
			letter.ev.Seen = l.read(*letter.entry)
		}
		switch letter.ev.Kind {
		case machine.Offered:
			l.offered(letter.ev)
			return
		case machine.Drained:
			l.e.undrained = false
		default:
		}
		l.step(letter.ev)
	}
}

// sever ends the election, since its store is closed for good. The record is left
// to expire: nothing can be written any more.
func (l *loop) sever(cause error) {
	if l.severed || !l.e.breakOff(cause) {
		return
	}
	l.severed = true
	l.report(Note{At: time.Now(), Kind: NoteClosed, Text: "the connection to the store is closed for good, which ends the election: " + cause.Error()})
	l.step(machine.Event{Kind: machine.Leave, Exit: machine.Exit{Reason: machine.Reason(ReasonClosed)}})
	l.step(machine.Event{Kind: machine.StopLeave})
}

func (l *loop) sight(entry store.Entry) {
	// A watch tells of our own writes after their answers. What it says of the time before them is
	// old, unless the watch itself goes back: then the store did.
	old := entry.Revision < l.state.View.Rev && entry.Revision >= l.watched
	l.watched = entry.Revision
	if old {
		return
	}
	l.step(machine.Event{Kind: machine.Sight, Seen: l.read(entry)})
	l.caughtUp()
}

// read interprets what stands in the register.
func (l *loop) read(entry store.Entry) machine.Seen {
	seen, rec := record.Read(entry)
	l.record = rec
	l.compare(seen, rec)
	l.meetForeign(seen)
	if seen.Kind == machine.Held && rec.Token != l.state.Grant.Token || seen.Kind == machine.Vacant {
		l.known = rec.Standings
		seen.Ranked = len(l.known) > 0
		seen.Behind = l.known.behind(l.e.cfg.VersionPolicy, l.e.cfg.standing())
	}
	return seen
}

// takeControl takes in the control record. Its request is kept for obey: one for a term whose acknowledgement
// is still on its way is meant for us, though we do not know it yet.
func (l *loop) takeControl(entry store.Entry) {
	c, ok := record.ReadControl(entry)
	again := entry.Revision == l.controlled // a poll says again what was heard and judged
	l.controlled = entry.Revision
	if !ok {
		l.garbled(again)
		return
	}
	l.mend.revision = 0
	l.pause(c.Paused)
	if !again {
		l.control = c
		l.hear(c.Stand)
		l.overhear(c.Stand)
	}
	// Last, since a group that is paused is not to be campaigned for.
	l.unbar(machine.Uninformed)
}

// pause takes in whether the group is paused.
func (l *loop) pause(p *record.Pause) {
	switch {
	case p == nil:
		l.unbar(machine.Paused)
	case l.state.Barred&machine.Paused == 0:
		l.step(machine.Event{
			Kind: machine.Bar, Bars: machine.Paused, Exit: machine.Exit{Reason: machine.ReasonPaused, By: p.By, Why: p.Reason},
		})
	}
}

func (l *loop) unbar(b machine.Bars) {
	if l.state.Barred&b != 0 {
		l.step(machine.Event{Kind: machine.Unbar, Bars: b})
	}
}

// obey puts the latest request to the core if it is meant for the present term. There it
// ends the term, so that it is obeyed once.
func (l *loop) obey() {
	req := l.control.Request
	if !req.Known() || l.state.Phase != machine.Holding || l.state.Grant.Term != req.Term {
		return
	}
	x := machine.Exit{Reason: machine.ReasonSteppedDown, By: req.By, Why: req.Reason}
	switch req.Op {
	case record.OpTransfer:
		x.Reason, x.Successor = machine.ReasonTransferred, req.Successor
	case record.OpBalance:
		if !l.e.seat.gives(req.Have) {
			l.control.Request = record.Request{} // refused now, and not to be granted when things have changed
			return
		}
		x.Reason, x.Successor = machine.ReasonBalanced, req.Successor
	}
	l.step(machine.Event{Kind: machine.Asked, Term: req.Term, Exit: x})
}

// step puts one event to the core and does what it answers.
func (l *loop) step(ev machine.Event) {
	l.e.clock.awake()
	if l.token == "" {
		l.token, l.word = record.NewClaim()
	}
	ev.Token, ev.Rand, ev.Nonce = l.token, mrand.Uint64(), record.NewNonce()
	before := l.state
	state, actions := l.next(ev)
	faults.Point("step")
	l.apply(before, state, actions)
}

// apply takes the core's answer to heart: the state first, then the actions. It
// bears every answer, also ones that the core never gives.
func (l *loop) apply(before, state machine.State, actions []machine.Action) {
	l.state = state
	if state.Grant.Token == l.token {
		l.token, l.claimed = "", l.word
	}
	if state.Phase == machine.Holding && before.Phase != machine.Holding {
		l.since = l.e.clock.now().Mono
	}
	l.remember(before)
	l.syncGrant()
	l.publish(before)
	l.e.seat.stepped(l.told)
	l.tendOffers() // before the program is told anything, which is to be what happens next on a busy processor
	for _, a := range actions {
		if l.e.crashed() {
			return // nothing is written for a broken core
		}
		faults.Point("perform")
		l.perform(a)
	}
}

// syncGrant brings the readers' view of the term in line with the state, before anything
// else is done about it: a term that is over is over for readers first.
func (l *loop) syncGrant() {
	g := l.e.current.Load()
	if g == nil {
		l.beginTerm()
		return
	}
	if !l.leads() || l.state.Grant.Term != g.term.Number {
		g.close(Reason(l.state.Exit.Reason))
		l.e.current.Store(nil)
		l.demoteLate()
		l.ending = g
		l.beginTerm()
		return
	}
	if until := l.state.Grant.Trust; until.Mono != g.mono.Load() {
		g.extend(until) // if it fails, onClose has told us
	}
}

func (l *loop) perform(a machine.Action) {
	switch a.Kind {
	case machine.Send:
		if a.Write == machine.Offer {
			l.offer(a)
			return
		}
		if a.Write == machine.Acquire {
			if a.Rec.Token != l.aged { // and not with each attempt
				l.aged, l.known = a.Rec.Token, l.known.aged()
			}
			l.known = l.known.heard(l.e.cfg.VersionPolicy, l.e.cfg.standing())
		}
		known := l.known
		l.spawn("write", func() { l.e.send(l.ctx, a, known) })
	case machine.Look:
		l.spawn("look", func() { l.e.look(l.ctx, a) })
	case machine.Promote:
		l.promote()
	case machine.Demote:
		l.demote()
	case machine.Note:
		if a.Note == machine.NoteOverrun {
			l.outlived()
			return
		}
		l.report(noteOf(a))
	case machine.Finish:
	}
}

// outlived takes in that the work of a term has outlived DemoteTimeout. It says so
// again for as long as that lasts: such a candidate does not campaign.
func (l *loop) outlived() {
	l.e.overran.Store(true)
	l.overrunAt = l.e.clock.now().Mono + int64(sayAgain)
	l.report(Note{At: time.Now(), Kind: NoteOverrun, Text: l.e.outlivedText()})
}

// overrunDue is when it is to be said again that the work has not ended.
func (l *loop) overrunDue() int64 {
	if l.overrunAt == 0 || !l.e.undrained {
		return machine.Never
	}
	return l.overrunAt
}

// beginTerm opens the term that the state has just been promoted to, if it was.
func (l *loop) beginTerm() {
	if !l.leads() {
		return
	}
	s := l.state.Grant
	term := Term{Number: s.Term, Token: s.Token}
	guard := func(f func()) { l.e.guard("window", f) }
	g := newGrant(l.termContext(term), l.e.clock, term, s.Trust, guard, func() {
		guard(func() { l.e.mail.event(machine.Event{Kind: machine.Closed, Term: term.Number}) })
	})
	l.e.current.Store(g)
	if l.e.crashed() { // and crash may have looked before there was a grant to close
		g.close(ReasonCrashed)
	}
	l.e.overran.Store(false) // whatever outlived its time has returned, or there were no term
}

// leads reports whether the core holds a term that it has promoted.
func (l *loop) leads() bool { return l.state.Phase == machine.Holding && l.state.Grant.Promoted }

// termContext returns the context whose values the term's context is to show.
func (l *loop) termContext(term Term) context.Context {
	var given []context.Context
	if f := l.e.hooks.TermContext; f != nil {
		l.e.hook("Hooks.TermContext", func() { given = append(given, f(l.ctx, term)) })
	}
	if len(given) == 0 || given[0] == nil {
		return l.ctx
	}
	return given[0]
}

// promote tells the program of its term, unless that was over before it could be
// told: where one step promotes and demotes, there was none for readers either.
func (l *loop) promote() {
	l.demoteLate()
	if g := l.e.current.Load(); g != nil {
		l.e.handTerm(func() { l.e.callPromote(g) }, nil)
	}
}

// demoteLate makes up for a demotion that nobody has asked for, before the
// program is told of anything else.
func (l *loop) demoteLate() {
	if l.ending != nil {
		l.demote()
	}
}

// demote tells the program that its term is over, and answers the core when the
// program is done with it. One answer is enough for two demotions in a row.
func (l *loop) demote() {
	g := l.ending
	if g == nil && l.e.undrained {
		return
	}
	l.ending, l.e.undrained = nil, true
	l.e.handTerm(func() {
		// Deferred, since a candidate that never hears of it would never campaign again.
		defer l.e.mail.event(machine.Event{Kind: machine.Drained})
		l.e.callDemote(g)
	}, func() { l.e.callDemote(g) }) // work that was begun is ended, whatever we are
}

// publish makes the new state visible to readers, and reports a transition.
func (l *loop) publish(before machine.State) {
	s, e := l.state, l.e
	old := e.snap.Load()
	next := snapshot{state: s.Public(), at: old.at, reason: old.reason, leader: l.leader(), barred: barred(s.Barred)}
	if s.Phase == machine.Holding {
		next.heartbeat, next.revision = e.clock.time(s.Grant.Sent.Mono), s.Grant.Rev
	}
	changed := next.state != old.state
	if changed {
		next.at, next.reason = time.Now(), l.reason()
	}
	if !next.same(old) { // most steps show readers nothing new
		stored := next
		e.snap.Store(&stored)
	}
	news := l.tell() && l.told.ID != "" && l.told.ID != e.cfg.InstanceID
	switch {
	case changed:
		e.reportTransition(l.transition(before, old.state, &next), news)
	case news && next.state == machine.Follower:
		// The next leader was too fast for anything to be seen between it and the last.
		e.logEvent(slog.LevelInfo, l.transition(before, old.state, &next))
	}
	if s.Phase == machine.Claiming && before.Phase != machine.Claiming {
		e.tellCampaign(Reason(s.Reason))
	}
}

// reason is why the state is what it is. The core knows of a stop, and not by whom.
func (l *loop) reason() Reason {
	if l.severed && l.state.Phase == machine.Stopped {
		return ReasonClosed
	}
	return Reason(l.state.Reason)
}

// transition describes what has just become visible.
func (l *loop) transition(before machine.State, from machine.Public, next *snapshot) Transition {
	s := l.state
	t := Transition{
		At: next.at, Event: eventOf(next.state), From: stateName(from), To: stateName(next.state), Reason: next.reason,
		Term: transitionTerm(before, s), LeaderID: l.told.ID, LeaderTerm: l.told.Term, Correlation: l.told.Correlation,
	}
	if t.To == StateDemoted {
		t.By, t.Why = s.Exit.By, s.Exit.Why
	}
	if !t.Term.IsZero() {
		t.Correlation = t.Term.Correlation()
	}
	return t
}

// transitionTerm is the term that began or ended between two states, if one did.
func transitionTerm(before, after machine.State) Term {
	switch {
	case after.Phase == machine.Holding && after.Grant.Promoted:
		return Term{Number: after.Grant.Term, Token: after.Grant.Token}
	case before.Phase == machine.Holding && before.Grant.Promoted:
		return Term{Number: before.Grant.Term, Token: before.Grant.Token}
	default:
		return Term{}
	}
}

// leader is who leads by the register as it was seen last. Our own record does not name
// us: readers look at our window for that.
func (l *loop) leader() LeaderInfo {
	v, r := l.state.View, l.record
	info := LeaderInfo{Group: l.e.cfg.Group, Term: v.Term(), Correlation: l.correlation(v.Rec.Token)}
	switch {
	case v.Kind == machine.Held && v.Rec.Token == l.state.Grant.Token:
		info.Reason = Reason(l.state.Reason)
		if p := l.state.Phase; p == machine.Draining || p == machine.Releasing {
			// As the vacancy will say, which is then no news.
			x := l.state.Exit
			info.By, info.Why, info.Successor = cmp.Or(x.By, l.e.cfg.InstanceID), x.Why, x.Successor
		}
	case v.Kind == machine.Held && l.state.Phase == machine.Claiming && l.state.Grant.Prior.Reason != "":
		info.Reason, info.By = Reason(l.state.Grant.Prior.Reason), v.Rec.ID
	case v.Kind == machine.Held && l.state.Phase == machine.Claiming:
		info.Reason = ReasonExpired
	case v.Kind == machine.Held:
		// Not DueAt, by which this candidate claims: it may let others go first, or back off.
		until := l.state.ViewAt + int64(machine.Wait(l.rules.Lease(l.state), l.e.cfg.ClockDrift))
		info.ID, info.Until = v.Rec.ID, l.e.clock.time(until)
		if r.Token == v.Rec.Token {
			info.Priority, info.Version, info.Address, info.Meta = r.Priority, r.Version, r.Address, r.Meta
		}
	case v.Kind == machine.Vacant:
		info.Reason, info.By, info.Why, info.Successor = Reason(v.Rec.Reason), v.Rec.By, v.Rec.Why, v.Rec.Successor
	default:
		info.Reason = Reason(l.state.Reason)
	}
	return info
}

// correlation is that of the term with this token. It is asked for with every call to the store.
func (l *loop) correlation(token string) string {
	if token != l.hashed {
		l.hashed, l.hash = token, correlation(token)
	}
	return l.hash
}

// barred says why a candidate does not campaign.
func barred(b machine.Bars) Reason {
	switch {
	case b&machine.Paused != 0:
		return ReasonPaused
	case b&machine.Unhealthy != 0:
		return ReasonUnhealthy
	case b&machine.Full != 0:
		return ReasonFull
	default:
		return ""
	}
}

// tell tells observers and callbacks who leads, if that changed, and reports whether it did.
func (l *loop) tell() bool {
	info := l.e.leader()
	if info.sameNews(l.told) {
		return false
	}
	if before, ok := vacancyAfter(l.told, l.state.View); ok && info.ID != "" {
		l.e.tellLeader(before)
	}
	l.told = info
	l.e.tellLeader(info)
	return true
}

// failWaiters answers those who wait for such a call, if it failed in a way that
// does not pass by itself.
func (l *loop) failWaiters(c Call) {
	if c.Outcome != store.Permanent {
		return
	}
	for _, w := range l.waiters {
		if w.kind == c.Kind {
			w.done = func(machine.State) (bool, error) { return true, c.Err }
		}
	}
}

func (l *loop) answerWaiters() {
	rest := l.waiters[:0]
	for _, w := range l.waiters {
		if ok, err := w.done(l.state); ok {
			w.answer <- err
		} else {
			rest = append(rest, w)
		}
	}
	clear(l.waiters[len(rest):])
	l.waiters = rest
}

// awaitCallbacks waits for the callbacks that are under way or due, for as long as
// callbacks may take.
func (l *loop) awaitCallbacks() {
	if l.e.overran.Load() {
		return
	}
	t := time.NewTimer(l.e.cfg.DemoteTimeout)
	defer t.Stop()
	for _, c := range []*courier{&l.e.courier, &l.e.newsman} {
		idle := c.drained()
		if idle == nil {
			continue
		}
		select {
		case <-idle:
		case <-t.C:
			l.e.overran.Store(true)
			l.report(Note{At: time.Now(), Kind: NoteOverrun, Text: "a callback did not return within DemoteTimeout; the election ends all the same"})
			return
		}
	}
}

// reportRest reports what the last calls and callbacks left to report.
func (l *loop) reportRest() {
	// Once more, for the panics of hooks that were told the first time.
	for range 3 {
		letters, _, _ := l.e.mail.take()
		for _, letter := range letters {
			switch {
			case letter.note != nil:
				l.report(*letter.note)
			case letter.call != nil:
				l.reportCall(*letter.call) // the watch had shown its effect before
			}
		}
	}
}
