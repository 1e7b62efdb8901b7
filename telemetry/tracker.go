package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store"
)

// A Sink receives the measurements of one election. The labels are the values
// of the labels that the metric's [Definition] names, in its order. Two
// goroutines call a Sink, the election's and its callbacks', so it must be safe
// for concurrent use; the election waits for it, so it must not block.
type Sink interface {
	// Add counts one more.
	Add(counter Metric, labels ...string)
	// Observe adds an observation, in the metric's unit.
	Observe(histogram Metric, value float64, labels ...string)
}

// A Tracker turns what one election does into measurements. Make one with
// [Track].
type Tracker struct {
	election leader.Election
	sink     Sink
	window   time.Duration
	term     atomic.Uint64

	// The following belongs to the election's goroutine.

	// promoted is when the present term began.
	promoted time.Time
	// claim is the correlation of the claim or term that sent and unanswered
	// are about.
	claim string
	// sent is when the write left from which the trust window counts; zero if
	// none was acknowledged.
	sent time.Time
	// unanswered is when the first of the writes left that have had no answer
	// since; zero without any.
	unanswered time.Time
}

// Track returns a tracker that measures e into sink. The arguments e and cfg
// are those that [leader.Hooks.PerElection] receives: cfg has its defaults
// filled in. The tracker measures once e has been given its Hooks.
func Track(e leader.Election, cfg leader.ElectionConfig, sink Sink) *Tracker {
	return &Tracker{election: e, sink: sink, window: machine.Trust(cfg.TTL, cfg.ClockDrift)}
}

// Hooks returns the hooks by which the tracker hears of the election.
func (t *Tracker) Hooks() leader.Hooks {
	return leader.Hooks{Transition: t.transition, Call: t.call, Note: t.note, Callback: t.callback}
}

// Gauges calls tell with the value of each gauge at this instant. It leaves out
// a gauge that has none, such as Barred while nothing bars the candidate. It
// may be called by any goroutine.
func (t *Tracker) Gauges(tell func(gauge Metric, value float64, labels ...string)) {
	s := t.election.Status()
	tell(IsLeader, number(s.IsLeader))
	tell(ConnectionStatus, number(s.ConnectionStatus == store.Connected.String()))
	remaining := 0.0
	if s.IsLeader {
		remaining = max(0, time.Until(s.TrustUntil).Seconds())
	}
	tell(TrustRemaining, remaining)
	tell(TrustWindow, t.window.Seconds())
	tell(Term, float64(t.latest(s.LeaderTerm)))
	if s.Barred != "" {
		tell(Barred, 1, string(s.Barred))
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// latest records a term's number, 0 if none is known at present, and returns
// the largest so far: a vacancy does not change the term.
func (t *Tracker) latest(term uint64) uint64 {
	for {
		known := t.term.Load()
		if term <= known {
			return known
		}
		if t.term.CompareAndSwap(known, term) {
			return term
		}
	}
}

func (t *Tracker) transition(tr leader.Transition) {
	t.latest(max(tr.LeaderTerm, tr.Term.Number))
	t.sink.Add(Transitions, tr.From, tr.To)
	if tr.To == leader.StateLeader {
		t.promoted = tr.At
	}
	if tr.From == leader.StateLeader {
		t.sink.Add(TermsEnded, string(tr.Reason))
		t.sink.Observe(LeaderDuration, t.led(tr.At).Seconds())
	}
}

// led is how long the term lasted whose end was noticed at that time. A process
// that was stalled notices late, and did not lead meanwhile.
func (t *Tracker) led(noticed time.Time) time.Duration {
	end := noticed
	if trusted := t.sent.Add(t.window); !t.sent.IsZero() && trusted.Before(end) {
		end = trusted
	}
	return max(0, end.Sub(t.promoted))
}

func (t *Tracker) call(c leader.Call) {
	status := c.Outcome.String()
	switch c.Kind {
	case "renew":
		t.sink.Observe(HeartbeatDuration, c.Took.Seconds(), status)
		if c.Outcome == store.OK {
			t.sink.Observe(RenewalMargin, t.margin(c.Sent.Add(c.Took)))
		}
		t.recordWrite(c)
	case "acquire":
		t.sink.Add(AcquireAttempts, status)
		t.recordWrite(c)
	}
	if failed(c) {
		t.sink.Add(Failures, status)
	}
}

// failed reports whether a call counts as failed. A conflict is the ordinary
// end of a lost race, and trouble only for the holder, whose record nobody else
// ought to write.
func failed(c leader.Call) bool {
	switch c.Outcome {
	case store.OK:
		return false
	case store.Conflict:
		return c.Kind == "renew" || c.Kind == "release"
	default:
		return true
	}
}

// recordWrite takes in what a write means for the trust window.
func (t *Tracker) recordWrite(c leader.Call) {
	if c.Correlation != t.claim {
		t.claim, t.sent, t.unanswered = c.Correlation, time.Time{}, time.Time{}
	}
	// A write whose answer was lost may have been seen in the record before it
	// was given up.
	seen := t.election.Status().LastHeartbeat
	switch {
	case c.Outcome == store.OK:
		t.sent, t.unanswered = c.Sent, time.Time{}
	case seen.After(t.sent):
		t.sent, t.unanswered = seen, time.Time{}
	case c.Outcome == store.Unknown && t.unanswered.IsZero():
		t.unanswered = c.Sent
	}
}

// margin is the share of the window that was left when an acknowledgement came.
func (t *Tracker) margin(acknowledged time.Time) float64 {
	return max(0, 1-acknowledged.Sub(t.sent).Seconds()/t.window.Seconds())
}

func (t *Tracker) note(n leader.Note) {
	switch n.Kind {
	case leader.NoteBadToken:
		t.sink.Add(TokenValidationFailures)
	case leader.NoteLostRace:
		t.sink.Add(Contention)
	case leader.NoteResolved:
		t.sink.Add(Resolutions, n.Call)
		if n.Call != "release" && !t.unanswered.IsZero() {
			// The window counts from when the write left, whenever it was found
			// to have been applied.
			t.sent, t.unanswered = t.unanswered, time.Time{}
		}
	case leader.NoteRegressed, leader.NoteOverrun, leader.NoteGaveUp, leader.NoteNotReady, leader.NotePanic, leader.NoteTakeover,
		leader.NoteMalformed:
		t.sink.Add(Failures, n.Kind)
	}
}

func (t *Tracker) callback(c leader.Callback) {
	t.sink.Observe(CallbackDuration, c.Took.Seconds(), c.Kind)
}
