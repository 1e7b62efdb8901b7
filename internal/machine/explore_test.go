package machine

import (
	"flag"
	"fmt"
	"hash/maphash"
	"runtime"
	"strings"
	"testing"
	"time"
)

var (
	exploreHorizon = flag.Int("explore.horizon", 0, "ticks that the explorer looks ahead; 0 takes each configuration's own")
	exploreFaults  = flag.Int("explore.faults", 0, "faults in one world; 0 takes each configuration's own")
)

// A print identifies a world. Two worlds share one with a chance of 2^-128,
// which is nothing beside the number of worlds visited.
type print [2]uint64

// A visit remembers how a world was reached, for the story of a counterexample.
type visit struct {
	parent uint32
	choice uint16
}

type pending struct {
	w     world
	visit uint32
}

// A finding is what an exploration found.
type finding struct {
	worlds, transitions int
	bad                 string // the violation, "" if none
	story               string // how it came to it
	steps               int
}

// An explorer visits every world that can be reached from the root.
type explorer struct {
	*sim
	seeds  [2]maphash.Seed
	seen   map[print]struct{}
	visits []visit

	// sample, if set, is called with worlds at the beginning of a tick.
	sample func(*world)
}

func newExplorer(cfg config) *explorer {
	return &explorer{
		sim: newSim(cfg), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, seen: map[print]struct{}{},
	}
}

func (x *explorer) print(w *world) print {
	return print{maphash.Comparable(x.seeds[0], *w), maphash.Comparable(x.seeds[1], *w)}
}

// run visits all worlds, or stops at the first violation.
func (x *explorer) run() finding {
	var f finding
	root := x.root()
	x.seen[x.print(&root)] = struct{}{}
	x.visits = append(x.visits, visit{})
	todo := []pending{{root, 0}}
	for head := 0; head < len(todo); {
		var p pending
		if x.shortest {
			p = todo[head]
			head++
		} else {
			p = todo[len(todo)-1]
			todo = todo[:len(todo)-1]
		}
		next := x.successors(&p.w)
		if len(next) == 0 && int(p.w.tick) < x.horizon {
			f.bad = "stuck: a timer stays due"
			f.story, f.steps = x.story(p.visit, -1)
			break
		}
		f.transitions += len(next)
		for k := range next {
			n := &next[k]
			x.count[n.kind]++
			if n.bad != "" {
				f.bad = n.bad
				f.story, f.steps = x.story(p.visit, k)
				f.worlds = len(x.seen)
				return f
			}
			id := x.print(&n.w)
			if _, ok := x.seen[id]; ok {
				continue
			}
			x.seen[id] = struct{}{}
			x.visits = append(x.visits, visit{p.visit, uint16(k)})
			if x.sample != nil && n.kind == kAdvance {
				x.sample(&n.w)
			}
			todo = append(todo, pending{n.w, uint32(len(x.visits) - 1)})
		}
	}
	f.worlds = len(x.seen)
	return f
}

// story tells how the world of a visit was reached, and then what the given choice did.
func (x *explorer) story(at uint32, choice int) (string, int) {
	var choices []int
	if choice >= 0 {
		choices = append(choices, choice)
	}
	for ; at != 0; at = x.visits[at].parent {
		choices = append(choices, int(x.visits[at].choice))
	}
	var b strings.Builder
	w := x.root()
	for k := len(choices) - 1; k >= 0; k-- {
		n := x.successors(&w)[choices[k]]
		x.tell(&b, &w, n)
		w = n.w
	}
	return b.String(), len(choices)
}

// tell writes the transition n of w, by computing it once more aloud.
func (x *explorer) tell(b *strings.Builder, w *world, n next) {
	fmt.Fprintf(b, "  tick %2d  %s", w.tick, n.kind)
	if n.kind != kAdvance && n.kind != kDelete && n.kind != kGarbage && n.kind != kStepDown && n.kind != kTransfer {
		fmt.Fprintf(b, ": %s", x.machines[n.who].ID)
	}
	if n.w.reg != w.reg {
		fmt.Fprintf(b, "  [register: %v]", x.sim.seens.all[n.w.reg])
	}
	b.WriteByte('\n')
	for i := range x.machines {
		if n.kind != kAdvance && n.w.c[i].state != w.c[i].state && n.w.c[i].mode == up {
			s := x.state(&n.w, i)
			now := x.now(&n.w, i)
			fmt.Fprintf(b, "      %s@%d is %v", x.machines[i].ID, now.Mono, s.Phase)
			switch {
			case x.mutant.leads(&s, now):
				fmt.Fprintf(b, " and leads term %d until %d", s.Grant.Term, s.Grant.Trust.Mono)
			case s.Phase == Watching:
				fmt.Fprintf(b, ", knows %v, due at %d", s.View, max(s.DueAt, s.StandBackUntil))
			}
			if s.Write.Kind != NoWrite {
				fmt.Fprintf(b, "; %v expecting %d %s", s.Write.Kind, s.Write.Expected, stageNames[s.Write.Stage])
			}
			b.WriteByte('\n')
		}
	}
	if n.bad != "" {
		fmt.Fprintf(b, "  VIOLATION %s\n", n.bad)
	}
}

var stageNames = [...]string{"", "sent", "to be repeated", "refused, reading"}

// String shows what stands in the register in a few words.
func (s Seen) String() string {
	switch s.Kind {
	case Held:
		return fmt.Sprintf("held@%d by %s (%s renewal %d)", s.Rev, s.Rec.ID, s.Rec.Token, s.Rec.Renewal)
	case Vacant:
		if s.Rec.Successor != "" {
			return fmt.Sprintf("vacant@%d after %s for %s", s.Rev, s.Rec.Token, s.Rec.Successor)
		}
		return fmt.Sprintf("vacant@%d after %s", s.Rev, s.Rec.Token)
	default:
		return fmt.Sprintf("%v@%d", s.Kind, s.Rev)
	}
}

// counts prints how often each kind of thing happened.
func (x *sim) counts() string {
	var b strings.Builder
	for k, n := range x.count {
		fmt.Fprintf(&b, "    %-42s %11d\n", kind(k), n)
	}
	for k, n := range x.eventCount {
		fmt.Fprintf(&b, "    event %-36v %11d\n", EventKind(k), n)
	}
	for k, n := range x.actionCount {
		fmt.Fprintf(&b, "    action %-35v %11d\n", ActionKind(k), n)
	}
	return b.String()
}

// explored runs cfg and fails t at a violation, or if a kind of transition never happened.
func explored(t *testing.T, cfg config) *explorer {
	t.Helper()
	if *exploreHorizon > 0 {
		cfg.horizon = *exploreHorizon
	}
	if *exploreFaults > 0 {
		cfg.faults = *exploreFaults
	}
	x := newExplorer(cfg)
	start := time.Now()
	f := x.run()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%s: %d worlds, %d transitions, %d ticks, ≤ %d faults, %d candidate states, %v, heap %d MB\n%s",
		cfg.name, f.worlds, f.transitions, cfg.horizon, cfg.faults, len(x.states.all), time.Since(start).Round(time.Millisecond),
		m.HeapAlloc>>20, x.counts())
	if f.bad != "" {
		t.Fatalf("%s after %d steps:\n%s", f.bad, f.steps, f.story)
	}
	return x
}

func TestExploreTwo(t *testing.T) {
	explored(t, config{
		name: "two candidates", rates: []int64{3, 5}, machines: machines(2, nil), horizon: 13, faults: 1, kinds: allFaults,
	})
}
