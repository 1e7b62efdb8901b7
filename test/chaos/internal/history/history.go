package history

import "time"

// A Process is what one process of candidates left behind.
type Process struct {
	// Name tells it from every other of the round, also from those that ran under the same InstanceIDs before.
	Name   string
	IDs    []string // the candidates
	Runs   []Run
	Events []Event
	// Died is why it ended though nobody ended it, or empty.
	Died string
}

// A Stored is a record as it was stored: what the bucket republished.
type Stored struct {
	Revision uint64
	ID       string // the holder; empty in a vacancy
	Token    string // a short hash of it, as Event.Correlation
	Term     uint64 // the term of the record; that of a claim is its own revision
}

// A Wait is the time after a fault until somebody leads.
type Wait struct {
	After string // which faults
	// From is when they had ended and the store took writes again.
	From int64
	// Led is when a candidate answered that it leads, for the first time after From. 0: nobody did before the lab gave up.
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
	// Accepted are the writes in the order in which they took effect, in rows of equal ones.
	Accepted []Write
	// Stale counts the attempts that came with a term older than one that had been accepted, and Total all attempts.
	Stale, Total uint64
}

// A Round is all that is known of one round.
type Round struct {
	Processes []Process
	Stored    []Stored
	Waits     []Wait
	Resources []Resource
	// Forgot are the times in which the store lost writes that it had acknowledged, because the lab made it. Terms before and
	// after are not compared (docs/protocol.md, A1 and A2), and that is all that is excused.
	Forgot []Sample
	// Settle is for how long a claim of before may still be promoted, at the most.
	Settle time.Duration
	// DemoteTimeout is that of the candidates.
	DemoteTimeout time.Duration
}
