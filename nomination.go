package leader

import (
	"context"
	mrand "math/rand/v2"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A nomination is how a follower makes itself known, through the control record, as
// the one to succeed a leader that has fallen silent. Without it, hundreds of
// followers would claim the record when the lease has run out, before the
// news of the first claim could reach them. Nothing depends on its being heard.
type nomination struct {
	revision uint64 // of the leader's record that it is about
	at       int64  // when it is due (monotonic)
	done     bool   // for this revision
	// heard: the control record is known, as it stood at the revision over.
	heard bool
	over  uint64
	// refused is until when nothing is written (monotonic), since that was refused for good.
	refused int64
}

func (n *nomination) due() int64 {
	if n.revision == 0 || n.done {
		return machine.Never
	}
	return n.at
}

// considerNomination plans a nomination against the record that was just seen. The
// instant is drawn once for each record, and never in the past: when a bar falls
// for hundreds at once they are not to nominate themselves at once.
func (l *loop) considerNomination() {
	n, rev := &l.nomination, l.state.View.Rev
	if rev != n.revision {
		n.revision, n.at, n.done = rev, machine.Never, false
	}
	if n.done || n.at != machine.Never {
		return
	}
	n.at = l.rules.NominateAt(l.state, mrand.Uint64())
	n.done = n.at < l.e.clock.now().Mono
}

// mayNominate reports whether this candidate would be heard as a nominee, and would
// claim.
func (l *loop) mayNominate(now int64) bool {
	n, s := &l.nomination, l.state
	_, watches := l.e.store.(store.Watcher)
	runs := now < s.ViewAt+int64(s.HeldTTL) // what is left of the lease is for the others to hear of it
	known := n.heard && n.over == l.controlled
	return watches && runs && known && !l.e.seat.chooses() && now >= n.refused && l.rules.NominateAt(s, 0) != machine.Never
}

// chooses reports whether a manager decides, when a role is free, whether its
// instance is to have it.
func (s *seat) chooses() bool { return s != nil && (s.m.cfg.Spread.Enabled || s.m.cfg.MaxRoles > 0) }

// nominate writes the nomination if it is due: once, on the control record as it is
// known. If that stands otherwise by now, another was faster.
func (l *loop) nominate() {
	n, cfg, now := &l.nomination, l.e.cfg, l.e.clock.now().Mono
	if now < n.due() {
		return
	}
	n.done = true
	if !l.mayNominate(now) {
		return
	}
	next, over := l.control, n.over
	next.Nominee = &record.Nominee{ID: cfg.InstanceID, Revision: n.revision}
	l.spawn("nomination", func() {
		ctx, cancel := context.WithTimeout(l.ctx, cfg.ConnectionTimeout)
		defer cancel()
		err := writeControl(ctx, l.e.sheltered(), record.ControlKey(cfg.Group), over, next)
		l.e.mail.put(letter{nominated: &err})
	})
}

// nominated takes in how a nomination ended. What became of it, the watch says.
func (l *loop) nominated(err error) {
	if store.Classify(err) != store.Permanent {
		return
	}
	l.nomination.refused = l.e.clock.now().Mono + int64(refusedFor)
	l.report(Note{At: time.Now(), Kind: NoteBid, Text: "the candidate could not nominate itself for the succession: " + err.Error()})
}

// takeTurn takes in who goes first when the lease of the record that was seen last
// runs out. The nomination and the record may come in any order.
func (l *loop) takeTurn() {
	n, seen := l.control.Nominee, l.state.View
	if n == nil || n.Revision != seen.Rev || seen.Turn != machine.AnyTurn || l.state.Phase != machine.Watching {
		return
	}
	seen.Turn = machine.TheirTurn
	if n.ID == l.e.cfg.InstanceID {
		seen.Turn = machine.OurTurn
	}
	l.step(machine.Event{Kind: machine.Sight, Seen: seen})
}
