package engine

import (
	"context"
	mrand "math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/goid"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/preference"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A loop is the goroutine that owns the state of the core: it turns what
// happens into events, and performs the actions that the core answers with.
// Only the loop touches the fields, so they need no lock. Readers use a
// snapshot, the window, or a message that the loop answers.
type loop struct {
	*Candidate

	rules machine.Machine
	state machine.State
	timer ticker
	goid  atomic.Uint64 // of the loop's goroutine, 0 without one

	// endHealth ends the context of the health checks, before the context of
	// all I/O.
	endHealth context.CancelFunc

	token string // fresh, for the next claim

	record   record.Record // the latest state of the record, in full
	observed uint64        // the revision that the watch delivered last
	draft    *record.Draft // our latest write, until the record shows what became of it

	ending *window // the term whose demotion is due
	since  int64   // when the latest promotion was (monotonic)
	// undrained: a demotion was handed in, and is not answered yet.
	undrained bool
	severed   bool        // the store is permanently closed, and the core was asked to end
	watching  atomic.Bool // the watch runs
	// overrunAt is when to report again that the work of a term does not end
	// (monotonic).
	overrunAt int64

	known   preference.Standings // of the group, by its latest record or this leader
	changes *changes             // of leader, and the latest claim; nil before there is anything to remember

	control  control
	takeover *takeover // nil before the first
	peers    peers

	waiters []*waiter
	told    leadership.Info // what observers were notified of last

	// The latest token whose correlation was asked for, and that.
	hashed, hash string
}

// begin starts the goroutine. err is why the conditions are not known yet. The
// caller holds the candidate's lock, so nothing here waits for an answer.
func (l *loop) begin(parent context.Context, conditions Conditions, err error) {
	l.prepare(parent, conditions.Machine)
	stopConn := l.io.followConn(l.watching.Load)
	l.spawn("join", func() { l.io.join(conditions, err) })
	l.endHealth = func() {}
	if l.cfg.Check != nil {
		l.followHealth()
	}
	if l.cfg.ValidateEvery > 0 {
		l.spawn("validations", func() { l.validatePeriodically(l.ctx) })
	}
	go l.live(parent, stopConn)
}

// followHealth has the program asked whether it is fit. The context is made
// only where there is a check, since it costs memory.
func (l *loop) followHealth() {
	ctx, end := context.WithCancel(l.ctx)
	l.endHealth = end
	h := l.health()
	l.spawn("health checks", func() { h.Follow(ctx) })
}

// prepare sets up what the goroutine works with.
func (l *loop) prepare(parent context.Context, rules machine.Machine) {
	l.rules = rules
	// The end of Start's context asks for a stop, and must not cut off the
	// release that comes of it.
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(parent)) //nolint:gosec // the end of the loop cancels it
	l.timer = l.clock.ticker()
}

// live is the goroutine. The end is deferred, since runtime.Goexit in a hook
// takes the goroutine along.
func (l *loop) live(parent context.Context, stopConn func()) {
	l.goid.Store(goid.Current())
	defer l.goid.Store(0) // after the end, which calls hooks, too
	defer l.end(stopConn)
	l.guard("loop", func() { l.run(parent) })
}

// end ends what the candidate began, whatever becomes of the parts.
func (l *loop) end(stopConn func()) {
	defer close(l.done)
	// The order matters: the calls end with their context, the watch when no
	// call is left that would report its end, and the store is disposed of
	// after both. Callbacks are awaited last.
	callEach([]func(){
		l.finish, l.cancel, l.io.abandon, stopConn, l.work.Wait, l.io.unwatch, l.endDrain, l.dispose,
		l.awaitCallbacks, l.reportRest, l.leaveSupervisor,
	}, func(value any, stack []byte) { l.crash("the end", value, stack) })
}

// finish notifies the program that its term is over, if it was not notified,
// and after a crash also the readers. The core may be broken and is not asked:
// its record is left to expire.
func (l *loop) finish() {
	if w := l.current.Swap(nil); w != nil {
		w.close(leadership.ReasonCrashed)
		l.demoteLate()
		l.ending = w
	}
	w := l.ending
	l.demoteLate()
	if l.crashed() {
		l.publishCrash(w)
	}
}

// leaveSupervisor comes last, when nothing goes on that a supervisor would have
// to know.
func (l *loop) leaveSupervisor() {
	if s := l.cfg.Supervisor; s != nil {
		s.Ended(l.closed.Load() != nil)
	}
}

// inside reports whether the caller is a hook, which runs on the loop's
// goroutine.
func (l *loop) inside() bool {
	id := l.goid.Load()
	return id != 0 && id == goid.Current()
}

func (l *loop) run(parent context.Context) {
	l.askHooks()
	defer l.timer.Stop()
	stop := parent.Done()
	for l.state.Phase != machine.Stopped && !l.crashed() {
		faults.Point("loop")
		select {
		case <-l.inbox.wake:
			l.takeMessages()
		case <-l.timer.C:
			l.tick()
		case <-stop:
			// Once: a closed channel is ready for ever.
			stop = nil
			l.AskStop(l.cfg.DeleteOnStop)
		}
		if l.state.Stopping {
			l.endHealth() // a check that is under way ends while the work stops, and not after it
		}
		// After each round, since what they plan depends on what has just been
		// seen. The timer is then set for it.
		l.considerTakeover()
		l.schedule()
	}
	l.answerWaiters()
}

// now reads the monotonic clock.
func (l *loop) now() int64 { return l.clock.now().Mono }

// askHooks asks for the hooks of this election alone. The goroutine does it
// first, so that no hook misses anything.
func (l *loop) askHooks() {
	if f := l.cfg.PerElection; f != nil {
		l.report.hook("Hooks.PerElection", func() {
			f(func(h Hooks) { l.report.hooks = h })
		})
	}
}

// considerTakeover has the takeover look at the state, and makes it for the
// first leader that is followed.
func (l *loop) considerTakeover() {
	if l.takeover == nil && follows(&l.state, &l.record) {
		l.takeover = &takeover{env: &l.env}
	}
	if l.takeover != nil {
		l.takeover.consider(&l.state, &l.record, l.now())
	}
}

// schedule sets the timer to when the core, or a part, wants to be called next.
func (l *loop) schedule() {
	wake := min(l.rules.Wake(&l.state), l.expiry(), l.takeover.due(), l.uninformedUntil(), l.overrunDue())
	if wake == machine.Never {
		l.timer.Stop()
		return
	}
	// It may be past by now: then the timer fires at once.
	l.timer.Reset(time.Duration(wake - l.now()))
}

// tick takes in that time has passed.
func (l *loop) tick() {
	// Messages come first: otherwise a process that was stalled would challenge
	// a record although a message already reports that the record is gone.
	l.takeMessages()
	l.step(&machine.Event{Kind: machine.Tick})
	if l.now() >= l.uninformedUntil() {
		l.unbar(machine.Uninformed)
	}
	if l.now() >= l.overrunDue() {
		l.outlived()
	}
	l.answerWaiters()
}

// takeMessages handles all that has arrived, in a fixed order. The messages
// come first, among them the answers to our own writes: the watch's reports of
// those writes are then no news. The control record comes before the record,
// which may be free to be claimed: a paused group is not. Requests come after
// both, since they may be for a term that has arrived with them.
func (l *loop) takeMessages() {
	messages, group, control := l.inbox.take()
	for _, m := range messages {
		l.dispatch(m)
	}
	l.inbox.done(messages)
	if control != nil {
		l.observeControl(*control)
	}
	if group != nil {
		l.observe(group)
	}
	l.obey()
	l.answerWaiters()
}

func (l *loop) dispatch(m *message) {
	switch {
	case m.conditions != nil:
		l.join(m.conditions)
	case m.wait != nil:
		l.waiters = append(l.waiters, m.wait)
	case m.note != nil:
		l.note(*m.note)
	case m.requested != nil:
		if text := l.takeover.sent(*m.requested, l.now()); text != "" {
			l.note(Note{At: time.Now(), Kind: NoteTakeover, Text: text})
		}
	case m.closed != nil:
		l.sever(m.closed)
	case m.watched:
		l.watching.Store(true)
		l.control.informBy = l.now() + int64(l.cfg.TTL)
	default:
		l.dispatchEvent(m)
	}
}

// join begins to take part, in a store whose conditions are known. The bar
// comes first: the first claim must respect an operator's pause, which is in
// the other record.
func (l *loop) join(c *Conditions) {
	l.rules = c.Machine
	l.step(&machine.Event{Kind: machine.Bar, Bars: machine.Uninformed})
	l.step(&machine.Event{Kind: machine.Start, Doubt: c.doubt})
}

// dispatchEvent puts the event of a message to the core.
func (l *loop) dispatchEvent(m *message) {
	if m.call != nil {
		l.io.landed()
		l.ended(m.call)
	}
	if m.entry != nil {
		l.read(m.entry, &m.event.Seen)
	}
	if m.event.Kind == machine.Drained {
		l.drained()
	}
	l.step(&m.event)
}

// ended takes in a call to the store that ended.
func (l *loop) ended(c *Call) {
	c.Correlation = l.correlation(l.state.Grant.Token)
	l.report.call(*c)
	l.failWaiters(c)
}

// sever ends the election, since its store is permanently closed. The record is
// left to expire: nothing can be written any more. Each call that finds the
// store closed reports that; the first report counts.
func (l *loop) sever(cause error) {
	if l.severed || !l.BreakOff(cause) {
		return
	}
	l.severed = true
	l.note(Note{At: time.Now(), Kind: NoteClosed, Text: "the connection to the store is permanently closed, which ends the election: " + cause.Error()})
	l.step(&machine.Event{Kind: machine.Leave, Exit: machine.Exit{Reason: leadership.ReasonClosed}})
	l.step(&machine.Event{Kind: machine.StopLeave})
}

// observe takes in a state of the group's record that the watch delivered.
func (l *loop) observe(entry *store.Entry) {
	// A watch reports our own writes after their answers. Its reports of the
	// time before them are old, unless the watch itself goes back: then the
	// store did.
	old := entry.Revision < l.state.View.Rev && entry.Revision >= l.observed
	l.observed = entry.Revision
	if old {
		return
	}
	ev := machine.Event{Kind: machine.Observed}
	l.read(entry, &ev.Seen)
	if l.state.Echoes(&ev.Seen) {
		return // a step costs as much as reading the record, and each renewal has an echo
	}
	l.step(&ev)
}

// read interprets a state of the group's record. All reads pass it, from the
// watch and from a Look: so the details that the core does not receive
// (standings, counts, the settings of others) are recorded together with the
// rest. After its end the core receives none, and neither does the status.
func (l *loop) read(entry *store.Entry, seen *machine.Seen) {
	if l.state.Phase == machine.Stopped {
		return
	}
	rec := &l.record
	before := uint64(rec.Transitions)
	l.draft.Read(entry, seen, rec)
	if l.draft.Decided(entry.Revision) {
		l.draft = nil
	}
	// A deletion or garbage contains no count, and the next claim continues the
	// count from before it.
	if before > 0 && !tells(seen.Kind) {
		l.counted().kept = before
	}
	l.peers.observe(seen, rec, l.rules.ForeignTTL, l.now())
	if seen.Kind == machine.Held && rec.Token != l.state.Grant.Token || seen.Kind == machine.Vacant {
		l.known = rec.Standings
		seen.Ranked = len(l.known) > 0
		seen.Behind = l.known.Behind(l.cfg.VersionPolicy, l.cfg.Standing)
	}
}

// step puts one event to the core and does what it answers. Chance and identity
// come in with the event, since the core has none: that it is a function is
// what lets an explorer try all its futures (ADR 5). A token is drawn when the
// last one was used, and the other two for each step.
func (l *loop) step(ev *machine.Event) {
	l.clock.awake()
	if l.token == "" {
		l.token = record.NewToken()
	}
	ev.Token, ev.Rand, ev.Nonce = l.token, mrand.Uint64(), record.NewNonce()
	// Copy what is still needed of the previous state, which the core changes
	// in place.
	before := pastOf(&l.state)
	actions := l.next(ev)
	faults.Point("step")
	l.apply(before, actions)
}

// past is what is still asked of a state that the core has left.
type past struct {
	phase    machine.Phase
	promoted bool
	term     leadership.Term // of the grant
}

func pastOf(s *machine.State) past {
	return past{s.Phase, s.Grant.Promoted, leadership.Term{Number: s.Grant.Term, Token: s.Grant.Token}}
}

// next puts an event to the core.
func (l *loop) next(ev *machine.Event) []machine.Action {
	now := l.clock.now()
	if s := l.cfg.Supervisor; s != nil {
		return l.admitted(s, ev, now)
	}
	return l.rules.Apply(&l.state, ev, now, nil)
}

// admitted is next where a supervisor is asked for room first, if the answer is
// a claim. It cannot be asked beforehand: only the core decides which event
// leads to a claim.
func (l *loop) admitted(s Supervisor, ev *machine.Event, now machine.Instant) []machine.Action {
	// The core is pure: an answer that nobody acts on has not been given.
	trial := l.state
	actions := l.rules.Apply(&trial, ev, now, nil)
	wait, room := s.Admit(&trial)
	if room && wait <= 0 {
		l.state = trial
		return actions
	}
	actions = l.withheld(ev, now)
	if room {
		// Set this only now: the event may end an earlier wait of this kind.
		l.state.StandBackUntil = max(l.state.StandBackUntil, now.Mono+int64(wait))
		actions = l.rules.Apply(&l.state, &machine.Event{Kind: machine.Unbar, Bars: machine.Full, Token: ev.Token, Rand: ev.Rand}, now, actions)
	}
	s.Settle(&l.state)
	return actions
}

// withheld puts an event to the core with the bar for missing room, so that the
// answer is not a claim.
func (l *loop) withheld(ev *machine.Event, now machine.Instant) []machine.Action {
	actions := l.rules.Apply(&l.state, &machine.Event{Kind: machine.Bar, Bars: machine.Full, Token: ev.Token, Rand: ev.Rand}, now, nil)
	// Where the event is the end of this very bar, it has not ended.
	ev.Bars &^= machine.Full
	return l.rules.Apply(&l.state, ev, now, actions)
}

// apply takes in the core's answer: the state first, which is the loop's by
// now, then the actions. It bears every answer, also ones that the core never
// gives.
func (l *loop) apply(before past, actions []machine.Action) {
	// The claim has taken the token, and the next gets another (rule 10).
	if l.state.Grant.Token == l.token {
		l.token = ""
	}
	if l.state.Grant.Promoted && !before.promoted {
		l.since = l.now()
	}
	l.peers.stepped(before, &l.state)
	l.syncWindow()
	l.publish(before)
	l.tellSupervisor()
	for i := range actions {
		if l.crashed() {
			return // nothing is written for a broken core
		}
		faults.Point("perform")
		l.perform(&actions[i])
	}
}

// syncWindow brings the readers' view of the term in line with the state,
// before anything else is done about it: a term that is over is over for
// readers first.
func (l *loop) syncWindow() {
	w := l.current.Load()
	if w == nil {
		l.beginTerm()
		return
	}
	if !l.leads() || l.state.Grant.Term != w.term.Number {
		w.close(l.state.Exit.Reason)
		l.current.Store(nil)
		l.demoteLate()
		l.ending = w
		l.beginTerm()
		return
	}
	if until := l.state.Grant.Trust; until.Mono != w.mono.Load() {
		w.renewed.Store(l.state.Grant.Sent.Wall)
		w.extend(until) // if it fails, onClose has notified us
	}
}

// leads reports whether the core holds a term that it has promoted.
func (l *loop) leads() bool { return l.state.Phase == machine.Holding && l.state.Grant.Promoted }

// beginTerm opens the term that the state has just been promoted to, if it was.
func (l *loop) beginTerm() {
	if !l.leads() {
		return
	}
	s := &l.state.Grant
	term := leadership.Term{Number: s.Term, Token: s.Token}
	guard := func(f func()) { l.guard("window", f) }
	w := newWindow(l.termContext(term), l.clock, term, s.Trust, l.cfg.Loss, guard, func() {
		guard(func() { l.inbox.event(machine.Event{Kind: machine.Closed, Term: term.Number}) })
	})
	w.transitions, w.acquired = l.counted().claimed, l.counted().acquired
	w.renewed.Store(s.Sent.Wall)
	// After all that is set above: readers look at it without a lock.
	l.current.Store(w)
	if l.crashed() { // and crash may have looked before there was a window to close
		w.close(leadership.ReasonCrashed)
	}
}

// termContext returns the context whose values the term's context is to show.
func (l *loop) termContext(term leadership.Term) context.Context {
	var given context.Context
	if f := l.report.hooks.TermContext; f != nil {
		l.report.hook("Hooks.TermContext", func() { given = f(l.ctx, term) }) //nolint:fatcontext // no loop
	}
	if given == nil {
		return l.ctx
	}
	return given
}

// perform does what the core asks for, and waits for nothing: what waits is a
// goroutine's, and its answer another event (ADR 5).
func (l *loop) perform(a *machine.Action) {
	op := a.Op
	switch a.Kind {
	case machine.Send:
		l.send(a)
	case machine.Look:
		l.spawn("look", func() { l.io.look(op) })
	case machine.Examine:
		l.spawn("examine", func() { l.io.examine(op) })
	case machine.Promote:
		l.promote()
	case machine.Demote:
		l.demote()
	case machine.Note:
		l.noted(a)
	// The state contains the end, too, and ends the goroutine.
	case machine.Finish:
	}
}

// noted performs a Note.
//
//go:noinline
func (l *loop) noted(a *machine.Action) {
	if a.Note == machine.NoteOverrun {
		l.outlived()
		return
	}
	l.note(noteOf(a))
}

// send performs a Send. It and what it calls have small frames: thousands of
// goroutines renew that have little stack, and growing it costs more than
// renewing.
func (l *loop) send(a *machine.Action) {
	if a.Write == machine.Acquire {
		l.claims(a)
	}
	l.write(a)
}

// claims notes what is known at a claim.
//
//go:noinline
func (l *loop) claims(a *machine.Action) {
	if c := l.counted(); a.Rec.Token != c.token { // and not with each attempt
		l.known = l.known.Aged()
	}
	l.counted().claim(a, l.state.View.Kind, uint64(l.record.Transitions))
	l.counted().acquired = l.leaves()
	l.known = l.known.Heard(l.cfg.VersionPolicy, l.cfg.Standing)
}

// write makes a Send of a write. A draft that could not be made goes the same
// way as one that could, since the core awaits an answer to each Send. A store
// that need not be waited for is not (ADR 11).
func (l *loop) write(a *machine.Action) {
	transitions, acquired := l.changes.with(a, l.state.Grant.Term, &l.record)
	d, err := l.io.draft(a, l.known, transitions, acquired, l.leaves())
	// Kept until the record shows what became of it: a watch brings each
	// renewal back, and the loop need not parse its own.
	l.draft = d
	if st, ok := l.store.st.(store.AsyncWriter); ok && d != nil {
		l.io.begin(st, a.Write, a.Op, d)
		return
	}
	l.spawnWrite(a.Write, a.Op, d, err)
}

// leaves is when the write that is under way leaves, by the wall clock. It is
// the time of the first attempt which may have been applied, so that each
// attempt has the same content.
func (l *loop) leaves() record.Moment { return record.MomentAt(l.state.Write.First.Wall) }

//go:noinline
func (l *loop) spawnWrite(kind machine.WriteKind, op uint64, d *record.Draft, err error) {
	l.spawn("write", func() { l.io.send(kind, op, d, err) })
}

// counted returns what is remembered of changes of leader.
func (l *loop) counted() *changes {
	if l.changes == nil {
		l.changes = &changes{}
	}
	return l.changes
}

// promote notifies the program of its term, unless the term was over before:
// where one step promotes and demotes, there was no term for readers either.
func (l *loop) promote() {
	l.demoteLate()
	if w := l.current.Load(); w != nil {
		l.callbacks.ofTerm(func() { l.callbacks.promote(w) }, nil)
	}
}

// demoteLate makes up for a missing demotion, before the program is notified of
// anything else.
func (l *loop) demoteLate() {
	if l.ending != nil {
		l.demote()
	}
}

// demote notifies the program that its term is over, and answers the core when
// the program is done with it. A single answer is enough for two demotions in a
// row.
func (l *loop) demote() {
	w := l.ending
	if w == nil && l.undrained {
		return
	}
	l.ending, l.undrained = nil, true
	l.callbacks.ofTerm(func() {
		// Deferred, since a candidate that never hears of it would never
		// campaign again.
		defer l.inbox.event(machine.Event{Kind: machine.Drained})
		l.callbacks.demote(w)
	}, func() { l.callbacks.demote(w) }) // work that has started is ended, in any state
}

// outlived records that the work of a term has outlived DemoteTimeout. It
// repeats the report for as long as that lasts, because such a candidate does
// not campaign.
//
//go:noinline
func (l *loop) outlived() {
	l.overran.Store(true)
	l.overrunAt = l.now() + int64(sayAgain)
	l.note(Note{At: time.Now(), Kind: NoteOverrun, Text: l.callbacks.outlivedText()})
}

// drained records that the work of a term has returned. That ends an overrun,
// unless a stop has to report it.
func (l *loop) drained() {
	l.undrained, l.overrunAt = false, 0
	if !l.state.Stopping {
		l.overran.Store(false)
	}
}

// overrunDue is when to report again that the work has not ended.
func (l *loop) overrunDue() int64 {
	if l.overrunAt == 0 || !l.undrained {
		return machine.Never
	}
	return l.overrunAt
}

// note reports a note about the present claim.
func (l *loop) note(n Note) {
	n.Correlation = l.correlation(l.state.Grant.Token)
	l.report.note(n)
}

// failWaiters answers those who wait for such a call, if it failed in a way
// that does not pass by itself.
func (l *loop) failWaiters(c *Call) {
	if c.Outcome != store.Permanent {
		return
	}
	// The reason takes the place of the condition, and the next look answers.
	for _, w := range l.waiters {
		if w.kind == c.Kind {
			w.done = func(*machine.State) (bool, error) { return true, c.Err }
		}
	}
}

// answerWaiters comes after each batch and each tick, by which alone the state
// changes. No answer waits for its reader: there is room for one.
func (l *loop) answerWaiters() {
	rest := l.waiters[:0]
	for _, w := range l.waiters {
		if ok, err := w.done(&l.state); ok {
			w.answer <- err
		} else {
			rest = append(rest, w)
		}
	}
	clear(l.waiters[len(rest):])
	l.waiters = rest
}

// dispose returns the store to those that share it. A candidate that never ran
// owes that, too.
func (l *loop) dispose() {
	if f := l.cfg.Dispose; f != nil {
		f()
	}
}

// awaitCallbacks waits for the callbacks that are under way or due, for as long
// as callbacks may take.
func (l *loop) awaitCallbacks() {
	// The work of a term has outlived its time, and has been waited for enough.
	if l.overran.Load() {
		return
	}
	t := time.NewTimer(l.cfg.DemoteTimeout)
	defer t.Stop()
	for _, q := range []*callQueue{&l.callbacks.terms, &l.callbacks.news} {
		idle := q.drained()
		if idle == nil {
			continue
		}
		select {
		case <-idle:
		case <-t.C:
			l.overran.Store(true)
			l.note(Note{At: time.Now(), Kind: NoteOverrun, Text: "a callback did not return within DemoteTimeout; the election ends all the same"})
			return
		}
	}
}

// reportRest reports what the last calls and callbacks left to report.
func (l *loop) reportRest() {
	// Again, for the panics of hooks that were called the first time.
	for range 3 {
		messages, _, _ := l.inbox.take()
		for _, m := range messages {
			switch {
			case m.note != nil:
				l.note(*m.note)
			case m.call != nil && l.lastWord(m.call):
				m.call.Correlation = l.correlation(l.state.Grant.Token)
				l.report.call(*m.call)
			}
		}
	}
}

// lastWord reports whether a call that ended after the election is to be
// reported. The end cancels what is under way, and that is not an error: the
// read is not needed any more, and the outcome of the write is known where the
// record has shown it. A watch may report a release before its answer comes.
// Then the release has succeeded, and the call is reported as successful.
func (l *loop) lastWord(c *Call) bool {
	if c.Outcome != store.Unknown && c.Outcome != store.Transient {
		return true // it was answered
	}
	v := &l.state.View
	switch {
	case c.Kind == callRead:
		return false
	case l.draft != nil: // unknown: the connection may be closed
		return true
	case c.Kind == machine.Release.String() && v.Kind == machine.Vacant && v.Rec.Token == l.state.Grant.Token:
		c.Outcome, c.Err = store.OK, nil
		return true
	default:
		return false
	}
}
