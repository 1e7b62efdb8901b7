package history

import "time"

// A Process is what one process of candidates left behind.
type Process struct {
	// Name distinguishes it from every other process of the round, also from
	// those that ran under the same InstanceIDs before.
	Name   string
	IDs    []string // the candidates
	Runs   []Run
	Events []Event
	// ClockRate is at which rate its clocks were to run, in thousandths of the
	// machine's.
	ClockRate int
	// Died is why it ended though nobody ended it, or empty.
	Died string
}

// MeasuredRate returns at which rate the process's clocks ran, in thousandths
// of the machine's, as far as its events show. ok means that they span long
// enough.
func (p Process) MeasuredRate() (rate float64, ok bool) {
	if len(p.Events) == 0 {
		return 0, false
	}
	first, last := p.Events[0].Clock, p.Events[len(p.Events)-1].Clock
	span := last.True - first.True
	if span < int64(time.Second) {
		return 0, false
	}
	return 1000 * float64(last.Own-first.Own) / float64(span), true
}

// A ServerReading is what the clock of a server showed, in nanoseconds, while it
// was asked.
type ServerReading struct {
	Own   int64
	Asked Sample
}

// A Stored is a record as it was stored: what the bucket republished.
type Stored struct {
	Revision uint64
	ID       string // the holder; empty in a vacancy
	Token    string // a short hash of it, as Event.Correlation
	Term     uint64 // the term of the record; the term of a claim is the claim's revision
}

// A Wait is the time after a fault until somebody leads.
type Wait struct {
	After string // which faults
	// From is when they had ended and the store took writes again.
	From int64
	// Led is when a candidate answered that it leads, for the first time after
	// From. 0: nobody did before the lab gave up.
	Led   int64
	Limit time.Duration
}

// A Write is one that a guarded resource accepted.
type Write struct {
	Term uint64
	From string // the process
}

// A Resource is what a guarded resource saw.
type Resource struct {
	Name string
	// Accepted are the writes in the order in which they took effect, in rows
	// of equal ones.
	Accepted []Write
	// Stale counts the attempts that came with a term older than one that had
	// been accepted, and Total all attempts.
	Stale, Total uint64
}

// A Round is all that is known of one round.
type Round struct {
	Processes []Process
	Stored    []Stored
	Expired   int // records that the store dropped by their age
	Waits     []Wait
	Resources []Resource
	// ServerRate is at which rate the servers' clocks were to run, in
	// thousandths of the machine's, and ServersClock what they showed at two
	// instants. 0: nobody looked.
	ServerRate   int
	ServersClock [2]ServerReading
	// Forgot are the times in which the store lost writes that it had
	// acknowledged, because the lab made it. Terms before and after are not
	// compared (docs/reference/protocol.md, A1 and A2), and that is all that is excused.
	Forgot []Sample
	// Settle is for how long a claim of before may still be promoted, at the
	// most.
	Settle time.Duration
	// DemoteTimeout is the candidates' DemoteTimeout, on the fastest of their
	// clocks.
	DemoteTimeout time.Duration
}

// ServerRates returns between which rates the servers' clocks ran, in
// thousandths of the machine's.
func (r Round) ServerRates() (low, high float64) {
	first, last := r.ServersClock[0], r.ServersClock[1]
	own := 1000 * float64(last.Own-first.Own)
	return own / float64(last.Asked.T1-first.Asked.T0), own / float64(last.Asked.T0-first.Asked.T1)
}
