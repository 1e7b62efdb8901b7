// Package figure holds what the comparison measures, and judges it.
package figure

import (
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
	"github.com/seed-ff2cb582/leader/test/internal/storefigures"
)

// A Report is all that one run measured.
type Report struct {
	Command string        `json:"command"`
	At      time.Time     `json:"at"`
	Took    time.Duration `json:"took"`
	Commit  string        `json:"commit,omitempty"` // of this project, if git reported it
	Quick   bool          `json:"quick"`            // too few samples to judge speed by
	Machine Machine       `json:"machine"`
	Results []*Result     `json:"results"` // ours first
	// Stores is how this project does over other stores than the one above.
	// Nil: it was not measured.
	Stores *storefigures.Report `json:"stores,omitempty"`
}

// Ours is the result of this project.
func (r *Report) Ours() *Result { return r.Results[0] }

// Peers are the others.
func (r *Report) Peers() []*Result { return r.Results[1:] }

// Of returns the result of the library of that name, or nil.
func (r *Report) Of(name string) *Result {
	for _, res := range r.Results {
		if res.Library == name {
			return res
		}
	}
	return nil
}

// A Result is what was measured of one library.
type Result struct {
	Library string `json:"library"`
	Version string `json:"version"`
	Store   string `json:"store"` // with its version
	Answers bool   `json:"answers"`

	RoundTrip harness.Samples `json:"round_trip"` // of a compare-and-swap, between handovers
	Handover  harness.Samples `json:"handover"`
	Crashes   []Crash         `json:"crashes"`
	Faults    []Fault         `json:"faults"`
	Traffic   Traffic         `json:"traffic"`
	Crowds    []Crowd         `json:"crowds"`
	Answer    float64         `json:"answer"` // ns that it takes to ask whether one leads
	// Allocations are the allocations of one such question.
	Allocations int64  `json:"allocations"`
	Herds       []Herd `json:"herds"` // by their sizes
	Plain       Plain  `json:"plain,omitzero"`
}

// Plain is the cost of a library that watches, in a bucket that does not
// republish writes.
type Plain struct {
	Traffic Traffic `json:"traffic"`
	Crowd   Crowd   `json:"crowd"`
}

// A Crash is a series of failovers after the leader fell silent, each from its
// last renewal.
type Crash struct {
	TTL       time.Duration   `json:"ttl"`
	Permitted bool            `json:"permitted"` // the library has leases of that length
	Samples   harness.Samples `json:"samples"`
}

// A Fault is a series of trials of one fault.
type Fault struct {
	Name   string  `json:"name"`
	Trials []Trial `json:"trials"`
}

// Worst is the trial with the longest time with two leaders.
func (f Fault) Worst() (worst Trial) {
	for _, t := range f.Trials {
		if t.Both() > worst.Both() || t.Both() == worst.Both() && t.Open {
			worst = t
		}
	}
	return worst
}

// Median is the median of the times with two leaders.
func (f Fault) Median() time.Duration {
	var s harness.Samples
	for _, t := range f.Trials {
		s = append(s, t.Both())
	}
	return s.Median()
}

// A Trial is one fault: for how long two candidates believed at the same time
// that they lead.
type Trial struct {
	Answer  time.Duration `json:"answer"`  // by what they answered
	Works   time.Duration `json:"works"`   // by the calls that their programs received
	Open    bool          `json:"open"`    // it had not ended when the observation did
	Beliefs int           `json:"beliefs"` // samples that count and in which one of the candidates led
}

// Both is the larger of the two.
func (t Trial) Both() time.Duration { return max(t.Answer, t.Works) }

// Traffic is what one leader and its followers cause.
type Traffic struct {
	Followers int           `json:"followers"`
	Heartbeat time.Duration `json:"heartbeat"`
	In        float64       `json:"in"`    // messages to the server in a second
	Out       float64       `json:"out"`   // messages from the server
	Bytes     float64       `json:"bytes"` // on all connections, both ways
}

// Messages is In and Out.
func (t Traffic) Messages() float64 { return t.In + t.Out }

// A Crowd is what many elections in one process cost.
type Crowd struct {
	Elections int           `json:"elections"`
	TTL       time.Duration `json:"ttl"`
	Leading   Cost          `json:"leading"`   // of a process that leads them all
	Following Cost          `json:"following"` // of one that follows
}

// CPU is the processor time of both processes, in seconds a second.
func (c Crowd) CPU() float64 { return c.Leading.CPU + c.Following.CPU }

// Settled is how many both led and were followed at the end.
func (c Crowd) Settled() int { return min(c.Leading.Settled, c.Following.Settled) }

// Cost is the cost of one process, without its cost with a connection and no
// election.
type Cost struct {
	Joined     time.Duration `json:"joined"`     // until all of them were settled
	CPU        float64       `json:"cpu"`        // seconds in a second
	Heap       float64       `json:"heap"`       // live bytes, each
	Goroutines float64       `json:"goroutines"` // each
	Settled    int           `json:"settled"`    // how many led, or followed, at the end
}

// A Herd is an election with so many candidates.
type Herd struct {
	Candidates int        `json:"candidates"`
	Left       Succession `json:"left"` // from the call by which the leader leaves
	Died       Succession `json:"died"` // from the last renewal of a leader whose connection ends
	// Bare is how long the same takes without any library, where the server
	// notifies all candidates of the leader: a message to one plain subscriber,
	// and its write.
	Bare harness.Samples `json:"bare,omitempty"`
}

// A Succession is how leaders were succeeded.
type Succession struct {
	Took   harness.Samples `json:"took"`   // until one leads
	Claims []int           `json:"claims"` // writes that could have made somebody the leader
}

// MedianClaims is the median of the claims.
func (s Succession) MedianClaims() int {
	var counts harness.Samples
	for _, c := range s.Claims {
		counts = append(counts, time.Duration(c))
	}
	return int(counts.Median())
}

// MaxClaims is the largest number of claims.
func (s Succession) MaxClaims() int {
	most := 0
	for _, c := range s.Claims {
		most = max(most, c)
	}
	return most
}
