package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/faults"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/process"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/results"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/round"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
)

// Fire is a run of the fire lab.
type Fire struct {
	Seed     uint64          // decides the schedule of the first round; each further round has the next one
	Rounds   int             // how many there are; 0: as many as fit
	For      time.Duration   // no episode begins later; 0: no bound
	Episodes int             // of a round; 0: until each kind of fault has come up
	Only     []string        // the kinds of faults, which faults.Known knows; empty: all
	Program  process.Program // of the candidates
	// Quorum makes the servers one of three members of a quorum, whose others
	// have no faults. Rounds whose servers forget or drop records by their age
	// are passed over, since a quorum refuses such members.
	Quorum bool
	// Mutant names the bug in Program, if there is one. Then a violation of the
	// guarantee Breaks is what is wanted, and ends the run, and all rounds are
	// on the first shape.
	Mutant, Breaks string
	// Suits, optional, reports whether a round may be held by a plan. Seeds are
	// passed over until one may.
	Suits func(schedule.Plan) bool
}

// Run holds rounds until they are done, their time is over, or ctx is done.
func (f Fire) Run(ctx context.Context, log io.Writer) (res results.Result, err error) {
	dir, err := os.MkdirTemp("", "leader-chaos-")
	if err != nil {
		return res, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	res.Kinds, res.Full = faults.Kinds(), f.Episodes == 0 && len(f.Only) == 0
	res.OneClock = f.Program.OneClock
	if res.OneClock != nil {
		fmt.Fprintf(log, "CLOCKS NOT COVERED: %v\n", res.OneClock)
	}
	l := process.NewLauncher(f.Program.Binary)
	var until time.Time
	if f.For > 0 {
		until = time.Now().Add(f.For)
	}
	next := f.plans(res.Kinds)
	for i := 0; f.more(ctx, i, until); i++ {
		p := next()
		p.Mutant, p.Quorum = f.Mutant, f.Quorum
		if res.OneClock != nil {
			p = p.OnOneClock()
		}
		servers, err := f.Program.ServersAt(p.ServerRate)
		if err != nil {
			return res, err
		}
		fmt.Fprintf(log, "round %d: seed %d, %s, %d candidates, %s, TTL %v, %s, %d episodes\n",
			i+1, p.Seed, p.Shape.Name, p.Candidates, p.Clocks(), p.TTL, p.Standings(), len(p.Episodes))
		o := round.Run(ctx, p, dir, l, servers, func(r *round.Round) {
			for _, e := range p.Episodes {
				if ctx.Err() != nil || !until.IsZero() && time.Now().After(until) {
					return
				}
				r.Play(e, faults.Do)
			}
		})
		res.Take(o, log)
		if f.Mutant != "" && res.Condemned(f.Breaks) != "" {
			break
		}
	}
	return res, nil
}

// plans returns what draws one plan after the other.
func (f Fire) plans(kinds []schedule.Kind) func() schedule.Plan {
	i := 0
	return func() schedule.Plan {
		for {
			p := schedule.Draw(f.seed(i), f.Episodes, kinds, f.Only)
			i++
			if (f.Suits == nil || f.Suits(p)) && !(f.Quorum && (p.Shape.Memory || p.Expires())) {
				return p
			}
		}
	}
}

// seed returns the seed of the ith plan.
func (f Fire) seed(i int) uint64 {
	if n := uint64(len(schedule.Shapes)); f.Mutant != "" {
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
