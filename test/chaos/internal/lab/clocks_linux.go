package lab

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/seed-ff2cb582/leader/test/chaos/internal/history"
	"github.com/seed-ff2cb582/leader/test/chaos/internal/skew"
)

// The rates of clocks, in thousandths of the machine's. The extremes are just
// inside the drift of the candidates: a slow leader beside a fast challenger
// uses up the margins of both.
const (
	slowClock = 901
	trueClock = skew.True
	fastClock = 1099
)

// drawRates draws a rate for each of n candidates: in seven of eight rounds
// both extremes are among them.
func drawRates(rng *rand.Rand, n int) []int {
	rates := make([]int, n)
	for i := range rates {
		rates[i] = drawRate(rng)
	}
	if n > 1 && rng.IntN(8) > 0 {
		rates[0], rates[1] = slowClock, fastClock
		rng.Shuffle(n, func(i, j int) { rates[i], rates[j] = rates[j], rates[i] })
	}
	return rates
}

func drawRate(rng *rand.Rand) int {
	return []int{slowClock, trueClock, fastClock}[rng.IntN(3)]
}

// extremes reports whether a slow and a fast clock were drawn.
func (p plan) extremes() bool {
	return slices.Contains(p.rates, slowClock) && slices.Contains(p.rates, fastClock)
}

// clocks says at which rates the candidates' clocks run.
func (p plan) clocks() string {
	if len(p.rates) == 0 {
		return "all on the machine's clock"
	}
	rates := make([]string, len(p.rates))
	for i, r := range p.rates {
		rates[i] = rateOf(r)
	}
	return "clock rates " + strings.Join(rates, " ")
}

// rateOf is a rate as people write it.
func rateOf(thousandths int) string { return fmt.Sprintf("%.4g", float64(thousandths)/skew.True) }

// tolerance is by how much a measured rate may be off, in thousandths: two
// readings a second apart are together within a tenth of a millisecond each.
const tolerance = 3

// addClocks counts at which rates the clocks of a round ran.
func (c *counts) addClocks(h history.Round) {
	for _, p := range h.Processes {
		c.clocks[p.ClockRate]++
		if rate, ok := p.MeasuredRate(); ok && math.Abs(rate-float64(p.ClockRate)) > tolerance {
			c.wrongClocks = append(c.wrongClocks, fmt.Sprintf("the clock of %s ran at %.1f thousandths, not %d", p.Name, rate, p.ClockRate))
		}
	}
	ran := func(rate int) bool {
		return slices.ContainsFunc(h.Processes, func(p history.Process) bool { return p.ClockRate == rate })
	}
	if ran(slowClock) && ran(fastClock) {
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
		if begins[i].Reason == "expired" && begins[i].rate == fastClock && begins[i-1].rate == slowClock {
			n++
		}
	}
	return n
}

// rates are counts of processes by rate.
func rates(n map[int]int) string {
	var parts []string
	for _, rate := range []int{slowClock, trueClock, fastClock} {
		parts = append(parts, fmt.Sprintf("%s: %d", rateOf(rate), n[rate]))
	}
	return strings.Join(parts, ", ")
}
