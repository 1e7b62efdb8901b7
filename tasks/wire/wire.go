// Package wire defines the records and messages that dispatchers, workers and
// stores of package tasks exchange, with their limits, and the one rule about
// terms.
//
// Programs that hand out tasks do not need it; those that bring tasks over
// another transport or keep them in another store do. It needs the standard
// library alone.
package wire

import "time"

// A Term is the term of a leader as messages state it. The token is a secret
// among the leader and its workers.
type Term struct {
	Number uint64 `json:"n"` // the number of leader.Term
	Token  string `json:"t"` // the token of leader.Term
}

// Supersedes reports whether a worker whose newest term is last may accept an
// order of t: the rule of leader.Term.Supersedes.
func (t Term) Supersedes(last Term) bool {
	return t.Number > last.Number || t == last && t != Term{}
}

// A State is the stage that a task has reached.
type State string

// The states of a task. Done and Failed are final: a record in them never
// changes again.
const (
	Queued   State = "queued"
	Assigned State = "assigned"
	Done     State = "done"
	Failed   State = "failed"
)

// Finished reports whether the state is final.
func (s State) Finished() bool { return s == Done || s == Failed }

// A Target selects the workers that may be given a task. Its fields limit each
// other: a key with a label is hashed over the workers that have the label.
type Target struct {
	// Worker is the name of the only worker that may.
	Worker string `json:"worker,omitempty"`
	// Label is one that the worker must have.
	Label string `json:"label,omitempty"`
	// Key chooses the worker by rendezvous hashing: equal keys go to one
	// worker, and a worker that comes or goes moves only its own share.
	Key string `json:"key,omitempty"`
}

// A Record is a task as it is stored. Each change of it is a compare-and-swap.
type Record struct {
	// State is the stage that the task has reached.
	State State `json:"state"`
	// Payload is what the handler is given.
	Payload []byte `json:"payload,omitempty"`
	// To selects the workers that may be given the task.
	To Target `json:"to,omitzero"`
	// Timeout is how long one attempt may take.
	Timeout time.Duration `json:"timeout"`
	// MaxAttempts is how many attempts may fail or get lost.
	MaxAttempts int `json:"max_attempts"`
	// Backoff is the delay after the first attempt that failed. It doubles.
	Backoff time.Duration `json:"backoff,omitempty"`
	// Submitted is when the task was submitted, by the submitter's clock. It is
	// for people.
	Submitted time.Time `json:"submitted,omitzero"`

	// Term is the term of the leader that wrote the record, 0 for a submitter.
	Term uint64 `json:"term,omitempty"`
	// Attempt numbers the assignments. Each is made by one write, and so by one
	// term for one worker.
	Attempt int `json:"attempt,omitempty"`
	// Failures counts the attempts that failed or got lost.
	Failures int `json:"failures,omitempty"`
	// Worker and Run identify the worker to which the task is assigned, or was
	// at its end.
	Worker string `json:"worker,omitempty"`
	Run    string `json:"run,omitempty"`

	// Result is what the handler returned.
	Result []byte `json:"result,omitempty"`
	// Error is the reason why the latest attempt failed.
	Error string `json:"error,omitempty"`
}

// A Ref names an attempt of a task.
type Ref struct {
	ID      string `json:"id"` // the task's
	Attempt int    `json:"a"`  // the attempt in the task's record
}

// An Order gives an attempt to a worker.
type Order struct {
	Ref
	Payload []byte        `json:"p,omitempty"` // the payload in the task's record
	Timeout time.Duration `json:"d"`           // the timeout in the task's record
}

// ToWorker is a message of a leader. A worker that has seen a newer term obeys
// no part of it. A message with nothing except the term is a sign of life.
type ToWorker struct {
	// Term is the leader's.
	Term Term `json:"term"`
	// Run is the run of the worker that is meant, or empty for any.
	Run string `json:"run,omitempty"`
	// Call asks for the worker's presence, and for reports that were not
	// settled.
	Call bool `json:"call,omitempty"`
	// Orders begin attempts. Orders for what the worker has already are
	// answered with the report if there is one, and do nothing else.
	Orders []Order `json:"orders,omitempty"`
	// Revoked attempts are to end; their reports are not wanted.
	Revoked []Ref `json:"revoked,omitempty"`
	// Settled attempts are recorded, or count no more: the worker may forget
	// their reports.
	Settled []Ref `json:"settled,omitempty"`
}

// FromWorker is a message of a worker. Each shows that it lives.
type FromWorker struct {
	// Worker is the worker's name.
	Worker string `json:"worker"`
	// Run distinguishes the runs of a worker. Runs grow as strings, so that one
	// replaces another as soon as it is received.
	Run string `json:"run"`
	// Seen is the number of the newest term that the worker has seen, and
	// SeenToken its token.
	Seen      uint64 `json:"seen,omitempty"`
	SeenToken string `json:"seen_token,omitempty"`
	// Presence is the worker's capacity, if the message contains it.
	Presence *Presence `json:"presence,omitempty"`
	// Refused are orders that it does not carry out.
	Refused []Refusal `json:"refused,omitempty"`
	// Reports describe attempts that have ended.
	Reports []Report `json:"reports,omitempty"`
	// Leaving: the worker has ended, and holds nothing.
	Leaving bool `json:"leaving,omitempty"`
}

// Presence contains a worker's capacity and its attempts.
type Presence struct {
	// Labels are those by which a Target may choose the worker.
	Labels []string `json:"labels,omitempty"`
	// Capacity is how many attempts it can run at once, those counted that it
	// runs.
	Capacity int `json:"capacity"`
	// Lease is for how long the worker counts as there after a message.
	Lease time.Duration `json:"lease"`
	// Draining: it takes no more.
	Draining bool `json:"draining,omitempty"`
	// Held are the attempts that it runs, or whose reports are not settled.
	Held []Ref `json:"held,omitempty"`
}

// A Refusal turns down an order.
type Refusal struct {
	Ref
	Why Why `json:"why"` // it was turned down
}

// Why is the reason of a refusal.
type Why string

// The reasons for which a worker refuses an order.
const (
	Stale    Why = "stale"    // it has seen a newer term
	Full     Why = "full"     // it runs as many as it can
	Draining Why = "draining" // it takes no more
	Older    Why = "older"    // it has a later attempt of the task
)

// A Report describes how an attempt ended.
type Report struct {
	Ref
	// OK: the task is done, and Result is its result.
	OK     bool   `json:"ok,omitempty"`
	Result []byte `json:"result,omitempty"`
	// Error is the reason of a failure. Permanent: another attempt would not
	// help.
	Error     string `json:"error,omitempty"`
	Permanent bool   `json:"permanent,omitempty"`
}
