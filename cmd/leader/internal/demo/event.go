package demo

import (
	"fmt"
	"strings"
	"time"
)

// An Event is something that happened. The three ways to watch a demo show the
// same events: the view's log and --plain show String, --json shows the fields.
type Event struct {
	T      float64   `json:"t"`     // seconds since the start of the demo, when it happened
	Kind   EventKind `json:"event"` // what happened; the kinds determine which other fields are set
	Worker string    `json:"worker,omitempty"`
	From   string    `json:"from,omitempty"`   // a state, or the leader before
	To     string    `json:"to,omitempty"`     // a state, or the leader after
	Reason string    `json:"reason,omitempty"` // as leader.Reason
	Term   uint64    `json:"term,omitempty"`
	Fault  Fault     `json:"fault,omitempty"`
	// Took is in milliseconds: from the fault to the promotion that ended it,
	// or how long a worker did not run.
	Took float64 `json:"ms,omitempty"`
	// Gap is in milliseconds: from the last instant at which the old leader was
	// seen to lead to the promotion of the new one.
	Gap     float64  `json:"gap_ms,omitempty"`
	Seen    bool     `json:"-"` // Gap is known
	Text    string   `json:"text,omitempty"`
	URL     string   `json:"url,omitempty"`
	Bucket  string   `json:"bucket,omitempty"`
	Group   string   `json:"group,omitempty"`
	Workers int      `json:"workers,omitempty"`
	PID     int      `json:"pid,omitempty"`
	Summary *Summary `json:"summary,omitempty"`
}

// An EventKind is a kind of event.
type EventKind string

// The kinds of events, and the fields that they have in addition to t and
// event.
const (
	EventBegin      EventKind = "begin"       // url, bucket, group, workers, text (the TTL and so on)
	EventJoin       EventKind = "join"        // worker, pid: its process started
	EventExit       EventKind = "exit"        // worker, text: its process ended by itself
	EventTransition EventKind = "transition"  // worker, from, to, reason, term (if one began or ended)
	EventFault      EventKind = "fault"       // fault, worker (who it hits), term (that ran), text (the member of a kill)
	EventHealed     EventKind = "healed"      // fault, worker, text: the fault is over
	EventFailover   EventKind = "failover"    // fault, from, to, term, reason, ms, gap_ms: a new leader
	EventKept       EventKind = "kept"        // fault, worker, term: the leader outlived the fault
	EventWoke       EventKind = "woke"        // worker, ms, text: it had not run for that long
	EventNote       EventKind = "note"        // text, worker (if it is about one)
	EventTwoLeaders EventKind = "two-leaders" // text: the proof
	EventEnd        EventKind = "end"         // summary
)

// A Summary is what a demo saw.
type Summary struct {
	Seconds    float64   `json:"seconds"`
	Terms      int       `json:"terms"` // that somebody led
	Outcomes   []Outcome `json:"faults"`
	Samples    uint64    `json:"samples"`     // questions to IsLeader
	TwoLeaders uint64    `json:"two_leaders"` // instants at which two workers led
}

// An Outcome is what became of one fault.
type Outcome struct {
	Fault  Fault   `json:"fault"`
	T      float64 `json:"t"` // when, in seconds
	Worker string  `json:"worker"`
	Term   uint64  `json:"term"` // that ran
	Kept   bool    `json:"kept"` // the leader outlived it
	// Late: it hit nobody, since another than Worker led already. Failed is why
	// it could not be done.
	Late   bool   `json:"late,omitempty"`
	Failed string `json:"failed,omitempty"`
	// Its effect; empty if the demo ended before. Times are in milliseconds, as
	// in Event.
	Leader   string  `json:"leader,omitempty"`
	NextTerm uint64  `json:"next_term,omitempty"`
	Reason   string  `json:"reason,omitempty"` // of the promotion
	Took     float64 `json:"ms,omitempty"`
	Gap      float64 `json:"gap_ms,omitempty"`
	Seen     bool    `json:"-"` // Gap is known
}

// String is a sentence, without the time.
func (e Event) String() string {
	switch e.Kind {
	case EventBegin:
		where := e.URL
		if e.Bucket != "" {
			where = "bucket " + e.Bucket + " on " + e.URL
		}
		return fmt.Sprintf("%s, group %s, %s, %s", plural(e.Workers, "worker"), e.Group, where, e.Text)
	case EventJoin:
		return fmt.Sprintf("%s joins (process %d)", e.Worker, e.PID)
	case EventExit:
		return fmt.Sprintf("%s is gone: %s", e.Worker, e.Text)
	case EventTransition:
		return e.transition()
	case EventFault:
		return faultSentence(e.Fault, e.Worker, e.Text)
	case EventHealed:
		return e.Text
	case EventFailover:
		if e.From == "" {
			return fmt.Sprintf("%s leads, %s after the %s, at which nobody led", e.To, ms(e.Took), e.Fault)
		}
		return fmt.Sprintf("%s leads after %s, %s after the %s (%s)", e.To, e.From, ms(e.Took), e.Fault, strings.TrimSpace(gap(e.Seen, e.Took, e.Gap)))
	case EventKept:
		return fmt.Sprintf("%s outlived the %s and keeps term %d", e.Worker, e.Fault, e.Term)
	case EventWoke:
		return fmt.Sprintf("%s had not run for %s; %s", e.Worker, ms(e.Took), e.Text)
	case EventTwoLeaders:
		return "TWO LEADERS: " + e.Text
	case EventEnd:
		return e.Summary.String()
	default:
		return strings.TrimPrefix(e.Worker+": "+e.Text, ": ")
	}
}

func (e Event) transition() string {
	s := fmt.Sprintf("%s %s → %s (%s)", e.Worker, e.From, e.To, e.Reason)
	if e.Term != 0 {
		s += fmt.Sprintf(" term %d", e.Term)
	}
	return s
}

func faultSentence(f Fault, worker, member string) string {
	switch f {
	case Crash:
		return fmt.Sprintf("crash: %s is killed (SIGKILL), nothing is released", worker)
	case Freeze:
		return fmt.Sprintf("freeze: %s is stopped in mid-run (SIGSTOP)", worker)
	case Cut:
		return fmt.Sprintf("cut: nothing passes between %s and the server", worker)
	case Resign:
		return fmt.Sprintf("resign: %s is asked to step back", worker)
	case Delete:
		return fmt.Sprintf("delete: the key is deleted under %s, as by nats kv del", worker)
	case Restart:
		return "restart: the server goes down under " + somebody(worker)
	case Kill:
		return fmt.Sprintf("kill: member %s goes down under %s", member, somebody(worker))
	default:
		return string(f)
	}
}

// String returns the summary as lines of text.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.1f s, %s, %s", s.Seconds, plural(s.Terms, "term"), plural(len(s.Outcomes), "fault"))
	for _, o := range s.Outcomes {
		fmt.Fprintf(&b, "\n  %-8s %s", o.Fault, o)
	}
	fmt.Fprintf(&b, "\n  instants with two leaders: %d (of %s samples)", s.TwoLeaders, thousands(s.Samples))
	return b.String()
}

// String describes the outcome of the fault.
func (o Outcome) String() string {
	switch {
	case o.Failed != "":
		return fmt.Sprintf("%-5s was not hit: %s", o.Worker, o.Failed)
	case o.Late:
		return fmt.Sprintf("%-5s was not hit: %s led already", o.Worker, o.Leader)
	case o.Kept:
		return fmt.Sprintf("%-5s kept its term", o.Worker)
	case o.Leader == "":
		return fmt.Sprintf("%-5s had no successor by the end", somebody(o.Worker))
	case o.Worker == "":
		return fmt.Sprintf("nobody → %-4s after %8s (%s)", o.Leader, ms(o.Took), o.Reason)
	default:
		return fmt.Sprintf("%-5s → %-5s after %8s, %s (%s)", o.Worker, o.Leader, ms(o.Took), gap(o.Seen, o.Took, o.Gap), o.Reason)
	}
}

// gap describes for how long nobody led. It counts from the last sample of the
// previous leader; a leader that was held up was not sampled and may have led
// on.
func gap(known bool, took, gap float64) string {
	switch {
	case !known:
		return "for how long nobody led is not known"
	case gap > took+sparse:
		return fmt.Sprintf("at most %s without a leader", ms(gap))
	default:
		return fmt.Sprintf("%8s without a leader", ms(gap))
	}
}

// sparse is how far the samples of a leader that was killed may end before its
// end, in milliseconds. They are reported each tellEvery (20 ms), and later on
// a busy machine.
const sparse = 50

func somebody(worker string) string {
	if worker == "" {
		return "nobody"
	}
	return worker
}

func ms(f float64) string {
	switch {
	case f < 10:
		return fmt.Sprintf("%.1f ms", f)
	case f < 10_000:
		return fmt.Sprintf("%.0f ms", f)
	default:
		return fmt.Sprintf("%.1f s", f/1000)
	}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func thousands(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
