package machine

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// This file is the world that the explorer visits: candidates with clocks of
// their own, one register, and a network between them that delays, loses and
// repeats.
//
// # Time
//
// Real time passes in ticks, the same for all. In each tick a candidate's clock
// advances by its pace. There are two scales:
//
//   - The coarse one, for long stories: 3, 4 or 5 units a tick. With Drift =
//     1/4 these are the slowest clock allowed, the true one and the fastest.
//     TTL = 20 units makes Trust = 15 units, 5 ticks of the slowest clock, and
//     Wait = 25 units, 5 ticks of the fastest: the two windows meet exactly.
//     But what is due after 21 to 25 units is all done in the fifth tick of the
//     fastest clock, so a wait that is too short by four units passes.
//   - The fine one, for margins: the fastest clock advances by one unit a tick,
//     the slowest by one unit every second tick. With Drift = 1/3, TTL = 6
//     units makes Trust = 4 units, at most 8 ticks of the slowest clock, and
//     Wait = 8 units, 8 ticks of the fastest. So a margin that is one unit
//     short, on either side, shows (TestMutations has one of each).
//
// Within a tick everything that can happen is interleaved in every order.
// Whatever is ready must happen before the tick ends, unless a fault holds it
// back.
//
// # What is left out, and why that loses nothing
//
//   - Op numbers are only ever compared for equality with the write under way,
//     so they are renumbered after each step. An answer to a forgotten call is
//     dropped: to Step it is a Tick (TestStaleAnswersAreTicks).
//   - A request that expects a revision other than the register's will be
//     refused whenever it arrives, since revisions never recur. Copies and
//     stragglers of that kind are dropped.
//   - Fields that nothing reads in the candidate's phase are zeroed, instants
//     that have passed are all the same instant (canon).
//   - Random numbers are 0: the shortest delays, hence the earliest challenges.
//     The window only stretches delays, so it is zeroed too.
//   - A candidate is stepped by time only when Wake is due
//     (TestSteppingAtWakeIsSteppingAlways).
//   - An observation that cannot change anything now (what the candidate knows
//     already) is taken at once. Holding it back to do harm later is still
//     explored: by holding it back before.
//   - Once no more faults can happen, which ones did is forgotten, and so is at
//     any time what only a fault that cannot happen any more would ask for
//     (TestForgottenDetailsDoNotLimitTheExplorer).
//   - Something held back, a pause and a crash last into the next tick at
//     least. Shorter ones are one of the interleavings within the tick.

const maxCandidates = 3

// A kind is a kind of transition of the world.
type kind uint8

const (
	// Ordinary life, without a limit.
	kStart kind = iota
	kTick
	kApply
	kRefuse
	kReply
	kRead
	kReadReply
	kUpdate
	kUpdateAgain
	kDrained
	kLateCommit
	kResume
	kRestart
	kConnUp
	kFit
	kUnpaused
	kAsked
	kAskedAgain
	kHeardAgain
	kExamine
	kExamined
	kAdvance

	// Faults and interventions: at most one of each in a world, and
	// at most config.faults of all.
	kDelayWrite
	kLoseWrite
	kGiveUpWrite
	kLoseReply
	kDelayReply
	kTransient
	kPermanent
	kFalseConflict
	kFailRead
	kStaleRead
	kDelayUpdate
	kLoseUpdate
	kDupUpdate
	kSlowWork
	kCrash
	kPause
	kSuspend
	kConnDown
	kSeemsDown
	kDownAgain
	kCutOff
	kUnfit
	kPaused
	kDelete
	kGarbage
	kForeign
	kStepDown
	kTransfer
	kTakeover
	kResign
	kStopRelease
	kStopLeave
	kValidate
	kClosed
	kRollback
	kWipe
	kRemade
	kVanish
	kExpire
	kReturn
	kDrain
	kUndrain
	kinds
)

var kindTitles = [kinds]string{
	kStart: "start", kTick: "timer", kApply: "write applied", kRefuse: "write refused", kReply: "reply",
	kRead: "read", kReadReply: "read reply", kUpdate: "watch delivery", kUpdateAgain: "watch delivery of a copy", kDrained: "work stopped",
	kLateCommit: "late commit of a given-up write", kResume: "resumed", kRestart: "restarted", kConnUp: "connection back", kFit: "fit again", kUnpaused: "operator resumes",
	kAsked: "control request delivered", kAskedAgain: "control request delivered again", kHeardAgain: "network back",
	kExamine: "store tells its age", kExamined: "age of the store", kAdvance: "time passes (clocks at different rates)",
	kDelayWrite: "write delayed", kLoseWrite: "write lost", kGiveUpWrite: "write given up in flight",
	kLoseReply: "reply lost", kDelayReply: "reply delayed", kTransient: "transient failure",
	kPermanent: "permanent failure", kFalseConflict: "false conflict", kFailRead: "read failed",
	kStaleRead: "stale read", kDelayUpdate: "watch delayed", kLoseUpdate: "watch message lost",
	kDupUpdate: "watch message duplicated", kSlowWork: "work slow to stop", kCrash: "crash", kPause: "pause",
	kSuspend: "suspend", kConnDown: "connection lost", kSeemsDown: "connection reported lost, answers arrive",
	kDownAgain: "connection reported lost again", kCutOff: "nothing comes in, connection reported well", kUnfit: "unfit", kPaused: "operator pauses", kDelete: "operator deletes", kGarbage: "operator writes garbage", kForeign: "stranger claims, by a record without a lease",
	kStepDown: "operator asks to step down", kTransfer: "operator asks to transfer", kTakeover: "preferred candidate asks to take over", kResign: "resign",
	kStopRelease: "stop and release", kStopLeave: "stop and leave", kValidate: "validate", kClosed: "window closed by the runtime",
	kRollback: "store loses its last write", kWipe: "store loses everything",
	kRemade: "store made again, and somebody starts",
	kVanish: "record vanishes, and nobody hears of it", kExpire: "record vanishes", kReturn: "record that had vanished is back",
	kDrain: "operator drains", kUndrain: "operator ends the drain",
}

func (k kind) String() string { return kindTitles[k] }

// A kindSet is a set of faults.
type kindSet uint64

// bit is the set of the fault k alone.
func (k kind) bit() kindSet { return 1 << (k - kDelayWrite) }

func setOf(ks ...kind) (s kindSet) {
	for _, k := range ks {
		s |= k.bit()
	}
	return s
}

// storeLoss are the faults that G1 excludes: a store that forgets what it
// acknowledged. vanishing is a store that drops records, by its own clock or
// for room, and never brings an older one back. If a replica that has not
// dropped the record yet answers, the older record is back.
var (
	storeLoss = setOf(kRollback, kWipe)
	vanishing = setOf(kVanish, kExpire, kReturn)
	// A drain is a bar as a pause is. Its own family judges what follows from it
	// alone: others lead while it lasts.
	draining  = setOf(kDrain, kUndrain)
	allFaults = (kinds.bit() - kDelayWrite.bit()) &^ (storeLoss | vanishing | draining | setOf(kRemade))
)

// held is how long something is held back.
type held uint8

const (
	free     held = iota
	heldNow       // until the next tick at least
	heldOver      // may go on at any time, or never
)

func (h *held) advance() {
	if *h == heldNow {
		*h = heldOver
	}
}

// The modes of a candidate.
const (
	up uint8 = iota
	paused
	suspended
	crashed
	unborn  // starts when the store is made again
	missing // not in this world
)

// The stages of a term's context.
const (
	noTerm uint8 = iota
	live
	cancelled
)

// The stages of a term's work.
const (
	idle uint8 = iota
	working
	stopping
)

// The stages of a call to the store.
const (
	noCall uint8 = iota
	request
	reply
	readRequest
	readReply
)

// A call is the store call that a candidate waits for.
type call struct {
	rec, seen     uint16 // what is written; what was read
	stage         uint8
	held          held
	write         WriteKind
	expected, rev uint8
	out           Outcome
}

// An examination is a question for the store's age, and then the answer.
type examination struct {
	stage uint8 // noCall, request or reply
	held  held
	out   Outcome
	doubt uint8
}

// A straggler is a write that nobody waits for any more, still in flight.
type straggler struct {
	rec      uint16
	who      uint8
	write    WriteKind
	expected uint8
	there    bool
}

const queueLen = 4

// A participant is one candidate and its machine's clocks.
type participant struct {
	state   uint32 // interned State
	lag     int16  // how much the monotonic clock has missed in suspensions
	drainBy int16
	queue   [queueLen]uint16 // watch deliveries to come, 0 is none
	copied  uint16           // a copy of a delivery, which comes at any later time
	call    call
	exam    examination
	mode    uint8
	modeFor held
	tokens  uint8 // used so far
	term    uint8 // noTerm, live, cancelled
	work    uint8
	slow    held
	watch   held
	cut     bool // nothing comes in, whatever the connection is reported to be

	// The judges remember this, and the candidate does not.
	downAt  int16  // when the connection was reported lost, plus 1; 0 while it is not. Kept with a grace only
	won     uint8  // the revision at which the latest claim was applied, 0 before
	wrote   uint8  // the latest write of that claim
	renewal uint32 // and its renewals
}

// A world is everything there is, as a comparable value without padding: what
// is looked up is its bytes. Hence some numbers are wider than they need be.
type world struct {
	used      kindSet
	c         [maxCandidates]participant
	late      [2]straggler
	reg, prev uint16 // what the register holds, and what it held before
	gone      uint16 // the last write, if it vanished, else 0
	tick      uint16
	faults    uint16
	rev       uint16 // of the last write
	lastTerm  uint16 // highest term that was promoted
	askTerm   uint16 // the control request: its term, its kind, deliveries left
	askExit   uint16
	askLeft   uint16
	remadeAt  uint64 // when the store was made again, plus 1
}

// A pace is by how many units a clock advances in each tick, over and over.
type pace []int64

// at returns what a clock shows after so many ticks.
func (p pace) at(ticks int) (units int64) {
	for k, n := range p {
		units += n * int64((ticks+len(p)-1-k)/len(p))
	}
	return units
}

// steady returns clocks that advance by as many units in every tick.
func steady(units ...int64) (ps []pace) {
	for _, n := range units {
		ps = append(ps, pace{n})
	}
	return ps
}

// fine are the clocks of the fine scale: the slowest, the fastest, the true
// one. The true one is three quarters of the fastest.
func fine(n int) []pace { return []pace{{1, 0}, {1}, {1, 1, 1, 0}}[:n] }

// A config is a family of worlds to visit.
type config struct {
	name     string
	clocks   []pace
	machines []Machine
	horizon  int     // ticks
	deep     int     // ticks with -explore.deep, if more
	quiet    int     // ticks before the first fault, so that somebody leads by then
	faults   int     // how many in one world
	kinds    kindSet // which faults
	storeMay bool    // the store may forget, so terms may recur: check G1 only
	revives  bool    // -explore.deep judges G5 as well, although the store may forget
	late     bool    // the last candidate starts when the store is made again
	mutant   mutant
	sample   int  // continue every sampleth world without faults
	patience int  // how many ticks may pass then without a leader
	shortest bool // breadth first: for short counterexamples
	keeps    bool // nothing is forgotten: see sim.forget
	most     int  // how many worlds may be visited, 0 without a bound: a mistake may make them endless
}

func unitMachine(id string) Machine {
	return Machine{
		ID: id, TTL: 20, Heartbeat: 6, MaxTTL: 20, Drift: 0.25, DrainBudget: 4, HeadStart: 5,
		Settings: Settings{Retry: Retry{Initial: 3, Max: 6, Multiplier: 2}},
	}
}

func machines(n int, change func(*Machine)) []Machine {
	var ms []Machine
	for i := range n {
		m := unitMachine(string(rune('a' + i)))
		if change != nil {
			change(&m)
		}
		ms = append(ms, m)
	}
	return ms
}

// A stepResult is what came of one call of Step, and what follows from that in
// every world.
type stepResult struct {
	state   uint32
	awaits  uint8 // the stage of the call that the candidate waits for
	asks    bool  // it waits for the store's age
	took    bool  // it used its token
	anew    bool  // its token is another
	seam    bool  // a term began only to end at once
	insane  bool  // the state is one that must not be
	actions []Action
	recs    []uint16 // what each action sends
}

// facts are what is asked of a state in every world: few, so that they stay
// where the processor finds them at once.
type facts struct {
	wake                 [maxCandidates]int32 // the result of Wake, for each candidate
	trustMono, trustWall int32
	fades                int32 // when canon makes another state of it
	phase                Phase
	promoted             bool
}

// sim computes the transitions of the worlds of one config.
type sim struct {
	config
	states *table[State]
	facts  []facts // of each state
	seens  *table[Seen]
	recs   *table[Record]
	wrote  map[[3]uint16]uint16 // what the register holds after a write of a kind and a record, by its revision
	memo   memo
	ticks  [maxCandidates][]int64 // what the clocks show

	next  []next
	open  kindSet // the faults that may yet happen in the world whose successors are listed
	bad   string  // the first violation in the transition under construction
	trace *strings.Builder

	count       [kinds]int
	eventCount  [len(eventNames)]int
	actionCount [len(actionNames)]int
	shapes      shapes
}

// next is one transition.
type next struct {
	w    world
	kind kind
	who  uint8
	bad  string
}

func newSim(cfg config) *sim {
	x := &sim{
		config: cfg, states: newTable[State](), seens: newTable[Seen](), recs: newTable[Record](),
		wrote: map[[3]uint16]uint16{}, shapes: shapes{},
	}
	for i := range x.machines {
		for tick := range 257 {
			x.ticks[i] = append(x.ticks[i], x.clocks[i].at(tick))
		}
	}
	x.intern(&State{})
	return x
}

// intern returns the number of s, and learns the facts of it.
func (x *sim) intern(s *State) uint32 {
	id := x.states.id(s)
	for len(x.facts) <= int(id) {
		x.facts = append(x.facts, x.factsOf(&x.states.all[len(x.facts)]))
	}
	return id
}

func (x *sim) factsOf(s *State) facts {
	f := facts{
		trustMono: small(s.Grant.Trust.Mono), trustWall: small(s.Grant.Trust.Wall), fades: math.MaxInt32,
		phase: s.Phase, promoted: s.Grant.Promoted,
	}
	for i := range x.machines {
		f.wake[i] = small(x.machines[i].Wake(s))
	}
	for _, t := range []int64{s.DueAt, s.DoubtUntil, s.StandBackUntil} {
		if t != 0 {
			f.fades = min(f.fades, small(t))
		}
	}
	if t := s.Grant.PromoteAt; s.Phase == Watching && t != 0 {
		f.fades = min(f.fades, small(t))
	}
	if t := s.YoungUntil; !cools(s) && t != 0 {
		f.fades = min(f.fades, small(t))
	}
	return f
}

func (x *sim) root() world {
	var w world
	w.reg = x.seen(Seen{Kind: Absent})
	w.prev = w.reg
	for i := range w.c {
		if i >= len(x.machines) {
			w.c[i].mode = missing
			continue
		}
		if x.late && i == len(x.machines)-1 {
			w.c[i].mode = unborn
			continue
		}
		w.c[i].queue[0] = w.reg
	}
	return w
}

func (x *sim) seen(s Seen) uint16 { return short(x.seens.id(&s)) }

// short is id, which has to be a small one: two that looked alike would hide a
// world.
func short(id uint32) uint16 {
	if id > math.MaxUint16 {
		panic("more than a world has room for")
	}
	return uint16(id)
}

func (x *sim) state(w *world, i int) *State { return &x.states.all[w.c[i].state] }

// now reads the clocks of candidate i.
func (x *sim) now(w *world, i int) Instant {
	t := x.ticks[i][w.tick]
	return Instant{Mono: t - int64(w.c[i].lag), Wall: t}
}

func (x *sim) fail(invariant, format string, args ...any) {
	if x.bad == "" {
		x.bad = invariant + ": " + fmt.Sprintf(format, args...)
	}
}

// canon zeroes what cannot matter any more.
func canon(s State, now Instant) State {
	s.Reason, s.ViewAt, s.FreeAt, s.Window = "", 0, 0, 0
	s.ops, s.Write.Op = 0, 0
	if s.Write.Stage == Flying || s.Write.Stage == Reading {
		s.ops, s.Write.Op = 1, 1
	}
	if s.Grant.Examine != 0 {
		s.Grant.Examine = 1
	}
	if s.Phase != Holding && s.Phase != Claiming || s.Grant.Promoted {
		s.Grant.Examine = 0
	}
	if s.YoungUntil <= now.Mono && !cools(&s) {
		s.YoungUntil = 0
	}
	if s.Write.Stage != BackingOff {
		s.Write.Due = 0
	}
	if s.Write.Stage != Flying {
		s.Write.Sent = Instant{} // only an OK counts from it
	}
	if s.Write.Stage == BackingOff && !s.Write.Maybe {
		s.Write.First = Instant{} // the next attempt is the first that counts
	}
	for _, t := range []*int64{&s.DueAt, &s.DoubtUntil, &s.StandBackUntil} {
		if *t <= now.Mono {
			*t = 0
		}
	}
	s.Write.Tries = min(s.Write.Tries, 2) // pauses do not grow any more, and attempts are unbounded here
	if !s.Down {
		s.DownSince = 0
	}
	if s.Phase != Draining {
		s.DrainBy = 0
	}
	if s.Phase != Releasing {
		s.ReleaseBy = 0
	}
	switch s.Phase {
	case Watching:
		// The rest of an old grant is kept, so that a claim shows that it does
		// not go on with it. Its instants are never looked at any more.
		s.Grant.Sent, s.Grant.Trust, s.Exit = Instant{}, Instant{}, Exit{}
		if s.Grant.PromoteAt <= now.Mono {
			s.Grant.PromoteAt = 0
		}
	case Claiming, Holding:
		s.Exit = Exit{}
	case Draining, Releasing:
		s.Exit.Reason, s.Exit.By = "", ""
	case Stopped:
		s = State{Phase: Stopped, Undrained: s.Undrained}
	default:
	}
	return s
}

// cools reports whether a candidate in state s holds the record and waits for
// its promotion, which compares more with the end of a doubt than the present.
func cools(s *State) bool { return s.Phase == Holding && !s.Grant.Promoted }

// plain drops the parts of a vacancy that are for people.
func plain(r Record) Record {
	r.Reason, r.By = "", ""
	return r
}

var tokenNames = func() (t [maxCandidates][64]string) {
	for i := range t {
		for j := range t[i] {
			t[i][j] = fmt.Sprintf("%c%d", 'a'+i, j+1)
		}
	}
	return t
}()

func (x *sim) exit(e uint8, who int) Exit {
	switch e {
	case 1:
		return Exit{Reason: ReasonSteppedDown, By: "operator"}
	case 2:
		return Exit{Reason: ReasonTransferred, By: "operator", Successor: x.machines[(who+1)%len(x.machines)].ID}
	case 3:
		return Exit{Reason: ReasonResigned}
	case 4:
		return Exit{Reason: ReasonUnhealthy}
	case 5:
		return Exit{Reason: ReasonPaused, By: "operator"}
	case 6:
		id := x.machines[(who+1)%len(x.machines)].ID
		return Exit{Reason: ReasonOutranked, By: id, Successor: id}
	case 7:
		return Exit{Reason: ReasonDrained, By: "operator"}
	default:
		return Exit{}
	}
}

// step lets ev happen to candidate i and performs what comes of it.
func (x *sim) step(w *world, i int, ev Event, seen uint16, exit uint8) {
	p := &w.c[i]
	now := x.now(w, i)
	key := stepKey{
		state: p.state, mono: int16(now.Mono), wall: int16(now.Wall), seen: seen, who: uint8(i), kind: ev.Kind,
		out: ev.Outcome, rev: uint8(ev.Rev), term: uint8(ev.Term), exit: exit, tokens: p.tokens, bars: ev.Bars,
		doubt: int16(ev.Doubt),
	}
	r, isNew := x.memo.at(&key)
	if isNew {
		// A single nonce for all writes exposes a candidate that forgets a
		// write.
		ev.Token, ev.Nonce = tokenNames[i][p.tokens], 1
		ev.Seen, ev.Exit, ev.Op = x.seens.all[seen], x.exit(exit, i), x.states.all[p.state].Write.Op
		if ev.Kind == Examined {
			ev.Op = x.states.all[p.state].Grant.Examine
		}
		if x.machines[i].Yield > 0 {
			ev.Seen.Behind, ev.Seen.Ranked = uint8(i), true // the first is preferred to the second, and so on
		}
		*r = x.firstStep(p, i, ev, now)
	}
	x.eventCount[ev.Kind]++
	before, after := &x.states.all[p.state], &x.states.all[r.state]
	p.state = r.state
	if r.took {
		p.tokens++
	}
	if r.anew || after.Phase <= Watching || after.Phase == Stopped {
		p.won, p.wrote, p.renewal = 0, 0, 0
	}
	x.hearsOfConn(i, p, ev.Kind, now)
	if x.trace != nil {
		x.narrate(w, i, ev, seen, r.actions)
	}
	if r.seam {
		x.fail("seam", "%s is promoted and demoted in one step", x.machines[i].ID)
	}
	for k := range r.actions {
		a := &r.actions[k]
		x.actionCount[a.Kind]++
		x.perform(w, i, before, after, a, r.recs[k], now)
	}
	x.sane(w, i, before, after, r.insane)
	x.dropForgotten(w, i, r.awaits)
	if !r.asks {
		p.exam = examination{}
	}
}

// firstStep makes a step that no world had before, and judges what is the same
// in every world.
func (x *sim) firstStep(p *participant, i int, ev Event, now Instant) (r stepResult) {
	t, actions := x.mutant.doStep(x.machines[i], x.states.all[p.state], ev, now)
	t = canon(t, now)
	r.state, r.actions = x.intern(&t), actions
	for k := range actions {
		rec := plain(actions[k].Rec)
		r.recs = append(r.recs, short(x.recs.id(&rec)))
	}
	before, after := &x.states.all[p.state], &x.states.all[r.state]
	r.anew = before.Grant.Token != after.Grant.Token
	r.took = r.anew && after.Grant.Token == tokenNames[i][p.tokens]
	r.seam = begun(actions)
	r.awaits, r.asks = awaits(after), after.Grant.Examine != 0
	_, flaw := x.flaw(i, before, after, true)
	r.insane = flaw != ""
	x.shapes.saw(before, after, actions)
	return r
}

// perform does action a of candidate i, and checks what each action must
// satisfy.
func (x *sim) perform(w *world, i int, before, after *State, a *Action, rec uint16, now Instant) {
	p := &w.c[i]
	id := x.machines[i].ID
	switch a.Kind {
	case Send:
		undrained := p.work != idle
		if a.Write == Release && undrained && (p.work == working || now.Mono < int64(p.drainBy)) {
			x.fail("G4", "%s releases while its work runs", id)
		}
		if a.Write == Acquire && undrained {
			x.fail("G4", "%s claims while the work of its last term runs", id)
		}
		if a.Write == Acquire && before.Phase == Watching && after.Barred != 0 {
			x.fail("fitness", "%s claims and is barred from leading", id)
		}
		if a.Write == Acquire && before.Phase == Watching && p.downAt != 0 {
			x.fail("grace", "%s claims without its connection", id)
		}
		if a.Write == Acquire && (a.Rec.Term != 0 || a.Rec.Renewal != 0) {
			x.fail("claim", "%s claims with term %d, renewal %d of an earlier claim", id, a.Rec.Term, a.Rec.Renewal)
		}
		x.orphan(w, i)
		p.call = call{
			stage: request, write: a.Write, expected: uint8(a.Expected), rec: rec,
		}
	case Look:
		x.orphan(w, i)
		p.call = call{stage: readRequest}
	case Examine:
		p.exam = examination{stage: request}
	case Promote:
		term := after.Grant.Term
		switch {
		case p.term != noTerm:
			x.fail("G3", "%s is promoted twice", id)
		case before.Barred != 0:
			x.fail("fitness", "%s is promoted and barred from leading", id)
		case p.work != idle:
			x.fail("G3", "%s is promoted while the work of its last term runs", id)
		case x.mutant.reached(after.Grant.Trust, now) && after.Phase == Holding:
			x.fail("G3", "%s is promoted for term %d, whose window is closed", id, term)
		case term <= uint64(w.lastTerm) && !x.storeMay:
			x.fail("G2", "%s is promoted for term %d after term %d", id, term, w.lastTerm)
		}
		w.lastTerm = max(w.lastTerm, uint16(term))
		p.term, p.work = live, working
	case Demote:
		if p.term == noTerm {
			x.fail("G3", "%s is demoted without having led", id)
		}
		if asked := a.Reason == ReasonSteppedDown || a.Reason == ReasonTransferred || a.Reason == ReasonOutranked; asked && before.Grant.Term != uint64(w.askTerm) {
			x.fail("control", "%s ends term %d by a request for term %d", id, before.Grant.Term, w.askTerm)
		}
		p.term, p.work = noTerm, stopping
		p.drainBy = int16(now.Mono + int64(x.machines[i].DrainBudget))
	case Finish:
		if p.term != noTerm || p.work == working || p.work == stopping && now.Mono < int64(p.drainBy) {
			x.fail("stop", "%s is finished while its work runs", id)
		}
	case Note:
	}
	if before.Phase == Stopped {
		x.fail("stop", "%s acts after its end: %v", id, a.Kind)
	}
}

// orphan leaves the request that candidate i waited for to its fate.
func (x *sim) orphan(w *world, i int) {
	if c := w.c[i].call; c.stage == request {
		x.straggle(w, straggler{rec: c.rec, who: uint8(i), write: c.write, expected: c.expected, there: true})
	}
	w.c[i].call = call{}
}

// straggle puts s in flight with nobody waiting. If there are too many, the
// oldest is lost.
func (x *sim) straggle(w *world, s straggler) {
	for _, o := range w.late {
		if o == s {
			return
		}
	}
	if w.late[0].there {
		w.late[1] = w.late[0]
	}
	w.late[0] = s
	x.prune(w)
}

// prune drops the stragglers that will be refused for certain.
func (x *sim) prune(w *world) {
	if w.late == ([2]straggler{}) {
		return
	}
	rev, ahead := uint8(x.seens.all[w.reg].Rev), x.ahead(w)
	if x.keeps && !w.late[1].there {
		ahead = x.kinds // as long as there is room
	}
	for k := range w.late {
		s := &w.late[k]
		again := s.expected == 0 && ahead&(vanishing|setOf(kRemade)) != 0 || ahead&storeLoss != 0 || uint16(s.expected) > w.rev ||
			w.gone != 0 && ahead&kReturn.bit() != 0 && uint64(s.expected) == x.seens.all[w.gone].Rev
		if s.there && s.expected != rev && !x.mutant.blind(s.write) && !again {
			*s = straggler{}
		}
	}
	if !w.late[0].there {
		w.late[0], w.late[1] = w.late[1], straggler{}
	}
}

// awaits returns the stage of the call that a candidate in state s waits for.
func awaits(s *State) uint8 {
	switch s.Write.Stage {
	case Flying:
		return request
	case Reading:
		return readRequest
	default:
		return noCall
	}
}

// dropForgotten forgets an answer that the candidate does not wait for.
func (x *sim) dropForgotten(w *world, i int, want uint8) {
	c := &w.c[i].call
	if c.stage != want && c.stage != want+1 || want == noCall {
		x.orphan(w, i)
	}
}

// commit applies a write if the register has the revision that it expects, and
// reports whether it does.
func (x *sim) commit(w *world, wk WriteKind, expected uint8, rec uint16) bool {
	at := &x.seens.all[w.reg]
	if at.Rev != uint64(expected) && !x.mutant.accepts(wk, at, uint64(expected)) {
		return false
	}
	k := Held
	if wk == Release {
		k = Vacant
	}
	x.put(w, k, rec)
	x.remember(w, wk, &x.recs.all[rec])
	return true
}

// remember notes for G6 what the register applied of somebody's present claim.
func (x *sim) remember(w *world, wk WriteKind, rec *Record) {
	if wk != Acquire && wk != Renew {
		return
	}
	for i := range x.machines {
		p, s := &w.c[i], &x.states.all[w.c[i].state]
		if s.Grant.Token != rec.Token || s.Phase <= Watching || s.Phase == Stopped || p.mode == crashed {
			continue
		}
		switch {
		case wk == Acquire && p.won != 0:
			p.won = twice
		case wk == Acquire:
			p.won = uint8(w.rev)
		}
		p.wrote, p.renewal = uint8(w.rev), uint32(rec.Renewal)
	}
}

// hearsOfConn notes since when the connection is reported lost, on the clock of
// the one who is to leave when the grace is over.
func (x *sim) hearsOfConn(i int, p *participant, ev EventKind, now Instant) {
	switch {
	case x.machines[i].DisconnectGrace == 0:
	case ev == ConnDown && p.downAt == 0:
		p.downAt = int16(now.Mono) + 1
	case ev == ConnUp:
		p.downAt = 0
	}
}

// begun reports whether a step begins a term only to end it, which is
// forbidden: the runtime would announce a term to the program that it never
// had.
func begun(actions []Action) bool {
	promoted := false
	for k := range actions {
		if actions[k].Kind == Demote && promoted {
			return true
		}
		promoted = promoted || actions[k].Kind == Promote
	}
	return false
}

// put makes the register's next revision.
func (x *sim) put(w *world, k Kind, rec uint16) {
	w.rev++
	key := [3]uint16{uint16(k), w.rev, rec}
	reg, ok := x.wrote[key]
	if !ok {
		reg = x.seen(Seen{Kind: k, Rev: uint64(w.rev), Rec: x.recs.all[rec]})
		x.wrote[key] = reg
	}
	w.prev, w.reg, w.gone = w.reg, reg, 0
	x.publish(w)
}

// listens reports whether candidate i is there to hear of what is written.
func (x *sim) listens(w *world, i int) bool {
	m := w.c[i].mode
	return m != missing && m != crashed && m != unborn && x.state(w, i).Phase != Stopped
}

// publish puts the register's content on everybody's watch.
func (x *sim) publish(w *world) {
	for i := range w.c {
		if x.listens(w, i) {
			enqueue(&w.c[i].queue, w.reg)
		}
	}
	x.prune(w)
}

// enqueue adds a delivery; one that overflows pushes out the oldest, which is a
// lost message.
func enqueue(q *[queueLen]uint16, id uint16) {
	for k := range q {
		if q[k] == 0 {
			q[k] = id
			return
		}
	}
	copy(q[:], q[1:])
	q[queueLen-1] = id
}

func dequeue(q *[queueLen]uint16) {
	copy(q[:], q[1:])
	q[queueLen-1] = 0
}

// sane checks what must hold of a candidate's state after each step. insane:
// the state itself has a flaw, whatever the world.
func (x *sim) sane(w *world, i int, before, s *State, insane bool) {
	called := w.c[i].call.stage != noCall
	if !insane && (called || awaits(s) == noCall) {
		return
	}
	if invariant, flaw := x.flaw(i, before, s, called); flaw != "" {
		x.fail(invariant, "%s", flaw)
	}
}

// flaw describes a fault in a candidate's state, and is "" if there is none.
// called: a call is under way.
func (x *sim) flaw(i int, before, s *State, called bool) (invariant, what string) {
	id := x.machines[i].ID
	wk, stage := s.Write.Kind, s.Write.Stage
	switch {
	case s.Grant.Promoted && s.Phase != Holding:
		return "state", fmt.Sprintf("%s is promoted and %v", id, s.Phase)
	case s.Phase == Holding && s.Grant.Term == 0:
		return "state", fmt.Sprintf("%s holds without a term", id)
	case s.Phase == Holding && s.Barred != 0:
		return "fitness", fmt.Sprintf("%s holds and is barred from leading", id)
	case s.Phase == Holding && s.Undrained:
		return "state", fmt.Sprintf("%s holds while undrained", id)
	case s.Phase == Watching && s.Write != Write{}:
		return "state", fmt.Sprintf("%s watches with a write under way", id)
	case s.Phase == Claiming && wk != Acquire, s.Phase == Releasing && wk != Release,
		(s.Phase == Holding || s.Phase == Draining) && wk != NoWrite && wk != Renew:
		return "state", fmt.Sprintf("%s is %v with a write %v", id, s.Phase, wk)
	case (s.Phase == Claiming || s.Phase == Releasing) && (stage == NoStage || s.Write.Tries == 0 && stage == Flying):
		return "state", fmt.Sprintf("%s is %v and its write is nowhere", id, s.Phase)
	case (stage == Flying || stage == Reading) && !called:
		return "state", fmt.Sprintf("%s awaits an answer to nothing", id)
	case before.Phase == Stopped && s.Phase != Stopped:
		return "stop", fmt.Sprintf("%s rises from the dead", id)
	case s.Phase == Stopped && (s.Write != Write{} || x.machines[i].Wake(s) != Never):
		return "stop", fmt.Sprintf("%s is stopped with something under way", id)
	}
	return "", ""
}

// check looks at the whole world at one instant.
func (x *sim) check(w *world) {
	leaders, contexts := 0, 0
	for i := range x.machines {
		p := &w.c[i]
		if p.mode == crashed || p.mode == unborn {
			continue
		}
		f, now := &x.facts[p.state], x.now(w, i)
		if p.term == live && x.reached(f, now) {
			p.term = cancelled // by the runtime's timer, whatever the event loop does
		}
		leads := x.leads(p.state, now)
		if leads {
			leaders++
		}
		if p.term == live {
			contexts++
		}
		if leads && p.term != live {
			x.fail("G3", "%s leads after the end of its term's context", x.machines[i].ID)
		}
		if f.phase == Holding {
			x.honest(p, &x.states.all[p.state], x.machines[i].ID)
		}
	}
	if leaders > 1 {
		x.fail("G1", "%d candidates lead", leaders)
	}
	if contexts > 1 {
		x.fail("G1", "%d term contexts live", contexts)
	}
}

// leads reports whether a candidate leads at now in a state, as the mutant sees
// it.
func (x *sim) leads(state uint32, now Instant) bool {
	if x.mutant.lead != nil {
		return x.mutant.lead(x.states.all[state], now)
	}
	f := &x.facts[state]
	return f.phase == Holding && f.promoted && !x.reached(f, now)
}

// reached reports whether the trust window of a state with facts f is closed at
// now.
func (x *sim) reached(f *facts, now Instant) bool {
	return now.Mono >= int64(f.trustMono) || !x.mutant.monoOnly && now.Wall >= int64(f.trustWall)
}

// twice represents the revisions of a claim that was applied again: it expects
// nothing, and its record had vanished. The candidate may learn either
// revision.
const twice = 255

// honest judges G6: what a candidate takes for its own was applied. The
// register is what knows, since it applied it.
func (x *sim) honest(p *participant, s *State, id string) {
	g := &s.Grant
	switch {
	case s.Phase != Holding || x.storeMay || p.won == twice:
	case g.Term != uint64(p.won):
		x.fail("G6", "%s holds term %d, and its claim was applied at %d", id, g.Term, p.won)
	case g.Renewal > uint64(p.renewal), g.Renewal == uint64(p.renewal) && g.Rev != uint64(p.wrote),
		g.Renewal < uint64(p.renewal) && g.Rev >= uint64(p.wrote):
		x.fail("G6", "%s knows renewal %d at %d, and renewal %d was applied at %d", id, g.Renewal, g.Rev, p.renewal, p.wrote)
	}
}

// overstays judges the grace period, when nothing is left to be done before
// time passes.
func (x *sim) overstays(w *world) {
	for i := range x.machines {
		p, s := &w.c[i], &x.states.all[w.c[i].state]
		lost := int64(p.downAt) - 1
		if p.mode == up && p.downAt != 0 && s.Leading(x.now(w, i)) && x.now(w, i).Mono >= lost+int64(x.machines[i].DisconnectGrace) {
			x.fail("grace", "%s leads at %d without a connection since %d", x.machines[i].ID, x.now(w, i).Mono, lost)
		}
	}
}

// due reports whether candidate i wants a Tick.
func (x *sim) due(w *world, i int) bool {
	f, now := &x.facts[w.c[i].state], x.now(w, i)
	return int64(f.wake[i]) <= now.Mono || f.phase == Holding && x.reached(f, now)
}

// emit adds the transition to w, which it completes.
func (x *sim) emit(w *world, k kind, who int) {
	if k >= kDelayWrite {
		w.used |= k.bit()
		w.faults++
	}
	x.settle(w)
	x.check(w)
	if !x.keeps {
		x.forget(w)
	}
	x.next = append(x.next, next{*w, k, uint8(who), x.bad})
	x.bad = ""
}

// forget drops what only a fault that can no longer happen would ask for, so
// that worlds with one future are one world. Most faults leave few traces, and
// without this the longest-lived is which fault it was.
func (x *sim) forget(w *world) {
	ahead := x.ahead(w)
	if ahead == 0 {
		w.used, w.faults = 0, uint16(x.faults)
		if w.askLeft == 0 {
			w.askTerm, w.askExit = 0, 0 // a demotion by it from here on would be a violation
		}
	}
	if ahead&setOf(kStaleRead, kRollback) == 0 {
		w.prev = w.reg
	}
	if ahead&kReturn.bit() == 0 {
		w.gone = 0
	}
	if w.remadeAt != 0 && x.grown(w) {
		w.remadeAt = 0
	}
	x.prune(w)
}

// grown reports whether no candidate that starts in w would doubt the store.
func (x *sim) grown(w *world) bool {
	for i := range x.machines {
		if x.doubt(w, i) > 0 {
			return false
		}
	}
	return true
}

// settle takes the deliveries that cannot change anything.
func (x *sim) settle(w *world) {
	for i := range x.machines {
		p := &w.c[i]
		for p.queue[0] != 0 && p.watch == free && p.mode == up {
			s, seen := &x.states.all[p.state], &x.seens.all[p.queue[0]]
			known := (s.Phase == Watching || s.Phase == Holding) && seen.same(&s.View) || s.Phase == Stopped
			if !known {
				break
			}
			dequeue(&p.queue)
		}
		if p.queue[0] == 0 {
			p.watch = free
		}
	}
}

// may reports whether fault k may happen in the world whose successors are
// listed.
func (x *sim) may(k kind) bool { return x.open&k.bit() != 0 }

// ahead returns the faults that may happen in w or after it.
func (x *sim) ahead(w *world) kindSet {
	if int(w.faults) >= x.faults {
		return 0
	}
	return x.kinds &^ w.used
}

// opened returns the faults that may happen in w.
func (x *sim) opened(w *world) kindSet {
	if int(w.tick) < x.quiet {
		return 0
	}
	return x.ahead(w)
}

// successors lists every transition of w in x.next.
func (x *sim) successors(w *world) []next {
	x.next = x.next[:0]
	if int(w.tick) >= x.horizon {
		return nil
	}
	x.open = x.opened(w)
	for i := range x.machines {
		switch w.c[i].mode {
		case unborn:
		case crashed:
			x.ofCrashed(w, i)
		case paused, suspended:
			x.ofCall(w, i, false)
			x.ofExamination(w, i, false)
			x.ofPaused(w, i)
		default:
			// Without the network what was sent may yet arrive, and nothing
			// comes in.
			connected := !w.c[i].cut
			x.ofClock(w, i)
			x.ofCall(w, i, connected)
			x.ofExamination(w, i, connected)
			if connected {
				x.ofWatch(w, i)
			}
			x.ofWork(w, i)
			x.ofProcess(w, i)
		}
	}
	x.ofStragglers(w)
	x.ofOperator(w)
	x.ofTime(w)
	return x.next
}

func (x *sim) ofCrashed(w *world, i int) {
	if w.c[i].modeFor != heldOver {
		return
	}
	n := *w
	n.c[i].mode, n.c[i].modeFor = up, free
	n.c[i].queue[0] = n.reg
	x.emit(&n, kRestart, i)
	if x.may(kStaleRead) && w.prev != w.reg {
		n := *w
		n.c[i].mode, n.c[i].modeFor = up, free
		n.c[i].queue[0] = n.prev
		x.emit(&n, kStaleRead, i)
	}
}

func (x *sim) ofPaused(w *world, i int) {
	if w.c[i].modeFor == heldOver {
		n := *w
		n.c[i].mode, n.c[i].modeFor = up, free
		x.emit(&n, kResume, i)
	}
}

// doubt is the doubt of a starting candidate that finds its store to be younger
// than a lease. The store's own clock, here the fastest, measures its age.
func (x *sim) doubt(w *world, i int) time.Duration {
	if w.remadeAt == 0 {
		return 0
	}
	var age int64
	for _, p := range x.clocks {
		age = max(age, p.at(int(w.tick))-p.at(int(w.remadeAt)-1))
	}
	return max(0, x.machines[i].wait(x.machines[i].TTL)-time.Duration(age))
}

func (x *sim) ofClock(w *world, i int) {
	s := &x.states.all[w.c[i].state]
	if s.Phase == Idle {
		n := *w
		x.step(&n, i, Event{Kind: Start, Doubt: x.doubt(w, i)}, 0, 0)
		x.emit(&n, kStart, i)
		return
	}
	if x.due(w, i) {
		n := *w
		x.step(&n, i, Event{Kind: Tick}, 0, 0)
		x.emit(&n, kTick, i)
	}
}

// ofCall goes on with the call that candidate i waits for.
func (x *sim) ofCall(w *world, i int, running bool) {
	c := &w.c[i].call
	if c.held == heldNow {
		return
	}
	switch c.stage {
	case request:
		x.ofRequest(w, i)
	case readRequest:
		x.ofReadRequest(w, i)
	case reply:
		if !running {
			return
		}
		n := *w
		n.c[i].call = call{}
		x.step(&n, i, Event{Kind: Written, Outcome: c.out, Rev: uint64(c.rev)}, 0, 0)
		x.emit(&n, kReply, i)
		if c.held == free {
			x.hold(w, i, kDelayReply)
		}
		if c.out != Unknown && x.may(kLoseReply) {
			n := *w
			n.c[i].call.out, n.c[i].call.rev = Unknown, 0
			x.emit(&n, kLoseReply, i)
		}
	case readReply:
		if !running {
			return
		}
		n := *w
		n.c[i].call = call{}
		x.step(&n, i, Event{Kind: Read, Outcome: c.out}, c.seen, 0)
		x.emit(&n, kReadReply, i)
		if c.held == free {
			x.hold(w, i, kDelayReply)
		}
	default:
	}
}

// ofExamination goes on with the examination that candidate i waits for.
func (x *sim) ofExamination(w *world, i int, running bool) {
	e := w.c[i].exam
	switch {
	case e.held == heldNow:
	case e.stage == request:
		n := *w
		n.c[i].exam = examination{stage: reply, doubt: uint8(x.doubt(w, i))}
		x.emit(&n, kExamine, i)
		if e.held == free {
			x.holdExamination(w, i, kDelayWrite)
		}
		if x.may(kLoseWrite) {
			n := *w
			n.c[i].exam = examination{stage: reply, out: Unknown}
			x.emit(&n, kLoseWrite, i)
		}
	case e.stage == reply && running:
		n := *w
		n.c[i].exam = examination{}
		x.step(&n, i, Event{Kind: Examined, Outcome: e.out, Doubt: time.Duration(e.doubt)}, 0, 0)
		x.emit(&n, kExamined, i)
		if e.held == free {
			x.holdExamination(w, i, kDelayReply)
		}
		if e.out == OK && x.may(kLoseReply) {
			n := *w
			n.c[i].exam.out, n.c[i].exam.doubt = Unknown, 0
			x.emit(&n, kLoseReply, i)
		}
	}
}

// holdExamination spends fault k on holding back the examination of candidate
// i.
func (x *sim) holdExamination(w *world, i int, k kind) {
	if x.may(k) {
		n := *w
		n.c[i].exam.held = heldNow
		x.emit(&n, k, i)
	}
}

// hold spends fault k on holding back the call of candidate i.
func (x *sim) hold(w *world, i int, k kind) {
	if x.may(k) {
		n := *w
		n.c[i].call.held = heldNow
		x.emit(&n, k, i)
	}
}

// answer makes the reply to the call of candidate i.
func (x *sim) answer(w *world, i int, out Outcome, rev uint8) {
	w.c[i].call = call{stage: reply, out: out, rev: rev}
}

func (x *sim) ofRequest(w *world, i int) {
	c := w.c[i].call
	n := *w
	if x.commit(&n, c.write, c.expected, c.rec) {
		x.answer(&n, i, OK, uint8(n.rev))
		x.emit(&n, kApply, i)
		if x.may(kFalseConflict) {
			n := *w
			x.answer(&n, i, Conflict, 0)
			x.emit(&n, kFalseConflict, i)
		}
	} else {
		x.answer(&n, i, Conflict, 0)
		x.emit(&n, kRefuse, i)
	}
	if c.held == free {
		x.hold(w, i, kDelayWrite)
	}
	for _, f := range [...]struct {
		k   kind
		out Outcome
	}{{kLoseWrite, Unknown}, {kGiveUpWrite, Unknown}, {kTransient, Transient}, {kPermanent, Permanent}} {
		if !x.may(f.k) {
			continue
		}
		n := *w
		if f.k == kGiveUpWrite {
			x.orphan(&n, i)
		}
		x.answer(&n, i, f.out, 0)
		x.emit(&n, f.k, i)
	}
}

func (x *sim) ofReadRequest(w *world, i int) {
	n := *w
	n.c[i].call = call{stage: readReply, seen: w.reg}
	x.emit(&n, kRead, i)
	if x.may(kStaleRead) && w.prev != w.reg {
		n := *w
		n.c[i].call = call{stage: readReply, seen: w.prev}
		x.emit(&n, kStaleRead, i)
	}
	if x.may(kFailRead) {
		n := *w
		n.c[i].call = call{stage: readReply, out: Transient}
		x.emit(&n, kFailRead, i)
	}
}

func (x *sim) ofWatch(w *world, i int) {
	p := &w.c[i]
	if p.copied != 0 {
		n := *w
		n.c[i].copied = 0
		x.step(&n, i, Event{Kind: Observed}, p.copied, 0)
		x.emit(&n, kUpdateAgain, i)
	}
	head := p.queue[0]
	if head == 0 || p.watch == heldNow {
		return
	}
	n := *w
	dequeue(&n.c[i].queue)
	n.c[i].watch = free
	x.step(&n, i, Event{Kind: Observed}, head, 0)
	x.emit(&n, kUpdate, i)
	// The first observation is the runtime's own read, which it repeats until
	// it has an answer: without one a candidate would wait for ever.
	if x.state(w, i).View.Kind != Unseen && x.may(kLoseUpdate) {
		n := *w
		dequeue(&n.c[i].queue)
		x.emit(&n, kLoseUpdate, i)
	}
	if p.watch == free && x.may(kDelayUpdate) {
		n := *w
		n.c[i].watch = heldNow
		x.emit(&n, kDelayUpdate, i)
	}
	if p.copied == 0 && x.may(kDupUpdate) {
		n := *w
		n.c[i].copied = head
		dequeue(&n.c[i].queue)
		n.c[i].watch = free
		x.step(&n, i, Event{Kind: Observed}, head, 0)
		x.emit(&n, kDupUpdate, i)
	}
}

func (x *sim) ofWork(w *world, i int) {
	p := &w.c[i]
	if p.work != stopping || p.slow == heldNow {
		return
	}
	n := *w
	n.c[i].work, n.c[i].slow, n.c[i].drainBy = idle, free, 0
	x.step(&n, i, Event{Kind: Drained}, 0, 0)
	x.emit(&n, kDrained, i)
	if p.slow == free && x.may(kSlowWork) {
		n := *w
		n.c[i].slow = heldNow
		x.emit(&n, kSlowWork, i)
	}
}

// ofProcess is what befalls a running program, or what it asks for.
func (x *sim) ofProcess(w *world, i int) {
	s := &x.states.all[w.c[i].state]
	if s.Phase == Stopped {
		return
	}
	if x.open != 0 {
		x.ofFaults(w, i, s)
	}
	x.ofEnds(w, i, s)
}

// ofFaults is what may go wrong with a running program, and what it may ask
// for.
func (x *sim) ofFaults(w *world, i int, s *State) {
	if x.may(kCrash) {
		n := *w
		x.orphan(&n, i)
		q := n.c[i]
		n.c[i] = participant{lag: q.lag, tokens: q.tokens, mode: crashed, modeFor: heldNow}
		x.emit(&n, kCrash, i)
	}
	for m, k := range [...]kind{paused: kPause, suspended: kSuspend} {
		if k != kStart && x.may(k) {
			n := *w
			n.c[i].mode, n.c[i].modeFor = uint8(m), heldNow
			x.emit(&n, k, i)
		}
	}
	for _, f := range [...]struct {
		k      kind
		ev     EventKind
		bars   Bars
		exit   uint8
		useful bool
	}{
		{kConnDown, ConnDown, 0, 0, !s.Down},
		{kSeemsDown, ConnDown, 0, 0, !s.Down},
		{kDownAgain, ConnDown, 0, 0, s.Down},
		{kUnfit, Bar, Unhealthy, 4, s.Barred&Unhealthy == 0},
		{kPaused, Bar, Paused, 5, s.Barred&Paused == 0},
		{kDrain, Bar, Withdrawn, 7, s.Barred&Withdrawn == 0},
		{kUndrain, Unbar, Withdrawn, 0, s.Barred&Withdrawn != 0},
		{kResign, Leave, 0, 3, s.Phase == Holding},
		{kStopRelease, StopRelease, 0, 0, true},
		{kStopLeave, StopLeave, 0, 0, true},
		{kValidate, Validate, 0, 0, s.Phase == Holding},
		{kClosed, Closed, 0, 0, s.Phase == Holding},
	} {
		if f.useful && x.may(f.k) {
			n := *w
			n.c[i].cut = n.c[i].cut || f.k == kConnDown
			x.step(&n, i, Event{Kind: f.ev, Term: s.Grant.Term, Bars: f.bars}, 0, f.exit)
			x.emit(&n, f.k, i)
		}
	}
	if !w.c[i].cut && x.may(kCutOff) {
		n := *w
		n.c[i].cut = true
		x.emit(&n, kCutOff, i)
	}
}

// ofEnds ends what went wrong.
func (x *sim) ofEnds(w *world, i int, s *State) {
	if w.c[i].cut {
		n := *w
		n.c[i].cut = false
		x.emit(&n, kHeardAgain, i)
	}
	if s.Down {
		n := *w
		x.step(&n, i, Event{Kind: ConnUp}, 0, 0)
		x.emit(&n, kConnUp, i)
	}
	for _, f := range [...]struct {
		k   kind
		bar Bars
	}{{kFit, Unhealthy}, {kUnpaused, Paused}} {
		if s.Barred&f.bar != 0 {
			n := *w
			x.step(&n, i, Event{Kind: Unbar, Bars: f.bar}, 0, 0)
			x.emit(&n, f.k, i)
		}
	}
	// A request has an effect on a holder only.
	if w.askLeft > 0 && s.Phase == Holding {
		n := *w
		n.askLeft--
		k := kAsked
		if n.askLeft == 0 {
			k = kAskedAgain
		}
		x.step(&n, i, Event{Kind: Asked, Term: uint64(w.askTerm)}, 0, uint8(w.askExit))
		x.emit(&n, k, i)
	}
}

func (x *sim) ofStragglers(w *world) {
	for k, s := range w.late {
		if !s.there {
			continue
		}
		n := *w
		n.late[k] = straggler{}
		x.prune(&n)
		if x.commit(&n, s.write, s.expected, s.rec) {
			x.emit(&n, kLateCommit, int(s.who))
		}
	}
}

func (x *sim) ofOperator(w *world) {
	at := &x.seens.all[w.reg]
	if w.gone != 0 && x.may(kReturn) {
		n := *w
		n.reg, n.gone = n.gone, 0
		x.emit(&n, kReturn, 0)
	}
	if at.Rev == 0 {
		return
	}
	for _, k := range [...]kind{kVanish, kExpire} {
		if x.may(k) {
			x.ofVanishing(w, k)
		}
	}
	if at.Kind != Bare && x.may(kDelete) {
		n := *w
		x.put(&n, Bare, 0)
		x.emit(&n, kDelete, 0)
	}
	if at.Kind != Malformed && x.may(kGarbage) {
		n := *w
		x.put(&n, Malformed, 0)
		x.emit(&n, kGarbage, 0)
	}
	if x.may(kForeign) {
		n := *w
		x.put(&n, Held, short(x.recs.id(&Record{ID: "x"})))
		x.emit(&n, kForeign, 0)
	}
	for e, k := range [...]kind{1: kStepDown, 2: kTransfer, 6: kTakeover} {
		if k != kStart && at.Kind == Held && w.askExit == 0 && x.may(k) {
			n := *w
			n.askExit, n.askLeft, n.askTerm = uint16(e), 2, uint16(at.Rec.Term)
			if at.Rec.Term == 0 {
				n.askTerm = uint16(at.Rev)
			}
			x.emit(&n, k, 0)
		}
	}
	if x.may(kRollback) && w.prev != w.reg {
		n := *w
		n.reg, n.rev = n.prev, uint16(x.seens.all[n.prev].Rev)
		x.publish(&n)
		x.emit(&n, kRollback, 0)
	}
	if x.may(kRemade) {
		x.ofRemade(w)
	}
	if x.may(kWipe) {
		n := *w
		n.reg, n.rev = x.seen(Seen{Kind: Absent}), 0
		n.prev = n.reg
		x.publish(&n)
		x.emit(&n, kWipe, 0)
	}
}

// ofRemade deletes the store and makes it again. No candidate hears of that;
// the revisions go on, as in a bucket that this project makes.
func (x *sim) ofRemade(w *world) {
	n := *w
	n.reg = x.seen(Seen{Kind: Absent})
	n.prev, n.remadeAt = n.reg, uint64(n.tick)+1
	x.born(&n)
	x.prune(&n)
	x.emit(&n, kRemade, 0)
}

// born starts the candidate that waits for the store to lose something.
func (x *sim) born(w *world) {
	if last := len(x.machines) - 1; w.c[last].mode == unborn {
		w.c[last].mode = up
		w.c[last].queue[0] = w.reg
	}
}

// ofVanishing drops what the register holds. The revisions go on.
func (x *sim) ofVanishing(w *world, k kind) {
	n := *w
	n.gone, n.prev, n.reg = n.reg, n.reg, x.seen(Seen{Kind: Absent})
	if k == kExpire {
		x.publish(&n)
	}
	x.born(&n)
	x.emit(&n, k, 0)
}

// ready reports whether something must happen before time passes.
func (x *sim) ready(w *world) bool {
	for i := range x.machines {
		p := &w.c[i]
		connected := !p.cut
		switch {
		case p.mode == crashed || p.mode == unborn:
			continue
		case (p.call.stage == request || p.call.stage == readRequest) && p.call.held == free && connected,
			p.exam.stage == request && p.exam.held == free && connected:
			return true
		case p.mode != up:
			continue
		case (p.call.stage == reply || p.call.stage == readReply) && p.call.held == free && connected,
			p.exam.stage == reply && p.exam.held == free && connected,
			p.queue[0] != 0 && p.watch == free && connected,
			p.work == stopping && p.slow == free,
			x.states.all[p.state].Phase == Idle,
			x.due(w, i):
			return true
		}
	}
	return false
}

func (x *sim) ofTime(w *world) {
	if x.ready(w) {
		return
	}
	x.overstays(w)
	n := *w
	n.tick++
	for i := range x.machines {
		p := &n.c[i]
		p.call.held.advance()
		p.exam.held.advance()
		p.modeFor.advance()
		p.slow.advance()
		p.watch.advance()
		if p.mode == suspended {
			p.lag += int16(x.ticks[i][n.tick] - x.ticks[i][w.tick])
		}
		if p.mode != crashed && p.mode != unborn {
			if now := x.now(&n, i); int64(x.facts[p.state].fades) <= now.Mono {
				s := canon(x.states.all[p.state], now)
				p.state = x.intern(&s)
			}
		}
	}
	x.emit(&n, kAdvance, 0)
}

// narrate writes one line of a counterexample.
func (x *sim) narrate(w *world, i int, ev Event, seen uint16, actions []Action) {
	s := &x.states.all[w.c[i].state]
	now := x.now(w, i)
	fmt.Fprintf(x.trace, "      %s@%d %v", x.machines[i].ID, now.Mono, ev.Kind)
	switch ev.Kind {
	case Observed, Read:
		fmt.Fprintf(x.trace, " %v", &x.seens.all[seen])
	case Written:
		fmt.Fprintf(x.trace, " %v rev=%d", ev.Outcome, ev.Rev)
	case Examined:
		fmt.Fprintf(x.trace, " %v doubt=%d", ev.Outcome, ev.Doubt)
	default:
	}
	fmt.Fprintf(x.trace, " ⇒ %v", s.Phase)
	if x.leads(w.c[i].state, now) {
		fmt.Fprintf(x.trace, ", leads term %d until %d", s.Grant.Term, s.Grant.Trust.Mono)
	}
	if s.Phase == Watching {
		fmt.Fprintf(x.trace, ", due at %d", max(s.DueAt, s.StandBackUntil))
	}
	for _, a := range actions {
		switch a.Kind {
		case Send:
			fmt.Fprintf(x.trace, "; send %v expecting %d", a.Write, a.Expected)
		case Note:
			fmt.Fprintf(x.trace, "; note %v", a.Note)
		default:
			fmt.Fprintf(x.trace, "; %v (%s)", a.Kind, a.Reason)
		}
	}
	x.trace.WriteByte('\n')
}
