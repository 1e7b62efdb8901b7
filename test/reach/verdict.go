package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-ff2cb582/leader/leaderhttp"
	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

// figures are what a run has shown.
type figures struct {
	machine harness.Machine
	http    bool

	rate     int // of calls, in a second
	calls    int
	left     int      // calls that were not made, since too many waited
	failures []string // of calls that must not fail
	// violations are of what the journals must not show.
	violations []string
	runs       int            // of handlers
	refused    map[string]int // by what befell their leader, the calls that arrived there when another led

	broken                   int // calls sent to a leader that was killed, which failed and may
	brokenLate               int // the number of them that began when it was dead: the client had not noticed
	heldAnswered, heldFailed int // calls that a leader kept when it was killed
	gaveUp                   int // calls that a frozen leader kept until their time was up
	gaveUpElsewhere          int // the same, not sent to a frozen leader
	unsure                   int // calls that were given up while they waited for a connection, and may have been sent

	floor    harness.Samples // the longest wait of a call while nothing changes, before each of the others
	handover harness.Samples // from the call that stops a leader to its successor's promotion
	handed   harness.Samples // the longest wait of a call meanwhile
	beyond   harness.Samples // the difference
	failover harness.Samples // from SIGKILL to the successor's promotion
	crashed  harness.Samples // the longest wait around a crash
	frozen   harness.Samples // from SIGSTOP to the successor's promotion
	thawed   harness.Samples // the longest wait of a call that began when the client had seen the successor
	silent   harness.Samples // from the cut to the successor's promotion
	unheard  harness.Samples // the longest wait around it
}

// wrong lists forbidden events, and of each kind only the first few: where one
// call waits without success, thousands do.
func (f *figures) wrong() (lines []string) {
	const most = 10
	for what, all := range map[string][]string{"failed: ": f.failures, "violation: ": f.violations} {
		for _, line := range all[:min(most, len(all))] {
			lines = append(lines, what+line)
		}
		if more := len(all) - most; more > 0 {
			lines = append(lines, fmt.Sprintf("%s%d more", what, more))
		}
	}
	return lines
}

// judge judges the runs by the journals, and then the calls.
func (l *lab) judge(f *figures) error {
	visits, err := readJournals(l.journals)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	runs := map[int]int{}
	for _, v := range visits {
		if v.began == 0 {
			l.judgeRefusal(f, v)
			continue
		}
		f.runs++
		runs[v.number]++
		if p := deposedBy(v, l.promotions); p != nil {
			f.violate("%s ran call %d, which arrived %d ns after %s had started to lead", v.id, v.number, v.arrived-p.To, p.ID)
		} else if !ledBefore(v, l.promotions) {
			f.violate("%s ran call %d, and had never led", v.id, v.number)
		}
	}
	f.left = l.load.left
	for _, c := range l.load.total() {
		f.calls++
		l.judgeCall(f, c, runs[c.number])
	}
	for _, p := range l.held {
		<-p.done
		f.judgeHeld(p, runs[p.number])
	}
	return nil
}

// judgeRefusal counts a call that an instance refused which had led before, and
// another did since.
func (l *lab) judgeRefusal(f *figures, v visit) {
	v.began = v.arrived
	if deposedBy(v, l.promotions) == nil {
		return
	}
	for _, s := range slices.Backward(l.faults) {
		if s.id == v.id && v.arrived >= s.succeeded {
			f.refused[s.kind]++
			return
		}
	}
}

// judgeCall judges a call of the load that handlers ran so many times.
func (l *lab) judgeCall(f *figures, c *call, runs int) {
	if runs > 1 && !c.repeatable {
		f.violate("call %d ran %d times, and may not be repeated", c.number, runs)
	}
	if c.err == nil {
		if runs == 0 {
			f.violate("%s answered call %d, and nobody noted that it ran", c.by, c.number)
		}
		return
	}
	late := errors.Is(c.err, context.DeadlineExceeded) || status.Code(c.err) == codes.DeadlineExceeded
	at := l.suffered(c.where())
	switch {
	case c.impatient && late && at != nil && at.kind == frozen:
		f.gaveUp++
	case c.impatient && late:
		f.gaveUpElsewhere++ // the machine is slow
	case errors.Is(c.err, leaderhttp.ErrGivenUp):
		f.unsure++ // the same: no host is gone, so it has a connection in time
	case at != nil && at.kind == killed && c.began.Before(at.seen) && !f.repeats(c):
		f.broken++
		if c.began.After(at.dead) {
			f.brokenLate++
		}
	default:
		f.failures = append(f.failures, fmt.Sprintf("call %d, sent to %q last: %v", c.number, c.where(), c.err))
	}
}

// repeats reports whether the client repeats a call whose connection breaks.
// That of HTTP does so by a connection that has carried something.
func (f *figures) repeats(c *call) bool { return c.repeatable && !(f.http && c.fresh.Load()) }

// judgeHeld judges a call that was under way on a leader that was killed.
func (f *figures) judgeHeld(p *pending, runs int) {
	switch {
	case f.repeats(p.call) && (p.err != nil || p.by == p.to):
		f.violate("call %d, which may be repeated, was under way on %s when that was killed, and was not answered by another: %q, %v", p.number, p.to, p.by, p.err)
	case !p.repeatable && (p.err == nil || runs != 1):
		f.violate("call %d, which may not be repeated, was under way on %s when that was killed, ran %d times, and was answered by %q: %v", p.number, p.to, runs, p.by, p.err)
	case p.repeatable:
		f.heldAnswered++
	default:
		f.heldFailed++
	}
}

func (f *figures) violate(format string, args ...any) {
	f.violations = append(f.violations, fmt.Sprintf(format, args...))
}
