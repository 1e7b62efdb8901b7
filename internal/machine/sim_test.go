package machine

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	simSeeds = flag.Int("sim.seeds", 0, "schedules that TestSimulation runs; 0 takes as many as suit a test run")
	simBase  = flag.Uint64("sim.base", 0, "the first seed; 0 draws one")
	simSeed  = flag.Uint64("sim.seed", 0, "the only schedule that TestSimulation runs, narrated in full, as a failure printed it")
)

// A verdict is what became of one schedule.
type verdict struct {
	bad  string
	hash uint64
}

// simulate runs the schedule of a seed.
func simulate(seed uint64, mu mutant, total *tally) verdict {
	w := newStorm(seed, mu)
	w.run()
	if total != nil {
		w.count.schedules, w.count.steps = 1, int(w.events)
		total.add(&w.count)
	}
	return verdict{w.bad, w.hash.h.Sum64()}
}

// story runs the schedule of a seed again with its narration, and returns the
// end of that.
func story(seed uint64, mu mutant, lines int) string {
	w := newStorm(seed, mu)
	w.trace = &strings.Builder{}
	w.run()
	all := strings.Split(strings.TrimSpace(w.trace.String()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// simulateAll runs n schedules on all processors. The hash is of all of them in
// the order of their seeds.
func simulateAll(base uint64, n int) (verdicts []verdict, total tally, sum uint64) {
	verdicts, total = make([]verdict, n), newTally()
	var mu sync.Mutex
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			mine := newTally()
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				verdicts[i] = simulate(base+uint64(i), mutant{}, &mine)
			}
			mu.Lock()
			defer mu.Unlock()
			total.add(&mine)
		})
	}
	wg.Wait()
	h := newHashing(base)
	for _, v := range verdicts {
		h.add(v.hash)
	}
	return verdicts, total, h.h.Sum64()
}

// demandingSeeds is how many schedules a run has to have for each kind of thing
// to be demanded of it.
const demandingSeeds = 1500

// TestSimulation runs the core through random schedules of faults, far longer
// and with more candidates than the explorer can, and judges G1 to G6 of it:
//
//	make sim SEEDS=10000
//	go test -run TestSimulation -v ./internal/machine -args -sim.seed=42
//
// The same seeds give the same run to the last event, as the hash shows.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		v := simulate(*simSeed, mutant{}, nil)
		t.Logf("hash %016x\n%s", v.hash, story(*simSeed, mutant{}, 100_000))
		if v.bad != "" {
			t.Fatal(v.bad)
		}
		return
	}
	n := *simSeeds
	if n == 0 {
		n = smaller(2000, 100)
		if testing.Short() {
			n = 200
		}
	}
	base := *simBase
	if base == 0 {
		base = rand.Uint64N(1<<40) + 1
	}
	start := time.Now()
	verdicts, total, sum := simulateAll(base, n)
	took := time.Since(start)
	violations := 0
	for i, v := range verdicts {
		if v.bad == "" {
			continue
		}
		violations++
		if violations <= 3 {
			seed := base + uint64(i)
			t.Errorf("%s\nreplay: go test -run 'TestSimulation$' -v ./internal/machine -args -sim.seed=%d\n%s", v.bad, seed, story(seed, mutant{}, 60))
		}
	}
	t.Logf("core: %d schedules (seeds %d to %d), %.1f simulated hours, %.0f leases, %d steps in %v (%.0f hours a minute)\n%s"+
		"    longest without a leader in the calm: after a crash %.0f %% of the bound, after a resignation %.0f %%\n"+
		"violations %d, hash %016x",
		total.schedules, base, base+uint64(n)-1, total.virtual.Hours(), total.leases, total.steps, took.Round(time.Millisecond),
		total.virtual.Hours()/took.Minutes(), total.String(), 100*total.failover, 100*total.handover, violations, sum)
	total.shapes.demandKnown(t)
	if n < demandingSeeds {
		return
	}
	for _, r := range total.rows() {
		if r.n == 0 {
			t.Errorf("%q never happened: what never happened was not tested", r.name)
		}
	}
}

// The same seed gives the same run, to the last event; another seed gives
// another.
func TestEqualSeedsAreEqualRuns(t *testing.T) {
	n := smaller(20, 5)
	base := rand.Uint64N(1<<40) + 1
	_, _, first := simulateAll(base, n)
	_, _, again := simulateAll(base, n)
	if first != again {
		t.Errorf("seeds from %d: hash %016x, then %016x", base, first, again)
	}
	if _, _, other := simulateAll(base+1, n); other == first {
		t.Errorf("seeds from %d and from %d have the same hash", base, base+1)
	}
	for i := range uint64(n) {
		if a, b := story(base+i, mutant{}, 1<<30), story(base+i, mutant{}, 1<<30); a != b {
			t.Errorf("seed %d has two stories", base+i)
		}
	}
}

// notForSimulation are the mutations of the explorer that the simulation is not
// asked to find, with the reason.
var notForSimulation = map[string]string{
	"challenge without margin":                                     "it changes waits of exactly one length, and here each has its random part; the next test does the same here",
	"any deletion may be vacated":                                  "a deposed holder, its successor and a third one have to miss just the right messages: once in thousands of schedules",
	"a late grant is promoted":                                     "as rare; the explorer holds back just that answer",
	"a stranger's record shortens the wait for what it replaced":   "leases have to differ in length, and where they do nobody overwrites the key here",
	"a drained candidate campaigns":                                "nobody is drained here: for the core that is a pause of one candidate, and the explorer has a family of it",
	"create by absence, without a revision":                        "as rare: a write has to wait for another's deletion",
	"a bare delete is waited out with the rest of the wait before": "as rare: a renewal has to be missed just before the deletion",
}

// TestSimulationCatchesMutations judges the simulation by the mistakes that
// judge the explorer.
func TestSimulationCatchesMutations(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("it judges the simulation, and not the protocol")
	}
	margin := mutation{mutant: mutant{name: "challenge without margin, whatever the delay", step: after(func(m Machine, _ State, s *State, ev Event, now Instant) {
		if saw(Held, s, ev) && s.DueAt > now.Mono {
			s.DueAt -= int64(margin(m.TTL, m.Drift))
		}
	})}}
	// The explorer has this one on the fine scale alone.
	unexamined := mutation{mutant: mutant{name: "a claim that found nothing is not examined, here", step: func(m Machine, s State, ev Event, now Instant) (State, []Action) {
		m.Ages = false
		return m.Step(s, ev, now)
	}}}
	for _, mu := range append(slices.Clone(mutations), margin, unexamined) {
		t.Run(mu.name, func(t *testing.T) {
			if why := notForSimulation[mu.name]; why != "" {
				t.Skip(why)
			}
			if mu.fine {
				t.Skip("it is a matter of one unit, or of what the explorer alone has")
			}
			t.Parallel()
			for seed := uint64(1); seed <= 5000; seed++ {
				if v := simulate(seed, mu.mutant, nil); v.bad != "" {
					t.Logf("caught after %d schedules by %s", seed, v.bad)
					return
				}
			}
			t.Error("not caught")
		})
	}
}
