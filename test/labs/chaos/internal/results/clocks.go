package results

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/schedule"
)

// tolerance is by how much a measured rate may be off, in thousandths: two
// readings a second apart are together within a tenth of a millisecond each.
const tolerance = 3

// serverTolerance is the same for servers, two of which may have been asked.
// Their gains on the machine's clock differ by the time between their starts.
const serverTolerance = 100

// addClocks counts at which rates the clocks of a round ran.
func (c *Counts) addClocks(h history.Round) {
	for _, p := range h.Processes {
		c.clocks[p.ClockRate]++
		if rate, ok := p.MeasuredRate(); ok && math.Abs(rate-float64(p.ClockRate)) > tolerance {
			c.wrongClocks = append(c.wrongClocks, fmt.Sprintf("the clock of %s ran at %.1f thousandths, not %d", p.Name, rate, p.ClockRate))
		}
	}
	if rate := float64(h.ServerRate); rate != 0 {
		low, high := h.ServerRates()
		// Without two readings the bounds are NaN, which fit no rate.
		if fits := low-serverTolerance <= rate && rate <= high+serverTolerance; !fits {
			c.wrongClocks = append(c.wrongClocks, fmt.Sprintf("the clocks of the servers ran at %.0f to %.0f thousandths, not %d", low, high, h.ServerRate))
		}
		c.fastServers++
	}
	ran := func(rate int) bool {
		return slices.ContainsFunc(h.Processes, func(p history.Process) bool { return p.ClockRate == rate })
	}
	if ran(schedule.SlowClock) && ran(schedule.FastClock) {
		c.extremes++
	}
	c.margins += margins(h)
}

// margins counts the leases of slow clocks that ran out by fast ones: what they
// allow each other is the whole drift of both.
func margins(h history.Round) (n int) {
	type begin struct {
		history.Event
		rate int
	}
	var begins []begin
	for _, p := range h.Processes {
		for _, e := range p.Events {
			if e.Kind == history.EventTransition && e.To == "LEADER" {
				begins = append(begins, begin{e, p.ClockRate})
			}
		}
	}
	slices.SortFunc(begins, func(a, b begin) int { return cmp.Compare(a.At, b.At) })
	for i := 1; i < len(begins); i++ {
		if begins[i].Reason == "expired" && begins[i].rate == schedule.FastClock && begins[i-1].rate == schedule.SlowClock {
			n++
		}
	}
	return n
}

// rates are counts of processes by rate.
func rates(n map[int]int) string {
	var parts []string
	for _, rate := range []int{schedule.SlowClock, schedule.TrueClock, schedule.FastClock} {
		parts = append(parts, fmt.Sprintf("%s: %d", schedule.RateOf(rate), n[rate]))
	}
	return strings.Join(parts, ", ")
}
