package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/skew"
)

// The rates of clocks, in thousandths of the machine's. The extremes are just
// inside the drift of the candidates: a slow leader beside a fast challenger
// uses up the margins of both.
const (
	SlowClock = 901
	TrueClock = skew.True
	FastClock = 1099
)

// FastServers is the rate of servers' clocks that end a lease early: a record
// that may be one TTL old is dropped after 0.71. A step of a server's wall clock
// does the same.
const FastServers = 1400

// drawRates draws a rate for each of n candidates: in seven of eight rounds
// both extremes are among them.
func drawRates(rng *rand.Rand, n int) []int {
	rates := make([]int, n)
	for i := range rates {
		rates[i] = DrawRate(rng)
	}
	if n > 1 && rng.IntN(8) > 0 {
		rates[0], rates[1] = SlowClock, FastClock
		rng.Shuffle(n, func(i, j int) { rates[i], rates[j] = rates[j], rates[i] })
	}
	return rates
}

// DrawRate draws one rate.
func DrawRate(rng *rand.Rand) int {
	return []int{SlowClock, TrueClock, FastClock}[rng.IntN(3)]
}

// OnOneClock returns the plan for a system where all processes share the
// machine's clock.
func (p Plan) OnOneClock() Plan {
	p.Rates, p.ServerRate = nil, 0
	return p
}

// Extremes reports whether a slow and a fast clock were drawn.
func (p Plan) Extremes() bool {
	return slices.Contains(p.Rates, SlowClock) && slices.Contains(p.Rates, FastClock)
}

// Clocks describes at which rates the candidates' clocks run.
func (p Plan) Clocks() string {
	if len(p.Rates) == 0 {
		return "all on the machine's clock"
	}
	rates := make([]string, len(p.Rates))
	for i, r := range p.Rates {
		rates[i] = RateOf(r)
	}
	return "clock rates " + strings.Join(rates, " ")
}

// RateOf is a rate as people write it.
func RateOf(thousandths int) string { return fmt.Sprintf("%.4g", float64(thousandths)/skew.True) }
