package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
)

// The kinds of events.
const (
	EventStarted      = "started"       // the process takes part
	EventPromoteBegin = "promote-begin" // OnPromote was called
	EventPromoteEnd   = "promote-end"   // and is about to return
	EventDemoteBegin  = "demote-begin"
	EventDemoteEnd    = "demote-end"
	EventTransition   = "transition"
	EventCall         = "call" // to the store; only claims, releases, and what had no answer
	EventResolved     = "resolved"
	EventStopped      = "stopped" // Stop has returned
	EventVitals       = "vitals"
)

// An Event is something that a candidate reports. It is written to a file
// immediately, so that it survives the process.
type Event struct {
	At   int64  `json:"at"`
	Who  int    `json:"who"`
	Kind string `json:"kind"`

	Term        uint64 `json:"term,omitempty"`
	Correlation string `json:"correlation,omitempty"` // of the term or the claim
	// Over: the context of the term that OnPromote was called for had ended
	// already.
	Over bool `json:"over,omitempty"`

	// Of transitions.
	To     string `json:"to,omitempty"`
	Reason string `json:"reason,omitempty"`

	// Of calls.
	Call    string `json:"call,omitempty"`
	Sent    int64  `json:"sent,omitempty"`
	Outcome string `json:"outcome,omitempty"`

	// Error is what Stop returned.
	Error string `json:"error,omitempty"`
	// Left are the stacks of goroutines that the library left behind after
	// Stop.
	Left []string `json:"left,omitempty"`

	Vitals *Vitals `json:"vitals,omitempty"`

	Clock Reading `json:"clock"`
}

// A Reading is one of the process's own monotonic clock, from the start of the
// process, and one of the machine's at the same instant. Both are in
// nanoseconds.
type Reading struct {
	Own  int64 `json:"own"`
	True int64 `json:"true"`
}

// Vitals are what a process uses, after a garbage collection.
type Vitals struct {
	HeapBytes   int64 `json:"heap_bytes"`
	Goroutines  int64 `json:"goroutines"`
	Descriptors int64 `json:"descriptors"`
}

// Events reads a file of events. A last line that was cut off by the end of its
// process is left out.
func Events(r io.Reader) ([]Event, error) {
	var events []Event
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return events, err
		}
		events = append(events, e)
	}
}
