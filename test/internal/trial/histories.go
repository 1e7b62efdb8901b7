package trial

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/storetest/judge/histories"
	"github.com/seed-ff2cb582/leader/test/natslab"
)

var (
	short  = flag.Int("histories", 300, "how many histories without faults to record and judge")
	writes = flag.Int("writes", 40, "how many writes each of them has at least")
	seed   = flag.Uint64("seed", 0, "seed of the first history; 0: any")
)

// trialOf records by the seed of the command line, if it has one.
func trialOf(judge histories.Judge) histories.Trial {
	return histories.Trial{Judge: judge, Seed: *seed, Patience: natslab.Patience}
}

// told logs what a trial consisted of, and returns what it found.
func told(t *testing.T, tally histories.Tally, err error) {
	t.Helper()
	t.Logf("%v (replay the order of calls with -args -seed=%d)", tally, tally.Seed)
	if err != nil {
		t.Error(err)
	}
}

// Histories records and judges as many histories as the flag -histories says,
// so many at a time, each of as many writes as -writes says over two keys of
// its own. open returns the stores of one side, which contend with each other;
// the sides may share registers. Each wait is bounded, and all of them together
// are not: how long that many take is a matter of the machine.
func Histories(t *testing.T, judge histories.Judge, sides int, open func(side int) []store.Store) {
	t.Helper()
	var stores [][]store.Store
	for side := range sides {
		stores = append(stores, open(side))
	}
	many := trialOf(judge)
	many.Writes = *writes
	tally, err := many.WithoutFaults(t.Context(), *short, stores...)
	told(t, tally, err)
}

// A Fault is something that goes wrong for a while, and is over when Happen
// returns.
type Fault struct {
	Name   string
	Happen func(r *rand.Rand)
}

// Last lets a fault last, for up to so many milliseconds.
func Last(r *rand.Rand, ms int) { <-time.After(time.Duration(1+r.IntN(ms)) * time.Millisecond) }

// Spoil returns the faults of a way to a server, each of which meets one of the
// proxies.
func Spoil(proxies ...*natslab.Proxy) []Fault {
	// A client of a history gives a call up after half a second.
	const givenUp = 500 * time.Millisecond
	spoil := func(name string, least time.Duration, ms int, begin, end func(*natslab.Proxy)) Fault {
		return Fault{name, func(r *rand.Rand) {
			p := proxies[r.IntN(len(proxies))]
			begin(p)
			<-time.After(least)
			Last(r, ms)
			end(p)
			p.Resume()
		}}
	}
	resume := (*natslab.Proxy).Resume
	return []Fault{
		spoil("connections are reset", 0, 1, (*natslab.Proxy).Reset, resume),
		spoil("nobody can connect", 0, 100, (*natslab.Proxy).Cut, resume),
		spoil("answers are held and lost", givenUp, 200, func(p *natslab.Proxy) { p.Hold(natslab.ToClient) }, (*natslab.Proxy).Reset),
		spoil("calls are held and lost", 0, 300, func(p *natslab.Proxy) { p.Hold(natslab.ToServer) }, (*natslab.Proxy).Reset),
		spoil("calls come late", givenUp, 200, func(p *natslab.Proxy) { p.Hold(natslab.ToServer) }, resume),
	}
}

// Faulted is what a history with faults is recorded of.
type Faulted struct {
	// Stores share registers. The last settles them when the faults are over.
	Stores []store.Store
	Faults []Fault
	// Rounds is how often each fault happens, in an order of the seed. The
	// default is once.
	Rounds int
	// Keys is how many registers are written, 3 by default. See
	// [histories.Faulted].
	Keys int
	// Enough returns what the history still lacks, which more rounds may bring.
	Enough func(histories.Tally) error
}

// Least returns what a history lacks of so many writes by outcome.
func Least(writes, acknowledged, conflicts, unknown int) func(histories.Tally) error {
	return func(h histories.Tally) error {
		var lacks []error
		for _, c := range []struct {
			what      string
			has, want int
		}{
			{"writes", h.Writes, writes},
			{"acknowledged writes", h.Acknowledged, acknowledged},
			{"conflicts", h.Conflicts, conflicts},
			{"writes of unknown outcome", h.Unknown, unknown},
		} {
			if c.has < c.want {
				lacks = append(lacks, fmt.Errorf("%d %s, want %d", c.has, c.what, c.want))
			}
		}
		return errors.Join(lacks...)
	}
}

// HistoryWithFaults records and judges one history while faults happen.
func HistoryWithFaults(t *testing.T, judge histories.Judge, f Faulted) {
	t.Helper()
	var faults []histories.Fault
	for _, fault := range f.Faults {
		faults = append(faults, histories.Fault{Name: fault.Name, Happen: func(r *rand.Rand) error { fault.Happen(r); return nil }})
	}
	tally, err := trialOf(judge).WithFaults(t.Context(), histories.Faulted{Stores: f.Stores, Faults: faults, Rounds: f.Rounds, Keys: f.Keys, Enough: f.Enough})
	told(t, tally, err)
	if tally.Unknown == 0 || tally.Conflicts == 0 {
		t.Error("the faults met no write")
	}
}
