// Package results is what rounds of the fire lab showed: their counts, the
// verdict, which needs enough to have happened, and the pages.
package results

import (
	"maps"
	"time"

	"github.com/seed-ff2cb582/leader/test/labs/chaos/internal/history"
)

// Counts are what a round, or all of them, had of everything.
type Counts struct {
	rounds    int
	Elapsed   time.Duration
	Played    int               // episodes
	faults    map[string]int    // by kind
	skipped   map[string]string // kinds that could not be done, and why
	atLeader  int               // faults of candidates that met the leader
	processes int
	samples   uint64
	leading   uint64 // samples of candidates that led
	terms     int
	begun     map[string]int // terms by the reason of the claim
	ended     map[string]int // and by the reason of their end, if a process was left to report it
	witnessed int            // terms whose claim the lab saw stored
	unknown   int            // writes without an answer
	resolved  int            // the number of them that were found applied
	writes    uint64         // to guarded resources, attempted
	stale     uint64         // the number of them with a term older than one accepted before
	forgot    int            // times that the store lost what it had acknowledged
	expired   int            // records that the store dropped by their age
	clocks    map[int]int    // processes by the rate of their clocks, in thousandths
	extremes  int            // rounds with a slow and a fast clock
	// fastServers are rounds with servers whose clocks ran at another rate.
	fastServers int
	margins     int // leases of slow clocks that a fast one waited out
	// wrongClocks are clocks that did not run at the ordered rate.
	wrongClocks []string
	longest     time.Duration // without a leader after the end of all faults
	after       string        // which ones
}

// NewCounts returns counts of nothing.
func NewCounts() Counts {
	return Counts{clocks: map[int]int{}, faults: map[string]int{}, skipped: map[string]string{}, begun: map[string]int{}, ended: map[string]int{}}
}

// Did counts a fault of a kind that was done.
func (c *Counts) Did(kind string) { c.faults[kind]++ }

// DidAtLeader counts a fault of a candidate that met the leader.
func (c *Counts) DidAtLeader() { c.atLeader++ }

// Skipped notes why a kind of fault cannot be done.
func (c *Counts) Skipped(kind string, why error) { c.skipped[kind] = why.Error() }

// Add counts what a round left behind.
func (c *Counts) Add(h history.Round) {
	c.rounds++
	c.addClocks(h)
	c.forgot += len(h.Forgot)
	c.expired += h.Expired
	claims := map[uint64]bool{}
	for _, s := range h.Stored {
		if s.ID != "" && s.Term == 0 {
			claims[s.Revision] = true
		}
	}
	for _, p := range h.Processes {
		c.processes++
		for _, r := range p.Runs {
			c.samples += r.Count
			if r.Answer.Leader != 0 {
				c.leading += r.Count
			}
		}
		for _, e := range p.Events {
			c.addEvent(e, claims)
		}
	}
	for _, res := range h.Resources {
		c.writes += res.Total
		c.stale += res.Stale
	}
	for _, w := range h.Waits {
		if d := time.Duration(w.Led - w.From); w.Led != 0 && d > c.longest {
			c.longest, c.after = d, w.After
		}
	}
}

func (c *Counts) addEvent(e history.Event, claims map[uint64]bool) {
	switch {
	case e.Kind == history.EventTransition && e.To == "LEADER":
		c.terms++
		c.begun[e.Reason]++
		if claims[e.Term] {
			c.witnessed++
		}
	case e.Kind == history.EventTransition && e.To == "DEMOTED":
		c.ended[e.Reason]++
	case e.Kind == history.EventCall && e.Outcome == "unknown":
		c.unknown++
	case e.Kind == history.EventResolved:
		c.resolved++
	}
}

// join adds the counts of another round.
func (c *Counts) join(o Counts) {
	c.rounds += o.rounds
	c.Elapsed += o.Elapsed
	c.Played += o.Played
	c.atLeader += o.atLeader
	c.processes += o.processes
	c.samples += o.samples
	c.leading += o.leading
	c.terms += o.terms
	c.witnessed += o.witnessed
	c.unknown += o.unknown
	c.resolved += o.resolved
	c.writes += o.writes
	c.stale += o.stale
	c.forgot += o.forgot
	c.expired += o.expired
	for _, m := range [][2]map[string]int{{c.faults, o.faults}, {c.begun, o.begun}, {c.ended, o.ended}} {
		for k, n := range m[1] {
			m[0][k] += n
		}
	}
	for rate, n := range o.clocks {
		c.clocks[rate] += n
	}
	c.extremes += o.extremes
	c.margins += o.margins
	c.fastServers += o.fastServers
	c.wrongClocks = append(c.wrongClocks, o.wrongClocks...)
	maps.Copy(c.skipped, o.skipped)
	if o.longest > c.longest {
		c.longest, c.after = o.longest, o.after
	}
}
