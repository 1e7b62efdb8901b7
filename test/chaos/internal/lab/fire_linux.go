package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Fire is a run of the fire lab.
type Fire struct {
	Seed     uint64        // decides the schedule of the first round; each further round has the next one
	Rounds   int           // how many there are; 0: as many as fit
	For      time.Duration // no episode begins later; 0: no bound
	Episodes int           // of a round; 0: until each kind of fault has come up
	Only     []string      // the kinds of faults, which are Known; empty: all
	Program  Program       // of the candidates
	// Mutant names the bug in Program, if there is one. Then a violation of the
	// guarantee Breaks is what is wanted, and ends the run, and all rounds are
	// on the first shape.
	Mutant, Breaks string
}

// Run holds rounds until they are done, their time is over, or ctx is done.
func (f Fire) Run(ctx context.Context, log io.Writer) (res Result, err error) {
	dir, err := os.MkdirTemp("", "leader-chaos-")
	if err != nil {
		return res, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	res.Full = f.Episodes == 0 && len(f.Only) == 0
	res.oneClock = f.Program.OneClock
	if res.oneClock != nil {
		fmt.Fprintf(log, "CLOCKS NOT COVERED: %v\n", res.oneClock)
	}
	l := newLauncher(f.Program.Binary)
	var until time.Time
	if f.For > 0 {
		until = time.Now().Add(f.For)
	}
	for i := 0; f.more(ctx, i, until); i++ {
		p := draw(f.seed(i), f.Episodes, f.Only)
		p.mutant = f.Mutant
		if res.oneClock != nil {
			p.rates = nil
		}
		fmt.Fprintf(log, "round %d: seed %d, %s, %d candidates, %s, TTL %v, %d episodes\n",
			i+1, p.seed, p.shape.name, p.candidates, p.clocks(), p.ttl, len(p.episodes))
		o := run(ctx, p, dir, l, func(r *round) {
			for _, e := range p.episodes {
				if ctx.Err() != nil || !until.IsZero() && time.Now().After(until) {
					return
				}
				r.play(e)
			}
		})
		res.take(o, log)
		if f.Mutant != "" && res.Condemned(f.Breaks) != "" {
			break
		}
	}
	return res, nil
}

// Known returns an error if there is no fault of one of the names.
func Known(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(kinds, func(k kind) bool { return k.name == name }) {
			return fmt.Errorf("lab: there is no fault %q; they are listed in docs/chaos.md", name)
		}
	}
	return nil
}

// seed returns that of the ith round.
func (f Fire) seed(i int) uint64 {
	if n := uint64(len(shapes)); f.Mutant != "" {
		return (f.Seed/n + uint64(i)) * n
	}
	return f.Seed + uint64(i)
}

func (f Fire) more(ctx context.Context, done int, until time.Time) bool {
	switch {
	case ctx.Err() != nil, f.Rounds > 0 && done >= f.Rounds:
		return false
	default:
		return until.IsZero() || time.Now().Before(until)
	}
}

// take takes in the outcome of a round.
func (r *Result) take(o outcome, log io.Writer) {
	r.Rounds = append(r.Rounds, o)
	for _, v := range o.violations {
		fmt.Fprintf(log, "  VIOLATION of %v\n", v)
	}
	if o.trouble != nil {
		fmt.Fprintf(log, "  TROUBLE: %v\n", o.trouble)
	}
	if o.trouble != nil || len(o.violations) > 0 {
		fmt.Fprintf(log, "  the same schedule again: %s\n", o.plan.command())
	}
	c := o.counts
	fmt.Fprintf(log, "  %.0f s: %d episodes, %d terms, %d samples, longest wait %v after %s, %d of %d writes stale, %d violations\n",
		c.elapsed.Seconds(), c.played, c.terms, c.samples, c.longest.Round(time.Millisecond), c.after, c.stale, c.writes, len(o.violations))
}

// command is what plays the plan again.
func (p plan) command() string {
	line := fmt.Sprintf("go run ./test/chaos --seed %d --rounds 1 --episodes %d", p.seed, len(p.episodes))
	if p.mutant != "" {
		line = fmt.Sprintf("go run ./test/chaos --mutant %s --seed %d", p.mutant, p.seed)
	} else if len(p.only) > 0 {
		line += fmt.Sprintf(" --only %q", strings.Join(p.only, ","))
	}
	if len(p.rates) == 0 {
		line += " --no-clocks"
	}
	return line
}
