package specification

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
)

// A stepFunc is Machine.Step, or a wrong one.
type stepFunc func(machine.Machine, machine.State, machine.Event, machine.Instant) (machine.State, []machine.Action)

// A lab runs candidates of the real core on clocks of different rates, with its
// own register and network, and reports to a Checker for each candidate what
// can be seen from outside. Time is virtual.
type lab struct {
	*rand.Rand
	step  stepFunc
	now   int64 // true time, nanoseconds
	queue events
	seq   int
	reg   []machine.Seen // the register's history
	rev   uint64         // of the latest write
	nodes []*node
	cool  bool
	drops bool           // records vanish, and nothing older comes back
	seen  map[string]int // how often each act was
	err   error
}

type event struct {
	at  int64
	seq int
	do  func()
}

type events []event

func (q *events) Len() int { return len(*q) }

func (q *events) Less(i, j int) bool {
	a, b := (*q)[i], (*q)[j]
	return a.at < b.at || (a.at == b.at && a.seq < b.seq)
}

func (q *events) Swap(i, j int) { (*q)[i], (*q)[j] = (*q)[j], (*q)[i] }

func (q *events) Push(x any) {
	e, _ := x.(event)
	*q = append(*q, e)
}

func (q *events) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}

// A node is one candidate, through all its starts.
type node struct {
	*lab
	id      string
	rate    int64 // thousandths of a second that its clock advances a second
	offset  int64
	life    int // counts its starts: what was meant for an earlier life is dropped
	m       machine.Machine
	s       machine.State
	check   *Checker
	frozen  int64 // until when nothing reaches it
	told    int64 // when the watch delivered last
	ended   bool
	tokens  int
	pending map[uint64]bool // calls without an answer
}

const labTTL = time.Second

func newLab(seed uint64, step stepFunc) *lab {
	l := &lab{Rand: rand.New(rand.NewPCG(seed, 1)), step: step, seen: map[string]int{}}
	l.cool, l.drops = seed%4 >= 2, seed%4 == 2
	l.reg = []machine.Seen{{Kind: machine.Absent}}
	for i := range 2 + seed%2 {
		rates := [...]int64{900, 1100, 1000, 950}
		n := &node{lab: l, id: string(rune('a' + i)), rate: rates[(i+seed/2)%4], offset: l.Int64N(1e12), ended: true}
		l.nodes = append(l.nodes, n)
		l.after(l.upTo(50*time.Millisecond), n.start)
	}
	return l
}

func (l *lab) upTo(d time.Duration) time.Duration { return time.Duration(l.Int64N(int64(d))) }

func (l *lab) one(in int) bool { return l.IntN(in) == 0 }

func (l *lab) after(d time.Duration, do func()) { l.at(l.now+int64(d), do) }

func (l *lab) at(t int64, do func()) {
	l.seq++
	heap.Push(&l.queue, event{t, l.seq, do})
}

// trip is how long a message takes: mostly little, sometimes as long as leases.
func (l *lab) trip() time.Duration {
	if l.one(40) {
		return l.upTo(3 * labTTL)
	}
	return time.Millisecond + l.upTo(4*time.Millisecond)
}

// run lets d pass, with trouble all along.
func (l *lab) run(d time.Duration) error {
	l.after(0, l.trouble)
	for end := l.now + int64(d); len(l.queue) > 0 && l.err == nil; {
		e, _ := heap.Pop(&l.queue).(event)
		if e.at > end {
			break
		}
		l.now = e.at
		e.do()
	}
	return l.err
}

func (l *lab) fail(n *node, err error) {
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("%v: candidate %s: %w", time.Duration(l.now), n.id, err)
	}
}

// trouble does one bad thing, and comes again.
func (l *lab) trouble() {
	l.after(l.upTo(3*labTTL), l.trouble)
	n := l.nodes[l.IntN(len(l.nodes))]
	exit := machine.Exit{Reason: machine.ReasonResigned}
	switch l.IntN(12) {
	case 0:
		n.restart() // a crash
	case 1:
		n.event(machine.Event{Kind: machine.StopRelease})
	case 2, 3:
		n.event(machine.Event{Kind: machine.Leave, Exit: exit})
	case 4:
		exit = machine.Exit{Reason: machine.ReasonTransferred, Successor: l.nodes[0].id}
		n.event(machine.Event{Kind: machine.Leave, Exit: exit})
	case 5:
		l.write(machine.Seen{Kind: machine.Bare})
	case 6:
		what := machine.Seen{Kind: machine.Malformed}
		if l.one(2) {
			what = machine.Seen{Kind: machine.Held, Rec: machine.Record{ID: "stranger"}}
		}
		l.write(what)
	case 7:
		n.frozen = l.now + int64(l.upTo(2*labTTL))
	case 8:
		switch {
		case l.drops:
			l.vanish()
		case l.cool:
			l.rollback()
		}
	case 9:
		n.event(machine.Event{Kind: machine.Validate})
	case 10:
		exit = machine.Exit{Reason: machine.ReasonPaused}
		n.event(machine.Event{Kind: machine.Bar, Bars: machine.Paused, Exit: exit})
		n.later(l.upTo(labTTL), func() { n.event(machine.Event{Kind: machine.Unbar, Bars: machine.Paused}) })
	case 11:
		n.event(machine.Event{Kind: machine.StopLeave})
	}
}

// write puts what into the register, at the next revision, and notifies all.
func (l *lab) write(what machine.Seen) uint64 {
	what.Rev = l.rev + 1 + uint64(l.IntN(2))
	l.rev = what.Rev
	l.reg = append(l.reg, what)
	l.publish()
	return what.Rev
}

func (l *lab) rollback() {
	l.seen["rollback"]++
	l.reg = l.reg[:1+l.IntN(len(l.reg))]
	l.rev = l.reg[len(l.reg)-1].Rev
	l.publish()
}

// vanish drops what the register holds. Those who watch may not hear of it.
func (l *lab) vanish() {
	l.seen["vanished"]++
	l.reg = append(l.reg, machine.Seen{Kind: machine.Absent})
	if l.one(2) {
		l.publish()
	}
}

func (l *lab) publish() {
	for _, n := range l.nodes {
		if !l.one(25) {
			n.watch()
		}
	}
}

func (n *node) local() Instant {
	t := n.offset + n.now*n.rate/1000
	return Instant{Mono: t, Wall: t + n.offset}
}

func (n *node) start() {
	n.life++
	n.s, n.ended, n.frozen, n.pending = machine.State{}, false, 0, map[uint64]bool{}
	n.m = machine.Machine{
		ID: n.id, TTL: labTTL, Heartbeat: labTTL / 4, MaxTTL: 4 * labTTL, Drift: 0.1, CoolDown: n.cool, Expires: n.drops,
		DrainBudget: 200 * time.Millisecond, HeadStart: 50 * time.Millisecond,
		Settings: machine.Settings{
			ForeignTTL: time.Duration(n.Int64N(3)) * labTTL,
			Retry:      machine.Retry{MaxAttempts: 3 * n.IntN(2), Initial: 10 * time.Millisecond, Max: 100 * time.Millisecond, Multiplier: 2},
		},
	}
	n.check = NewChecker(Settings{
		ID: n.id, TTL: labTTL, MaxTTL: 4 * labTTL, Drift: labTTL / 10,
		DrainBudget: n.m.DrainBudget, CoolDown: n.cool, Expires: n.drops, ForeignTTL: n.m.ForeignTTL,
	})
	n.event(machine.Event{Kind: machine.Start})
	n.watch()
}

// restart ends this life at once, and begins another.
func (n *node) restart() {
	n.life++
	n.ended = true
	n.after(n.upTo(labTTL), n.start)
}

// later does something to this life of the node after d.
func (n *node) later(d time.Duration, do func()) {
	life := n.life
	n.after(d, func() {
		if n.life == life && !n.ended {
			do()
		}
	})
}

// watch has the present register arrive, after what was sent before it.
func (n *node) watch() {
	at := max(n.told, n.now+int64(n.trip()))
	n.told = at
	seen := n.reg[len(n.reg)-1]
	n.later(time.Duration(at-n.now), func() { n.event(machine.Event{Kind: machine.Observed, Seen: seen}) })
}

// event hands an event to the candidate, now or when it is thawed.
func (n *node) event(ev machine.Event) {
	if n.ended {
		return
	}
	if n.frozen > n.now {
		n.later(time.Duration(n.frozen-n.now), func() { n.event(ev) })
		return
	}
	n.tokens++
	ev.Token = fmt.Sprintf("%s%d.%d", n.id, n.life, n.tokens)
	if n.one(2) {
		ev.Rand = n.Uint64()
	}
	n.tell(ev)
	now := n.local()
	var actions []machine.Action
	n.s, actions = n.step(n.m, n.s, ev, machine.Instant(now))
	for _, a := range actions {
		n.act(a, now)
	}
	n.judge(now)
	n.wake()
}

func contentOf(s machine.Seen) Content {
	what := [...]Kind{Nothing, Nothing, Record, Vacancy, Marker, Garbage}[s.Kind]
	return shown(what, s.Rec)
}

func shown(what Kind, r machine.Record) Content {
	return Content{What: what, Token: r.Token, TTL: r.TTL, Term: r.Term, Renewal: r.Renewal, Settled: r.Settled}
}

// tell lets the checker hear what the candidate is about to hear.
func (n *node) tell(ev machine.Event) {
	now := n.local()
	switch ev.Kind {
	case machine.Observed:
		n.check.Told(ev.Seen.Rev, contentOf(ev.Seen), true, now)
	case machine.Read:
		if ev.Outcome == machine.OK {
			n.check.Told(ev.Seen.Rev, contentOf(ev.Seen), false, now)
		}
	case machine.Written:
		refused := ev.Outcome == machine.Conflict || ev.Outcome == machine.Transient
		n.check.Answered(ev.Op, ev.Rev, refused, now)
	case machine.Drained:
		n.check.Drained()
	default:
	}
}

// act does what the candidate wants done, if the protocol allows it.
func (n *node) act(a machine.Action, now Instant) {
	switch a.Kind {
	case machine.Send:
		n.send(a, now)
	case machine.Look:
		n.call(machine.Read, a.Op, func() machine.Event {
			seen := n.reg[len(n.reg)-1]
			if n.one(4) {
				seen = n.reg[n.IntN(len(n.reg))]
			}
			return machine.Event{Seen: seen}
		})
	case machine.Examine:
		n.call(machine.Examined, a.Op, func() machine.Event { return machine.Event{} })
	case machine.Promote:
		n.seen["promotion"]++
		if n.m.CoolDown && n.s.Grant.PromoteAt == 0 {
			n.seen["promotion without the cool-down"]++
		}
		if n.s.Grant.PromoteAt > 0 {
			n.seen["promotion after a cool-down"]++
		}
		n.fail(n, n.check.Promotes(now))
	case machine.Demote:
		n.check.Demotes(now)
		n.later(n.upTo(250*time.Millisecond), func() { n.event(machine.Event{Kind: machine.Drained}) })
	case machine.Finish:
		n.restart()
	case machine.Note:
		if a.Note == machine.NoteResolved {
			n.seen["resolved by an observation"]++
		}
	}
}

func (n *node) send(a machine.Action, now Instant) {
	why := [...]Purpose{0, Claim, Renewal, Release}[a.Write]
	what := Record
	if why == Release {
		what = Vacancy
	}
	n.count(why, a)
	n.fail(n, n.check.Sends(a.Op, why, a.Expected, shown(what, a.Rec), now))
	n.call(machine.Written, a.Op, func() machine.Event { return n.compareAndSwap(a) })
}

// count counts the acts by what they are about.
func (n *node) count(why Purpose, a machine.Action) {
	n.seen[why.String()]++
	view := n.s.View
	if view.Rev != a.Expected {
		return
	}
	switch {
	case why == Claim:
		what := [...]string{"?", "an empty register", "an expired record", "a vacancy", "a marker", "garbage"}
		n.seen["claim of "+what[view.Kind]]++
	case why == Release && (view.Kind == machine.Bare || view.Kind == machine.Malformed) && n.s.Exit.Vacate == view.Rev:
		n.seen["release over a marker or garbage"]++
	}
}

func (l *lab) compareAndSwap(a machine.Action) machine.Event {
	if l.reg[len(l.reg)-1].Rev != a.Expected {
		return machine.Event{Outcome: machine.Conflict}
	}
	seen := machine.Seen{Kind: machine.Held, Rec: a.Rec}
	if a.Write == machine.Release {
		seen.Kind = machine.Vacant
	}
	return machine.Event{Rev: l.write(seen)}
}

// call is a call to the store. Request and answer may be late or lost; the
// candidate hears after a while that the outcome is unknown.
func (n *node) call(kind machine.EventKind, op uint64, do func() machine.Event) {
	life, answered := n.life, false
	answer := func(ev machine.Event) {
		if !answered && n.life == life && !n.ended {
			answered = true
			ev.Kind, ev.Op = kind, op
			n.event(ev)
		}
	}
	n.after(labTTL/5, func() { answer(machine.Event{Outcome: machine.Unknown}) })
	switch n.IntN(25) {
	case 0: // the request is lost
	case 1:
		n.after(n.trip(), func() { answer(machine.Event{Outcome: machine.Transient}) })
	case 2: // the answer is lost
		n.after(n.trip(), func() { do() })
	default:
		n.after(n.trip(), func() {
			ev := do()
			n.after(n.trip(), func() { answer(ev) })
		})
	}
}

// judge compares the candidate's word with its right, now and at the instant at
// which its window closes, and all candidates' with each other.
func (n *node) judge(now Instant) {
	for _, at := range []Instant{now, n.check.Window()} {
		if !n.ended && n.s.Leading(machine.Instant(at)) {
			n.fail(n, n.check.MayAct(at))
		}
	}
	leaders := 0
	for _, o := range n.nodes {
		if !o.ended && o.s.Leading(machine.Instant(o.local())) {
			leaders++
		}
	}
	if leaders > 1 {
		n.fail(n, fmt.Errorf("G1: %d candidates act", leaders))
	}
}

// wake has time pass for the candidate when it asked for that.
func (n *node) wake() {
	mono := n.m.Wake(&n.s)
	if mono == machine.Never || n.ended {
		return
	}
	at := max(((mono-n.offset)*1000+n.rate-1)/n.rate, n.now)
	s := n.s
	n.later(time.Duration(at-n.now), func() {
		if n.s == s {
			n.event(machine.Event{Kind: machine.Tick})
		}
	})
}
