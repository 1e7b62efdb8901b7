package results

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
)

// An Outcome is what a round showed.
type Outcome struct {
	Plan       schedule.Plan
	Counts     Counts
	Violations []history.Violation
	// Stuck is what the servers did not do in time, if that ended the round. It
	// is judged up to there.
	Stuck error
	// Trouble is what else ended the round early.
	Trouble error
}

// A Result is what a run showed.
type Result struct {
	Rounds []Outcome
	// Kinds are all kinds of faults, for the table.
	Kinds []schedule.Kind
	// Full: no round was shorter than its decks.
	Full bool
	// OneClock is why all processes had the machine's clocks, if they had.
	OneClock error
}

// Take takes in the outcome of a round.
func (r *Result) Take(o Outcome, log io.Writer) {
	r.Rounds = append(r.Rounds, o)
	for _, v := range o.Violations {
		fmt.Fprintf(log, "  VIOLATION of %v\n", v)
	}
	if o.Stuck != nil {
		fmt.Fprintf(log, "  ENDED BY THE SERVERS: %v\n", o.Stuck)
	}
	if o.Trouble != nil {
		fmt.Fprintf(log, "  TROUBLE: %v\n", o.Trouble)
	}
	if o.Stuck != nil || o.Trouble != nil || len(o.Violations) > 0 {
		fmt.Fprintf(log, "  the same schedule again: %s\n", o.Plan.Command())
	}
	c := o.Counts
	fmt.Fprintf(log, "  %.0f s: %d episodes, %d terms, %d samples, longest wait %v after %s, %d of %d writes stale, %d violations\n",
		c.Elapsed.Seconds(), c.Played, c.terms, c.samples, c.longest.Round(time.Millisecond), c.after, c.stale, c.writes, len(o.Violations))
}

// total is the counts of all rounds.
func (r *Result) total() Counts {
	sum := NewCounts()
	for _, o := range r.Rounds {
		sum.join(o.Counts)
	}
	return sum
}

// Violations is how many guarantees were found violated.
func (r *Result) Violations() (n int) {
	for _, o := range r.Rounds {
		n += len(o.Violations)
	}
	return n
}

// Condemned returns the first violation of a guarantee, or nothing.
func (r *Result) Condemned(guarantee string) string {
	for _, o := range r.Rounds {
		for _, v := range o.Violations {
			if v.Guarantee == guarantee {
				return v.String()
			}
		}
	}
	return ""
}

// few is which part of the rounds the servers may end: one in so many. More may
// be ours.
const few = 10

// Verdict is nil if nothing was violated, every round was held to its end, but
// for a few that the servers ended, and enough happened for that to mean
// something.
func (r *Result) Verdict() error {
	var errs []error
	if n := r.stuck(); n*few > len(r.Rounds) {
		errs = append(errs, fmt.Errorf("the servers ended %d of %d rounds, more than one in %d", n, len(r.Rounds), few))
	}
	for _, o := range r.Rounds {
		if len(o.Violations) > 0 {
			errs = append(errs, fmt.Errorf("%d violations, the first of %v; the same schedule again: %s", len(o.Violations), o.Violations[0], o.Plan.Command()))
		}
		if o.Trouble != nil {
			errs = append(errs, fmt.Errorf("a round could not be held: %w; the same schedule again: %s", o.Trouble, o.Plan.Command()))
		}
	}
	return errors.Join(append(errs, r.enough()...)...)
}

// stuck counts the rounds that the servers ended.
func (r *Result) stuck() (n int) {
	for _, o := range r.Rounds {
		if o.Stuck != nil {
			n++
		}
	}
	return n
}

// samplesPerSecond is what a round must have at least: a fiftieth of what
// three candidates are asked.
const samplesPerSecond = 60

// manyRounds are enough for what happens about twice in each.
const manyRounds = 8

// enough returns what there was too little of. None of these counts depends on
// how fast the machine is.
func (r *Result) enough() (errs []error) {
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("too little happened: "+format, args...))
		}
	}
	demand(len(r.Rounds) > 0, "no round")
	for _, o := range r.Rounds {
		if o.Stuck != nil || o.Trouble != nil {
			continue
		}
		c, seed := o.Counts, o.Plan.Seed
		demand(float64(c.samples) >= samplesPerSecond*c.Elapsed.Seconds(), "seed %d: %d samples in %v", seed, c.samples, c.Elapsed.Round(time.Second))
		demand(c.terms >= o.Plan.Candidates, "seed %d: %d terms, and each of %d candidates has to lead", seed, c.terms, o.Plan.Candidates)
		demand(c.extremes > 0 || !o.Plan.Extremes(), "seed %d: a slow and a fast clock were drawn, and did not run", seed)
		demand(c.witnessed > 0, "seed %d: no claim was seen as it was stored", seed)
		for name, n := range o.Plan.Faults(c.Played) {
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
	if r.Full && len(r.Rounds) >= manyRounds {
		demand(sum.resolved > 0, "no write without an answer was found applied")
		demand(sum.ended["unhealthy"] > 0, "no leader that was not well stepped down")
		demand(sum.ended["outranked"] > 0 || !slices.ContainsFunc(r.Rounds, func(o Outcome) bool { return o.Plan.Ranked() }),
			"no leader made room for one that is preferred")
		demand(sum.expired > 0 || r.count(schedule.Plan.Expires) == 0, "no record expired, of buckets that drop them")
		demand(sum.margins > 0 || r.OneClock != nil, "no fast clock waited out a lease of a slow one")
	}
	return errs
}

// aimed reports whether a fault that was played was for the leader.
func (r *Result) aimed() bool {
	for _, o := range r.Rounds {
		for _, e := range o.Plan.Episodes[:o.Counts.Played] {
			if slices.ContainsFunc(e.Faults, func(f schedule.Fault) bool { return f.Leader && !f.Kind.AtServers }) {
				return true
			}
		}
	}
	return false
}
