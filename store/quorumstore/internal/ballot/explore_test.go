package ballot

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
)

var exploreDeep = flag.Bool("explore.deep", false, "visit larger families of worlds, with each order of reads and refusals")

var exploreMost = flag.Int("explore.most", 0, "visit at most so many worlds of each family; 0 for all, or deepMost with -explore.deep")

// deepMost is how many worlds of each family -explore.deep visits at most, so
// that all families together take ten minutes and no family more than 4 GB.
const deepMost = 1_000_000

// A fingerprint identifies a world.
type fingerprint [2]uint64

type explorer struct {
	*sim
	seen   map[fingerprint]struct{}
	path   []uint16 // the choices that led to the world
	worlds int
	// judgements is how many states of the registers a fresh process judged.
	judgements int
}

func newExplorer(c config) *explorer {
	return &explorer{sim: newSim(c), seen: map[fingerprint]struct{}{}}
}

// run visits all worlds, or stops at the first violation, which it returns.
func (x *explorer) run() string {
	root := x.root()
	if x.sample > 0 {
		return x.walks(root)
	}
	x.isNew(&root)
	return x.visit(&root)
}

func (x *explorer) isNew(w *world) bool {
	id := x.id(w)
	if _, ok := x.seen[id]; ok {
		return false
	}
	x.seen[id] = struct{}{}
	x.worlds++
	return true
}

type chosen struct {
	world
	choice uint16
}

// visit visits w and all that follows from it, depth first.
func (x *explorer) visit(w *world) string {
	if bad := x.examine(w); bad != "" {
		return bad
	}
	if x.most > 0 && x.worlds > x.most {
		return ""
	}
	all := x.successors(w)
	var todo []chosen
	for k := range all {
		n := x.perform(w, &all[k])
		x.count[all[k].kind]++
		if n.bad != "" {
			x.path = append(x.path, uint16(k))
			return n.bad
		}
		if x.isNew(&n) {
			todo = append(todo, chosen{n, uint16(k)})
		}
	}
	for k := range todo {
		x.path = append(x.path, todo[k].choice)
		if bad := x.visit(&todo[k].world); bad != "" {
			return bad
		}
		x.path = x.path[:len(x.path)-1]
	}
	return ""
}

// walks takes random ways through the worlds.
func (x *explorer) walks(root world) string {
	r := rand.New(rand.NewPCG(1, 2))
	for range x.sample {
		x.path = x.path[:0]
		for w := root; ; {
			if bad := x.examine(&w); bad != "" {
				return bad
			}
			all := x.successors(&w)
			if len(all) == 0 {
				break
			}
			choice := r.IntN(len(all))
			x.count[all[choice].kind]++
			x.worlds++
			x.path = append(x.path, uint16(choice))
			if w = x.perform(&w, &all[choice]); w.bad != "" {
				return w.bad
			}
		}
	}
	return ""
}

func (x *explorer) story() string {
	var b strings.Builder
	w := x.root()
	for _, choice := range x.path {
		n := x.successors(&w)[choice]
		w = x.perform(&w, &n)
		x.tell(&b, &n, &w)
	}
	return b.String()
}

// examine has a process that knows nothing call CompareAndSwap in w, once with
// all members and once without each, while nothing else happens. It has to see
// what was confirmed, and to write over it (G5).
func (x *explorer) examine(w *world) string {
	if x.blind || x.apart {
		return ""
	}
	newest := entry{}
	if w.links > 0 {
		newest = w.chain[w.links-1]
	}
	id := x.registers(w, newest)
	if _, ok := x.judged[id]; ok {
		return ""
	}
	x.judged[id] = struct{}{}
	x.judgements++
	for away := -1; away < x.members; away++ {
		if bad := x.fresh(w, away, newest); bad != "" {
			return fmt.Sprintf("%s (a fresh process, without member %d)", bad, away)
		}
	}
	return ""
}

// registers returns what distinguishes the registers of w, in whatever order.
func (x *explorer) registers(w *world, newest entry) fingerprint {
	var member [MaxMembers]fingerprint
	for i := range x.members {
		x.buf = appendAcceptor(x.buf[:0], &w.reg[i].Acceptor)
		member[i] = x.of(x.buf)
	}
	slices.SortFunc(member[:x.members], func(a, b fingerprint) int { return cmp.Compare(a[0], b[0]) })
	b := x.buf[:0]
	b = append(b, byte(newest.version), newest.id)
	for i := range x.members {
		b = appendID(b, member[i])
	}
	x.buf = b
	return x.of(b)
}

func (x *explorer) fresh(w *world, away int, newest entry) string {
	l := loop{x: x, reg: w.reg, away: away, top: w.top}
	must := away < 0 || x.remembered(w, away)
	o, _ := l.call(unlikely, ID{250})
	switch {
	case o == store.Conflict:
	case must:
		return fmt.Sprintf("G5: a call ends with %v", o)
	default:
		return ""
	}
	shown := l.view.Shown
	if shown.Version < newest.version || shown.Version == newest.version && shown.ID[0] != newest.id {
		return fmt.Sprintf("order: version %d of call %d was chosen, and now it is %v", newest.version, newest.id, &shown)
	}
	if shown.ID == (ID{}) && shown.Version > newest.version && newest.version > w.ruin {
		return fmt.Sprintf("order: version %d of call %d was chosen, and now it is deleted", newest.version, newest.id)
	}
	if o, v := l.call(shown.Version, ID{251}); o != store.OK || v <= shown.Version {
		return fmt.Sprintf("G5: a write over version %d ends with %v, version %d", shown.Version, o, v)
	}
	return ""
}

// remembered reports whether a majority without member away has memory of more
// than that the key was to be founded.
func (x *explorer) remembered(w *world, away int) bool {
	n, highest := 0, Acceptor{Founding: true}
	for i := range x.members {
		r := &w.reg[i].Acceptor
		if i == away || !r.Accepted() {
			continue
		}
		n++
		if highest.Ballot.Less(r.Ballot) {
			highest = *r
		}
	}
	return n > x.members/2 && !highest.Founding
}

// A loop is a process whose requests are answered at once.
type loop struct {
	x    *explorer
	reg  [MaxMembers]register
	away int
	view View
	top  uint64
}

func (l *loop) call(expected uint64, id ID) (store.Outcome, uint64) {
	todo := []Event{{Kind: Begin, Expected: expected, Own: Value{ID: id}}}
	for n := 0; len(todo) > 0; n++ {
		ev := todo[0]
		todo = todo[1:]
		if n == 100 {
			ev = Event{Kind: Cancel}
		}
		ev.Random, ev.Clock = 8, (l.top/clockGap+1)*clockGap
		var actions []Action
		l.view, actions = l.x.mutant.doStep(l.x.groups[0], l.view, ev)
		for _, a := range actions {
			switch r := &l.reg[a.Member]; {
			case a.Kind == Done:
				return a.Outcome, a.Version
			case a.Kind == Wait:
				todo = append(todo, Event{Kind: Retry})
			case a.Member == l.away:
				todo = append(todo, Event{Kind: answerTo(a.Kind), Member: a.Member, Outcome: store.Transient})
			case a.Kind == Look:
				todo = append(todo, Event{Kind: Looked, Member: a.Member, Rev: r.rev, Seen: r.Acceptor})
			case a.Expected != r.rev:
				todo = append(todo, Event{Kind: Wrote, Member: a.Member, Outcome: store.Conflict})
			default:
				*r = register{a.Content, r.rev + 1}
				l.top = max(l.top, a.Content.Version)
				todo = append(todo, Event{Kind: Wrote, Member: a.Member, Rev: r.rev})
			}
		}
	}
	return store.Unknown, 0
}

func answerTo(k ActionKind) EventKind {
	if k == Look {
		return Looked
	}
	return Wrote
}

// families are the worlds that TestExplore visits.
func families() []config {
	late := setOf(kLate)
	network := setOf(kLate, kRefused, kCancel)
	deep, deny := uint8(0), setOf(kDenied)
	if *exploreDeep {
		deep, deny = 1, setOf(kDenied, kFailRead)
	}
	// A member promised the last process's ballot, and was wiped.
	forgotten := []next{{kind: kBegin, who: 2}, {kind: kApply, who: 2, member: 2}, {kind: kRefused, who: 2}, {kind: kWipe, member: 2}}
	// A member accepted the value of the first process.
	accepted := []next{{kind: kBegin}, {kind: kApply}, {kind: kApply, member: 1}, {kind: kApply}}
	// A second member did so after the process had given up on it.
	unheard := append(slices.Clone(accepted), next{kind: kLate, member: 1}, next{kind: kLateApply, member: 1})
	// Its process ended, and the last one proposed another value over it.
	followed := append(slices.Clone(accepted), next{kind: kRefused, member: 1}, next{kind: kRefused, member: 2}, next{kind: kExhausted}, next{kind: kBegin, who: 2}, next{kind: kApply, who: 2}, next{kind: kApply, who: 2, member: 1})
	return []config{
		{name: "two proposers", procs: 2, calls: n{1, 1}, tries: n{2, 1}, faults: 1, kinds: network | deny},
		{name: "lost answers", procs: 2, calls: n{1, 2}, tries: n{1, 1}, faults: 1, kinds: late},
		{name: "overtaken", procs: 2, calls: n{1, 2}, tries: n{2, 1}, faults: 1, kinds: late, looks: 0b10, begins: unheard},
		{name: "reader", procs: 3, calls: n{1, 1}, tries: n{2, 1}, reader: true, begins: accepted},
		{name: "guess", procs: 3, calls: n{1, 1, 1}, tries: n{1, 1, 2}, faults: 2, kinds: setOf(kRefused), guess: 3, looks: 0b110, begins: followed},
		{name: "holder", procs: 1, calls: n{3}, tries: n{1}, faults: 2, kinds: network},
		{name: "holder and challenger", procs: 2, calls: n{3, 1}, tries: n{1, 1}, faults: deep, kinds: late},
		{name: "release", procs: 2, calls: n{1, 2}, tries: n{1, 1}, release: 2, looks: 0b01},
		{name: "wipe", procs: 2, calls: n{2, 1}, tries: n{1, 1}, kinds: setOf(kWipe), wipes: 1, looks: 0b10},
		{name: "wipe and a late write", procs: 2, calls: n{1, 1}, tries: n{1, 1}, kinds: late | setOf(kWipe), faults: 1, wipes: 1, looks: 0b10},
		{name: "three proposers and a wipe", procs: 3, calls: n{1, 1, 1}, tries: n{1, 1, 1}, kinds: setOf(kWipe, kRefused), faults: 1, wipes: 1, release: 1, looks: 0b011, ahead: 2, begins: forgotten},
		{name: "deletion by hand", procs: 2, calls: n{1, 1}, tries: n{2, 1}, kinds: setOf(kDelete), wipes: 3},
		{name: "first value", procs: 2, calls: n{1, 1}, tries: n{2, 1}, empty: true, kinds: setOf(kWipe), wipes: 1},
		{name: "a member goes back", procs: 1, calls: n{3}, tries: n{1}, kinds: late | setOf(kCancel, kRollback), wipes: 1, faults: 2, blind: true},
		{name: "two sets", members: 5, procs: 2, calls: n{1, 1}, tries: n{1, 2}, apart: true},
		{name: "five members and two wipes", members: 5, procs: 3, calls: n{2, 1, 1}, tries: n{2, 2, 2}, kinds: late | setOf(kWipe), wipes: 2, faults: 1, sample: 300},
	}
}

// n is a number for each process.
type n = [maxProcs]uint8

func TestExplore(t *testing.T) {
	for _, c := range families() {
		t.Run(c.name, func(t *testing.T) { explored(t, c) })
	}
}

func explored(t *testing.T, c config) {
	t.Helper()
	garbage := 300
	if testing.Short() {
		c.most = 10_000
	}
	if *exploreDeep {
		garbage, c.most, c.sample = 100, deepMost, 10*c.sample
		if c.guess == 0 { // which begins after a call's only attempt
			c.tries = n{2, 2, 2}
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(garbage))
	if *exploreMost > 0 {
		c.most = *exploreMost
	}
	x := newExplorer(c)
	start := time.Now()
	bad := x.run()
	var b strings.Builder
	for k, n := range x.count {
		if n > 0 {
			fmt.Fprintf(&b, "\n    %-40s %10d", kindNames[k], n)
		}
	}
	t.Logf("%d worlds, judged by a fresh process %d times, %v%s", x.worlds, x.judgements, time.Since(start).Round(time.Millisecond), b.String())
	if bad != "" {
		t.Fatalf("%s after %d steps:\n%s", bad, len(x.path), x.story())
	}
}
