package steer

import (
	"context"
	"errors"
	"strconv"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/cmd/leader/internal/output"
)

// The outcomes of a command.
const (
	outcomeDone      = "done"
	outcomeFiled     = "filed"
	outcomeWithdrawn = "withdrawn"
	outcomeNothing   = "nothing-asked"
	outcomeOther     = "other-successor"
	outcomeTermOver  = "term-over"
	outcomeNoLeader  = "no-leader"
	outcomeTimeout   = "timeout"
	outcomeBroken    = "broken-off"
)

// outcomeOf is how a stored request ended. Another successor is distinguished
// from failure, since the leader did leave. Any other error means that it was
// broken off: by a signal, or since the record cannot be read any more.
func outcomeOf(err error) string {
	switch {
	case err == nil:
		return outcomeDone
	case errors.Is(err, leader.ErrNotSuccessor):
		return outcomeOther
	case errors.Is(err, leader.ErrTermOver):
		return outcomeTermOver
	case errors.Is(err, leader.ErrNoLeader):
		return outcomeNoLeader
	case errors.Is(err, context.DeadlineExceeded):
		return outcomeTimeout
	default:
		return outcomeBroken
	}
}

// A Leader is one of the two of a handover, as it is printed.
type Leader struct {
	ID      string `json:"id"`
	Term    uint64 `json:"term"`
	Address string `json:"address,omitempty"`
}

// A Result is what came of a request, as it is printed. The help of the
// commands documents it.
type Result struct {
	Operation leader.Operation `json:"operation"`
	Group     string           `json:"group"`
	By        string           `json:"by,omitempty"`
	Why       string           `json:"why,omitempty"`
	Outcome   string           `json:"outcome"`
	From      *Leader          `json:"from,omitempty"`
	To        *Leader          `json:"to,omitempty"`
	Reason    leader.Reason    `json:"reason,omitempty"`
	DrainMS   *float64         `json:"drain_ms,omitempty"`
	GapMS     *float64         `json:"gap_ms,omitempty"`
}

// leaderOf is a leader as it is printed, nil for nobody.
func leaderOf(info leader.LeaderInfo) *Leader {
	if info.ID == "" {
		return nil
	}
	return &Leader{ID: info.ID, Term: info.Term, Address: info.Address}
}

// cells are a leader's part of a row, empty for nobody.
func (l *Leader) cells() (id, term string) {
	if l == nil {
		return "", ""
	}
	return l.ID, strconv.FormatUint(l.Term, 10)
}

// resultOf is what is printed of a handover. Times are left out where they were
// not seen: 0 would be a time, and a good one.
func resultOf(h leader.Handover, outcome string) Result {
	r := Result{
		Operation: h.Request.Op, Group: h.Request.Group, By: h.Request.By, Why: h.Request.Why,
		Outcome: outcome, From: leaderOf(h.From), To: leaderOf(h.To), Reason: h.Vacancy.Reason,
	}
	// Not of a group that was vacant before the request.
	if h.Vacancy.Reason != "" && h.Drain > 0 {
		drain := inMilliseconds(h.Drain)
		r.DrainMS = &drain
	}
	if r.To != nil && h.Gap > 0 {
		gap := inMilliseconds(h.Gap)
		r.GapMS = &gap
	}
	return r
}

// tintOutcome is the tint of a cell below a head.
func tintOutcome(head, cell string) output.Tint {
	switch {
	case head != "OUTCOME":
		return output.Plain
	case cell == outcomeDone:
		return output.Good
	default:
		return output.Caution
	}
}

// report prints what came of a request.
func (d *desk) report(h leader.Handover, outcome string) error {
	r := resultOf(h, outcome)
	id, term := r.To.cells()
	was, wasTerm := r.From.cells()
	out := output.Result{
		Value: r,
		Head:  []string{"GROUP", "OUTCOME", "LEADER", "TERM", "GAP", "BEFORE", "DRAIN", "REASON", "TERM BEFORE", "BY", "WHY"},
		Wide:  7,
		Minor: []string{"BY", "TERM BEFORE", "REASON", "DRAIN"},
		Tint:  tintOutcome,
	}
	row := []string{r.Group, r.Outcome, id, term, "", was, "", string(r.Reason), wasTerm, r.By, r.Why}
	if r.GapMS != nil {
		row[4] = milliseconds(h.Gap)
	}
	if r.DrainMS != nil {
		row[6] = milliseconds(h.Drain)
	}
	out.Rows = [][]string{row}
	if id != "" {
		out.Names = []string{id}
	}
	return d.flags.Write(d.std.Out, out)
}
