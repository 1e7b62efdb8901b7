package machine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// This file and its neighbours are the world of the simulation. It covers what
// the explorer cannot reach, because there are too many candidates, faults and
// lengths of time for every interleaving. One schedule is a pure function of
// its seed: a single thread takes the next event from a queue that is ordered
// by the true time and, at one instant, by the order of planning.
//
// A schedule begins with a storm, in which each kind of fault is switched on or
// off at random and has its own rate, and ends in a calm, in which the
// candidates are made to fail over and to hand over one by one, to see that
// somebody leads within the bound that the settings promise.
//
// This excludes what docs/reference/protocol.md excludes, and nothing else:
//
//   - A store that forgets (rollback, wipe) is only found where all candidates
//     cool down, for G1 to hold. Where they do not (one schedule in six),
//     leaders that overlap count as holes and not as violations.
//   - Where leases differ in length nobody deletes or overwrites the key, and
//     the store forgets nothing.
//   - What is written over the key by a stranger is garbage, or a record with
//     the longest lease.
//   - A candidate's machine is either suspended, which stops its monotonic
//     clock, or its wall clock leaps. A machine with both faults has no clock
//     that could notice.

// A regime is the kind of world of a schedule.
type regime uint8

const (
	keeps       regime = iota // the store keeps what it acknowledged
	forgets                   // it does not, and candidates cool down
	unprotected               // it does not, and they do not
	uneven                    // it keeps, and leases differ in length
	vanishes                  // it drops records and brings nothing older back, and candidates cool down
	remade                    // it is deleted and made again, and reports its age
	regimes
)

var regimeNames = [regimes]string{"store keeps", "store forgets, cool-down", "store forgets, unprotected", "leases differ", "records vanish, cool-down", "store made again"}

// A storm is one schedule.
type storm struct {
	rng    *rand.Rand
	nonces uint64 // of the writes, one after the other
	mutant mutant
	regime regime

	now    int64 // true time in nanoseconds
	queue  agenda
	events uint64
	busy   int // steps in the present millisecond
	hash   hashing
	trace  *strings.Builder

	ttl     time.Duration // the longest lease of a candidate
	drift   float64
	rtt     time.Duration // a one-way trip takes about half of that
	timeout time.Duration // of a call to the store
	drain   time.Duration
	most    time.Duration // MaxTTL
	ranked  bool
	calm    bool
	paused  bool // the group is, by the control record
	rates   [troubles]float64
	nodes   []*node
	reg     register

	asked    map[uint64]bool // terms that somebody was asked to end
	lastTerm uint64
	bad      string
	holed    bool // two led over a store that forgets, without a cool-down
	count    tally
}

func newStorm(seed uint64, mu mutant) *storm {
	w := &storm{rng: rand.New(rand.NewPCG(seed, 2)), mutant: mu, asked: map[uint64]bool{}, hash: newHashing(seed)}
	w.count = newTally()
	switch w.draw(12) {
	case 0, 1:
		w.regime = forgets
	case 2, 3:
		w.regime = unprotected
	case 4, 5:
		w.regime = uneven
	case 6, 7:
		w.regime = vanishes
	case 8:
		w.regime = remade
	}
	// From 0.3 s to a minute, as many short ones as long ones.
	w.ttl = time.Duration(300<<w.draw(8)+w.draw(300)) * time.Millisecond
	w.drift = [...]float64{0, 0.01, 0.1, 0.1, 0.25}[w.draw(5)]
	w.rtt = w.ttl / time.Duration(50+w.draw(1000))
	w.timeout = w.between(w.ttl/8, w.ttl)
	w.drain = w.between(w.ttl/4, 2*w.ttl)
	w.most = w.ttl * time.Duration(1+w.draw(8))
	w.ranked = w.chance(0.4)
	w.reg.now, w.reg.applied = Seen{Kind: Absent}, map[uint64]string{}
	if w.chance(0.5) {
		w.reg.rev = uint64(w.draw(1000)) // other keys of the stream
	}
	for t := range w.rates {
		if w.chance(0.5) {
			w.rates[t] = w.rng.Float64() * w.rng.Float64()
		}
	}
	if w.forgetful() {
		w.rates[tRollback], w.rates[tWipe] = w.rng.Float64(), w.rng.Float64()
	}
	if w.regime == vanishes {
		w.rates[tVanish], w.rates[tReturn] = w.rng.Float64(), w.rng.Float64()
	}
	w.reg.clock = simClock{base: int64(time.Hour), rate: w.rate()}
	if w.regime == remade {
		w.rates[tRemade] = w.rng.Float64()
	}
	for i := range [...]int{5, 5, 5, 2, 3, 4, 6, 7}[w.draw(8)] {
		w.nodes = append(w.nodes, w.newNode(i))
	}
	return w
}

// forgetful reports whether the store may lose what it acknowledged.
func (w *storm) forgetful() bool { return w.regime == forgets || w.regime == unprotected }

func (w *storm) draw(n int64) int64 { return w.rng.Int64N(n) }

func (w *storm) chance(p float64) bool { return w.rng.Float64() < p }

func (w *storm) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.draw(int64(b-a)+1))
}

// newNode draws the settings of one candidate.
func (w *storm) newNode(i int) *node {
	ttl := w.ttl
	if w.regime == uneven {
		ttl = w.between(w.ttl/3, w.ttl)
	}
	m := Machine{
		ID: string(rune('a' + i)), TTL: ttl, Heartbeat: w.between(ttl/8, ttl/3), MaxTTL: w.most, Drift: w.drift,
		CoolDown: w.regime == forgets || w.regime == vanishes, Expires: w.regime == vanishes, Ages: w.regime == remade, DrainBudget: w.drain, HeadStart: min(ttl/2, 2*time.Second),
		Settings: Settings{Retry: Retry{Initial: w.between(ttl/100, ttl/20), Max: w.between(ttl/20, ttl/2), Multiplier: 2, Jitter: 0.2}},
	}
	if w.chance(0.5) {
		m.Grid = w.between(1, m.Heartbeat/8)
	}
	if w.chance(0.3) {
		m.Retry.MaxAttempts = int(1 + w.draw(4))
	}
	if w.chance(0.5) {
		m.DisconnectGrace = w.between(ttl/10, ttl)
	}
	if w.ranked {
		m.Priority, m.Yield = int(w.draw(3)), min(ttl/20, 50*time.Millisecond)
	}
	if w.chance(0.5) {
		m.ForeignTTL = w.between(ttl/2, w.most)
	}
	if w.chance(0.2) {
		m.Splay = w.between(0, ttl)
	}
	if w.chance(0.2) {
		m.Backoff = w.between(ttl/100, ttl/10)
		m.MaxBackoff = 4 * m.Backoff
	}
	n := &node{w: w, m: m, suspends: w.chance(0.5)}
	n.mono, n.wall = simClock{rate: w.rate()}, simClock{rate: w.rate()}
	return n
}

// rate is how many parts of a million a clock runs in one of true time. Most
// are as bad as is allowed, less the millionth that whole nanoseconds may cost.
func (w *storm) rate() int64 {
	most := max(int64(w.drift*1e6)-1, 0)
	switch w.draw(4) {
	case 0:
		return 1e6 - most
	case 1:
		return 1e6 + most
	case 2:
		return 1e6
	default:
		return 1e6 - most + w.draw(2*most+1)
	}
}

// after plans something.
func (w *storm) after(d time.Duration, do func()) { w.queue.add(w.now+max(int64(d), 0), do) }

// runFor lets everything happen that is due within d.
func (w *storm) runFor(d time.Duration) {
	end := w.now + int64(d)
	for w.bad == "" {
		at, do, ok := w.queue.next(end)
		if !ok {
			break
		}
		if at/int64(time.Millisecond) > w.now/int64(time.Millisecond) {
			w.busy = 0
		}
		w.now = at
		do()
	}
	w.now = end
}

func (w *storm) fail(invariant, format string, args ...any) {
	if w.bad == "" {
		w.bad = invariant + ": " + fmt.Sprintf(format, args...)
		w.say("VIOLATION %s", w.bad)
	}
}

func (w *storm) say(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%14v "+format+"\n", append([]any{time.Duration(w.now)}, args...)...)
	}
}

// run is the whole schedule.
func (w *storm) run() {
	for _, n := range w.nodes {
		w.after(time.Duration(w.draw(int64(w.ttl))), n.join)
	}
	for end := w.now + (10+w.draw(40))*int64(w.ttl); w.now < end && w.bad == ""; {
		w.runFor(time.Duration(w.draw(int64(w.ttl))))
		w.trouble()
	}
	w.calmDown()
	for range 3 {
		if w.bad == "" {
			w.failOver()
		}
	}
	w.count.regimes[w.regime]++
	if w.holed {
		w.count.holes = 1
	}
	w.count.virtual += time.Duration(w.now)
	w.count.leases += float64(w.now) / float64(w.ttl)
	w.hash.add(uint64(w.now), w.events)
}

// calmDown ends all faults, and judges G5 when what was under way has come to
// its end.
func (w *storm) calmDown() {
	w.calm, w.paused = true, false
	w.reg.down = false
	w.say("calm")
	for _, n := range w.nodes {
		n.out, n.in = false, false
		if n.alive() && n.frozen {
			n.thaw() // first: the candidate may have been stopped meanwhile
		}
		if !n.alive() || n.s.Stopping {
			n.crash()
			n.join()
		}
		n.connected()
		n.step(Event{Kind: Unbar, Bars: Unhealthy | Paused | Full})
		n.resync()
	}
	// Late events are at most lateness late. A first wait covers the register's
	// content, a second the candidates that stay back or doubt, and a lease
	// covers the error of a slow clock.
	settle := w.lateness() + 3*w.drain + 3*w.bound(max(w.ttl, w.believed()))
	w.runFor(settle)
	if w.bad == "" && w.leader() == nil {
		w.fail("G5", "nobody leads %v after the calm", settle)
	}
}

// believed is the longest lease that a candidate may assume for the register's
// content.
func (w *storm) believed() time.Duration {
	if w.rates[tGarbage]+w.rates[tForeign] > 0 {
		return w.most
	}
	return w.ttl
}

// lateness bounds how late anything comes.
func (w *storm) lateness() time.Duration { return 5 * w.ttl }

// bound is how long after the last sign of a holder's life somebody else leads,
// if nothing fails: its lease, the windows of those who go first or back off
// and of the herd, and the cool-down, on the slowest clock.
func (w *storm) bound(ttl time.Duration) time.Duration {
	d := Wait(ttl, w.drift) + ttl/2 + w.handover()
	if w.regime == vanishes {
		d += Wait(w.ttl, w.drift) + w.ttl/2 // who hands over spares the next one the cool-down, and who crashes does not
	}
	return time.Duration(float64(d)/(1-w.drift)) + 1
}

// handover is the same for a holder that leaves by itself.
func (w *storm) handover() time.Duration {
	var d time.Duration
	for _, n := range w.nodes {
		cool := time.Duration(0)
		if n.m.CoolDown && !n.m.Expires {
			cool = Wait(w.ttl, w.drift) + n.m.Heartbeat
		}
		d = max(d, n.m.HeadStart+n.m.TTL/2+n.m.TTL/2+n.m.MaxBackoff+cool)
	}
	return time.Duration(float64(d+20*w.rtt)/(1-w.drift)) + 1
}

func (w *storm) leader() *node {
	for _, n := range w.nodes {
		if n.leads() {
			return n
		}
	}
	return nil
}

// failOver takes the lead from the leader in the calm, and judges that another
// has it in time.
func (w *storm) failOver() {
	old := w.leader()
	if old == nil {
		w.fail("G5", "the lead was lost in the calm")
		return
	}
	within := w.bound(w.ttl)
	graceful := w.chance(0.5)
	if graceful {
		within = w.handover() + time.Duration(float64(w.drain)/(1-w.drift))
		old.step(Event{Kind: Leave, Exit: Exit{Reason: ReasonResigned}})
	} else {
		old.crash()
	}
	w.say("%s leaves in the calm, gracefully %v: another leads within %v", old.m.ID, graceful, within)
	begun, end := w.now, w.now+int64(within)
	for w.now < end && w.leader() == nil && w.bad == "" {
		w.runFor(min(within/256, time.Duration(end-w.now)))
	}
	switch {
	case w.bad != "":
	case w.leader() == nil:
		w.fail("G5", "nobody leads %v after %s left in the calm (gracefully %v)", within, old.m.ID, graceful)
	case graceful:
		w.count.handover = max(w.count.handover, float64(w.now-begun)/float64(within))
	default:
		w.count.failover = max(w.count.failover, float64(w.now-begun)/float64(within))
	}
	if !old.alive() {
		old.join()
	}
	// A candidate that left stays back for a wait, and the elected one hears of
	// those that joined.
	w.runFor(w.drain + w.bound(w.ttl))
}

// A register is the store's register of the group.
type register struct {
	now     Seen
	past    []Seen // the latest few that it held before
	rev     uint64
	gone    Seen              // the last write, if it vanished
	clock   simClock          // the store's
	made    int64             // when the store was made, by that clock
	down    bool              // the store answers nobody
	applied map[uint64]string // tokens of the acquiring writes
}

const pastLen = 6

// put makes the register's next revision.
func (w *storm) put(k Kind, rec Record) uint64 {
	r := &w.reg
	r.past = append(r.past, r.now)
	if len(r.past) > pastLen {
		r.past = r.past[1:]
	}
	r.rev++
	if w.chance(0.1) {
		r.rev += uint64(w.draw(5)) // by other keys of the stream
	}
	r.now, r.gone = Seen{Kind: k, Rev: r.rev, Rec: rec}, Seen{}
	w.say("register: %v", r.now)
	w.publish()
	return r.rev
}

// compareAndSwap applies a write if the register has the revision that it
// expects.
func (w *storm) compareAndSwap(a Action) (uint64, bool) {
	if w.reg.now.Rev != a.Expected && !w.mutant.accepts(a.Write, &w.reg.now, a.Expected) {
		return 0, false
	}
	k := Held
	if a.Write == Release {
		k = Vacant
	}
	rev := w.put(k, a.Rec)
	if a.Write == Acquire {
		w.reg.applied[rev] = a.Rec.Token
	}
	return rev, true
}

// vanish drops the register's content. A watch may report it or not.
func (w *storm) vanish() {
	r := &w.reg
	r.past = append(r.past[max(0, len(r.past)+1-pastLen):], r.now)
	r.gone, r.now = r.now, Seen{Kind: Absent}
	w.say("record vanishes")
	if w.chance(0.5) {
		w.publish()
	}
}

// remake deletes the store and makes it again, whose revisions go on. A watch
// may report it or not.
//
// Somebody starts at the same time, and has asked for the age before or asks
// after.
func (w *storm) remake() {
	r := &w.reg
	n, early := w.nodes[w.draw(int64(len(w.nodes)))], w.chance(0.5)
	starts := n.m.ID != r.now.Rec.ID
	r.now, r.past = Seen{Kind: Absent}, nil
	w.say("store made again")
	if starts {
		n.crash()
	}
	if starts && early {
		n.join()
	}
	r.made = r.clock.at(w.now)
	if starts {
		n.join()
	}
	if w.chance(0.3) {
		w.publish()
	}
}

// doubt is how long somebody may still lead by what a store before this one
// held, for a candidate that asks now.
func (w *storm) doubt(m *Machine) time.Duration {
	if !m.Ages {
		return 0
	}
	return max(0, m.wait(m.TTL)-time.Duration(w.reg.clock.at(w.now)-w.reg.made))
}

// goBack makes the register what it was n writes ago, and revisions come again.
func (w *storm) goBack(n int) {
	r := &w.reg
	at := len(r.past) - n
	r.now, r.past = r.past[at], r.past[:at]
	r.rev = r.now.Rev
	w.say("rollback: %v", r.now)
	w.publish()
}
