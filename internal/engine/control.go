package engine

import (
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// control is what the loop knows of the group's control record.
type control struct {
	last     *record.Control // the latest that could be read, nil if that asks for nothing
	revision uint64          // of the one that was delivered last
	// informBy is when the election goes on without knowing the control record
	// (monotonic), 0 if there is no limit. The watch delivers the control
	// record; this candidate may lack the right to read it.
	informBy int64
}

// uninformedUntil is when a candidate that has just started campaigns although
// it has not read the control record: one TTL after its watch began, since it
// may lack the right to read it (docs/reference/protocol.md).
func (l *loop) uninformedUntil() int64 {
	if l.control.informBy == 0 || l.state.Barred&machine.Uninformed == 0 {
		return machine.Never
	}
	return l.control.informBy
}

// observeControl takes in the control record. Its request is kept for obey: one
// for a term whose acknowledgement is still on its way is meant for us, though
// we do not know it yet.
func (l *loop) observeControl(entry store.Entry) {
	c, ok := record.ReadControl(entry)
	again := entry.Revision == l.control.revision // a poll repeats an entry that was judged already
	l.control.revision = entry.Revision
	if !ok {
		l.malformed(again)
		return
	}
	l.pause(c.Paused)
	// A request is heard once, or a poll would have it granted with each look.
	if !again {
		l.control.last = nil
		if c != (record.Control{}) {
			l.control.last = &c
		}
		l.hear(c.Stand)
		l.takeover.overhear(c.Stand, l.now())
	}
	// Last, since a group that is paused is not to be campaigned for.
	l.unbar(machine.Uninformed)
}

// malformed takes in that the control record cannot be read. That changes
// nothing of what is known. A candidate that knows nothing yet campaigns after a
// TTL, as one does that may not read the record.
func (l *loop) malformed(again bool) {
	if again {
		return
	}
	text := "the control record cannot be read, and is ignored"
	if l.state.Barred&machine.Paused != 0 {
		text = "the control record cannot be read: this candidate stays paused, and those that start from now on do not know of the pause. Pause the group again"
	}
	l.note(Note{At: time.Now(), Kind: NoteMalformed, Text: text})
}

// pause bars the candidate while a pause is in force, which makes a holder
// leave, too. A pause over a pause changes nothing: the reason is the first
// pause's.
func (l *loop) pause(p *record.Pause) {
	switch {
	case p == nil:
		l.unbar(machine.Paused)
	case l.state.Barred&machine.Paused == 0:
		l.step(&machine.Event{
			Kind: machine.Bar, Bars: machine.Paused, Exit: machine.Exit{Reason: machine.ReasonPaused, By: p.By, Why: p.Reason},
		})
	}
}

//
//go:noinline
func (l *loop) unbar(b machine.Bars) {
	if l.state.Barred&b != 0 {
		l.step(&machine.Event{Kind: machine.Unbar, Bars: b})
	}
}

// obey puts the latest request to the core if it is meant for the present term.
// There it ends the term, so that it is obeyed once.
func (l *loop) obey() {
	last := l.control.last
	if last == nil {
		return
	}
	if req := &last.Request; !req.Known() || l.state.Phase != machine.Holding || l.state.Grant.Term != req.Term {
		return
	}
	l.grant(last)
}

// grant puts a request for the present term to the core. The holder alone
// judges it: a request proves nothing of who wrote it, and at worst has the
// group change its leader.
func (l *loop) grant(last *record.Control) {
	req := &last.Request
	x := machine.Exit{Reason: machine.ReasonSteppedDown, By: req.By, Why: req.Reason}
	switch req.Op {
	case record.OpTransfer:
		x.Reason, x.Successor = machine.ReasonTransferred, req.Successor
	case record.OpBalance:
		// A lone election has nothing to compare.
		if s := l.cfg.Supervisor; s != nil && !s.Gives(req.Have) {
			last.Request = record.Request{} // refused now, and not to be granted when things have changed
			return
		}
		x.Reason, x.Successor = machine.ReasonBalanced, req.Successor
	}
	l.step(&machine.Event{Kind: machine.Asked, Term: req.Term, Exit: x})
}

// hear records a candidate's priority, which the candidate sent to this leader.
// The leader's next renewal shows it to all, so that each knows which
// candidates go first.
func (l *loop) hear(s *record.Stand) {
	if s == nil || l.state.Phase != machine.Holding || s.Term != l.state.Grant.Term || s.ID == l.cfg.InstanceID {
		return
	}
	l.known = l.known.Heard(l.cfg.VersionPolicy, standingOf(s))
	// Not while it cools down: it does not lead yet. Its successor would cool
	// down again, and might be asked in its turn, without any leader in
	// between.
	if l.state.Grant.Promoted && l.grants(s, l.since, l.now()) {
		l.step(&machine.Event{Kind: machine.Asked, Term: s.Term, Exit: machine.Exit{
			Reason: machine.ReasonOutranked, By: s.ID, Successor: s.ID,
		}})
	}
}
