package specification

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// A Result is what Explore found.
type Result struct {
	Worlds     int      // different states that were visited
	Depth      int      // steps to the farthest of them
	Overlooked int      // states that were left out, since they have too many writes in flight
	Truncated  bool     // MaxWorld was reached
	Broken     string   // the guarantees that the last state of Trace does not keep
	Trace      []string // steps from the start to it
}

// Explore visits every world within bounds, breadth first, until one breaks a
// guarantee among those that wanted names ("G1", "G2", "G4", "window"); all of
// them if it names none. The trace is then a shortest one.
func Explore(b Bounds, r Rules, wanted ...string) Result {
	x := explorer{model: model{b, r}, seen: map[fingerprint]struct{}{}, wanted: mask(wanted)}
	x.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	return x.run()
}

func mask(wanted []string) broken {
	all := brokeG1 | brokeG2 | brokeG4 | brokeWindow
	if len(wanted) == 0 {
		return all
	}
	var m broken
	for b := brokeG1; b <= brokeWindow; b <<= 1 {
		if slices.Contains(wanted, b.String()) {
			m |= b
		}
	}
	return m
}

// A fingerprint represents a world: 128 bits, so that two of 2^32 worlds share
// one with a probability below 2^-64.
type fingerprint [2]uint64

// An origin is how a world was reached: by which step of which world.
type origin struct {
	world int32
	step  uint16
}

type explorer struct {
	model
	seeds   [2]maphash.Seed
	seen    map[fingerprint]struct{}
	origins []origin
	wanted  broken
	result  Result
}

// A reached is a world of the frontier with its number.
type reached struct {
	world
	number int32
}

func (x *explorer) run() Result {
	start := x.first()
	x.add(&start, origin{world: -1})
	frontier := []reached{{start, 0}}
	for len(frontier) > 0 && x.result.Broken == "" && !x.result.Truncated {
		var next []reached
		for k := range frontier {
			next = x.expand(&frontier[k], next)
			if x.result.Broken != "" || x.result.Truncated {
				break
			}
		}
		frontier = next
		x.result.Depth++
	}
	x.result.Worlds = len(x.origins)
	return x.result
}

func (x *explorer) first() world {
	var w world
	if x.start != nil {
		x.start(&x.model, &w)
		x.normal(&w)
	}
	return w
}

func (x *explorer) add(w *world, from origin) bool {
	key := fingerprint{maphash.Comparable(x.seeds[0], *w), maphash.Comparable(x.seeds[1], *w)}
	if _, ok := x.seen[key]; ok {
		return false
	}
	x.seen[key] = struct{}{}
	x.origins = append(x.origins, from)
	return true
}

func (x *explorer) expand(r *reached, next []reached) []reached {
	number := uint16(0)
	x.steps(&r.world, func(_ label, act func(*world)) {
		from := origin{r.number, number}
		number++
		if x.result.Broken != "" {
			return
		}
		w := r.world
		x.take(&w, act)
		if w.Overlooked > 0 {
			x.result.Overlooked++
			return
		}
		if bad := w.Broken & x.wanted; bad != 0 {
			x.result.Broken = bad.String()
			x.result.Trace = x.trace(from)
			return
		}
		w.Broken = 0
		if x.add(&w, from) {
			next = append(next, reached{w, int32(len(x.origins) - 1)})
		}
	})
	if x.MaxWorld > 0 && len(x.origins) >= x.MaxWorld {
		x.result.Truncated = true
	}
	return next
}

func (x *explorer) take(w *world, act func(*world)) {
	act(w)
	w.judge()
	x.normal(w)
}

// trace goes the way to a state once more, for its words.
func (x *explorer) trace(last origin) []string {
	path := []origin{last}
	for path[len(path)-1].world > 0 {
		path = append(path, x.origins[path[len(path)-1].world])
	}
	slices.Reverse(path)
	w := x.first()
	var lines []string
	for _, o := range path {
		number := uint16(0)
		now := w
		x.steps(&now, func(what label, act func(*world)) {
			if number == o.step {
				w.Broken = 0
				x.take(&w, act)
				lines = append(lines, fmt.Sprintf("%-40s %s", what.String(), &w))
			}
			number++
		})
	}
	return lines
}

// String shows a world in a line.
func (w *world) String() string {
	var s strings.Builder
	s.WriteString(w.now().String())
	for i := range w.Candidates {
		c := &w.Candidates[i]
		if c.HasSeen {
			fmt.Fprintf(&s, " | %s %v, sees %d", name(int8(i)), c.Stage, c.Seen.Rev)
			if c.acts() {
				fmt.Fprintf(&s, ", acts for %d", c.Left)
			}
		}
	}
	return s.String()
}
