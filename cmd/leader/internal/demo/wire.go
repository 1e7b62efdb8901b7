package demo

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/seed-ff2cb582/leader/cmd/leader/internal/natsconn"
)

// The demo and its workers talk in lines of JSON: first a spec and then orders
// go to the standard input of the worker, reports come from its standard
// output. A worker whose input ends is left alone by its demo, and exits at
// once.

// The rhythm of the reports, and how long a worker takes at most to stop.
const (
	tellEvery    = 20 * time.Millisecond // the samples of a leader
	statusEvery  = 100 * time.Millisecond
	stopPatience = 2 * time.Second
)

// A spec describes a worker to it. It goes through a pipe and not on the
// command line, since Conn may hold credentials, which every user of the
// machine could read there.
type spec struct {
	ID        string         `json:"id"`
	Conn      natsconn.Flags `json:"conn"`
	Store     string         `json:"store,omitempty"` // in place of Conn and Bucket
	Bucket    string         `json:"bucket"`
	Group     string         `json:"group"`
	TTL       time.Duration  `json:"ttl"`
	Heartbeat time.Duration  `json:"heartbeat"`
	Delay     time.Duration  `json:"delay"` // before it joins
	Fresh     bool           `json:"fresh"` // the server began with an empty directory
}

// An order is an order to a worker.
type order string

const (
	orderResign order = "resign"
	orderCut    order = "cut"
	orderHeal   order = "heal"
	orderStop   order = "stop" // release and exit
)

// A report is a message from a worker. Times are readings of monoNow.
type report struct {
	Kind reportKind `json:"kind"`
	At   int64      `json:"at"`

	// of reportTransition
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Reason string `json:"reason,omitempty"` // also of reportStatus
	Term   uint64 `json:"term,omitempty"`
	Leader string `json:"leader,omitempty"` // also of reportStatus

	// of reportNote and reportFailed
	Text string `json:"text,omitempty"`
	Note string `json:"note,omitempty"`

	Status  *status  `json:"status,omitempty"`
	Samples *samples `json:"samples,omitempty"`

	// of reportWoke: for how long the worker did not run, and IsLeader's first
	// answer
	Gap     time.Duration `json:"gap,omitempty"`
	Leading bool          `json:"leading,omitempty"`
}

type reportKind string

const (
	reportTransition reportKind = "transition"
	reportNote       reportKind = "note"
	reportStatus     reportKind = "status"
	reportSamples    reportKind = "samples"
	reportWoke       reportKind = "woke"
	reportFailed     reportKind = "failed" // the election could not begin, or an order failed
)

// A status is what a worker knows at one instant.
type status struct {
	State   string `json:"state"`
	Reason  string `json:"reason"`
	Leading bool   `json:"leading"`
	Leader  string `json:"leader"`
	Seen    uint64 `json:"seen"`    // the term that it last heard of
	Renewed int64  `json:"renewed"` // when the last acknowledged renewal left
	Until   int64  `json:"until"`   // the end of the trust window, if it leads
	Conn    string `json:"conn"`
}

// samples are answers of IsLeader.
type samples struct {
	Asked uint64     `json:"asked"`         // questions since the last report
	Run   uint64     `json:"run,omitempty"` // counts the unbroken runs of yes
	Term  uint64     `json:"term,omitempty"`
	Led   [][2]int64 `json:"led,omitempty"` // before and after, per yes of the run
}

// An outbox writes reports in order. To post never blocks: hooks of an election
// must not wait for a demo that is slow to read or suspended.
type outbox struct {
	mu     sync.Mutex
	queue  []report
	closed bool
	wake   chan struct{}
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// post appends a report. It never waits.
func (o *outbox) post(r report) {
	o.mu.Lock()
	o.queue = append(o.queue, r)
	o.mu.Unlock()
	o.signal()
}

// signal wakes write. A single token represents any number of reports.
func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// close has write return when all is written. Later reports are lost.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.signal()
}

// write writes what is posted until close, or until nobody reads any more. It
// takes the whole queue at a time, so that the lock is not held while the pipe
// is full.
func (o *outbox) write(w io.Writer) error {
	enc := json.NewEncoder(w)
	for range o.wake {
		o.mu.Lock()
		batch, closed := o.queue, o.closed
		o.queue = nil
		o.mu.Unlock()
		for _, r := range batch {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		if closed {
			return nil
		}
	}
	return nil
}
