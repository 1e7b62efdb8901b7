package lab

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Result is what a run showed.
type Result struct {
	Rounds []outcome
	// Full: no round was shorter than its decks.
	Full bool
	// oneClock is why all processes had the machine's clocks, if they had.
	oneClock error
}

// total is the counts of all rounds.
func (r *Result) total() counts {
	sum := newCounts()
	for _, o := range r.Rounds {
		sum.join(o.counts)
	}
	return sum
}

// Violations is how many guarantees were found violated.
func (r *Result) Violations() (n int) {
	for _, o := range r.Rounds {
		n += len(o.violations)
	}
	return n
}

// Condemned returns the first violation of a guarantee, or nothing.
func (r *Result) Condemned(guarantee string) string {
	for _, o := range r.Rounds {
		for _, v := range o.violations {
			if v.Guarantee == guarantee {
				return v.String()
			}
		}
	}
	return ""
}

// Verdict is nil if nothing was violated, every round was held to its end, and
// enough happened for that to mean something.
func (r *Result) Verdict() error {
	var errs []error
	for _, o := range r.Rounds {
		if len(o.violations) > 0 {
			errs = append(errs, fmt.Errorf("%d violations, the first of %v; the same schedule again: %s", len(o.violations), o.violations[0], o.plan.command()))
		}
		if o.trouble != nil {
			errs = append(errs, fmt.Errorf("a round could not be held: %w; the same schedule again: %s", o.trouble, o.plan.command()))
		}
	}
	return errors.Join(append(errs, r.enough()...)...)
}

// samplesPerSecond is what a round must have at the least: a fiftieth of what
// three candidates are asked.
const samplesPerSecond = 60

// enough returns what there was too little of. None of it depends on how fast
// the machine is.
func (r *Result) enough() (errs []error) {
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("too little happened: "+format, args...))
		}
	}
	demand(len(r.Rounds) > 0, "no round")
	for _, o := range r.Rounds {
		if o.trouble != nil {
			continue
		}
		c, seed := o.counts, o.plan.seed
		demand(float64(c.samples) >= samplesPerSecond*c.elapsed.Seconds(), "seed %d: %d samples in %v", seed, c.samples, c.elapsed.Round(time.Second))
		demand(c.terms >= o.plan.candidates, "seed %d: %d terms, and each of %d candidates has to lead", seed, c.terms, o.plan.candidates)
		demand(c.extremes > 0 || !o.plan.extremes(), "seed %d: a slow and a fast clock were drawn, and did not run", seed)
		demand(c.witnessed > 0, "seed %d: no claim was seen as it was stored", seed)
		for name, n := range o.plan.faults(c.played) {
			_, skipped := c.skipped[name]
			demand(skipped || c.faults[name] >= n, "seed %d: %d of %d faults %q", seed, c.faults[name], n, name)
		}
	}
	sum := r.total()
	demand(sum.stale > 0, "no stale write was attempted")
	demand(sum.writes > sum.stale, "no write of a leader was attempted")
	demand(sum.atLeader > 0 || !r.aimed(), "no fault met a leader")
	for _, wrong := range sum.wrongClocks {
		demand(false, "%s", wrong)
	}
	if r.Full {
		demand(sum.unknown > 0, "no write was left without an answer")
	}
	return errs
}

// aimed reports whether a fault that was played was for the leader.
func (r *Result) aimed() bool {
	for _, o := range r.Rounds {
		for _, e := range o.plan.episodes[:o.counts.played] {
			if slices.ContainsFunc(e.faults, func(f fault) bool { return f.leader && !f.kind.atServers }) {
				return true
			}
		}
	}
	return false
}

// faults counts the faults of the first episodes by their kind.
func (p plan) faults(episodes int) map[string]int {
	n := map[string]int{}
	for _, e := range p.episodes[:episodes] {
		for _, f := range e.faults {
			n[f.kind.name]++
		}
	}
	return n
}
