package leader

import (
	"context"
	mrand "math/rand/v2"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A nomination is how a follower makes itself known to the others as the one to
// succeed a leader that has fallen silent. Without it, hundreds of followers would
// claim the record when the lease has run out, before the news of the first claim
// could reach them. Nothing depends on its being heard.
type nomination struct {
	revision uint64 // of the leader's record that it is about
	at       int64  // when this candidate nominates itself (monotonic)
	done     bool   // for this revision
	heard    record.Nomination
	stop     func() // listening; nil while nobody does
	deaf     bool   // the store lets us hear nothing
}

// mostHeard is how many nominations a candidate hears at the most, for one record.
// Where hundreds nominate themselves because none of them hears in time, on a
// machine that is overloaded, hearing them all would overload it further.
const mostHeard = 8

// silence is when a leader counts as silent that has not been heard of since the
// instant seen, so that it is worth while to listen for nominations: a renewal is
// late by then, and the first nomination is yet to come.
func silence(seen int64, s machine.State) int64 { return seen + int64(s.HeldTTL/2) }

// nominationDue is when the loop is to look again.
func (l *loop) nominationDue() int64 {
	n := &l.nomination
	switch {
	case n.revision == 0 || n.done || n.deaf || n.at == machine.Never:
		return machine.Never
	case n.stop == nil:
		return silence(l.state.ViewAt, l.state)
	default:
		return n.at
	}
}

// considerNomination plans a nomination against the record that was just seen, and
// carries out what is due of it.
func (l *loop) considerNomination() {
	n, now := &l.nomination, l.e.clock.now().Mono
	l.planNomination(now)
	if now >= l.nominationDue() {
		l.listen()
	}
	if now >= l.nominationDue() {
		n.done = true
		l.nominate(now)
	}
}

// planNomination draws when this candidate is to nominate itself, once for each
// record. It is never in the past: when a bar falls for hundreds at once, they are
// not to nominate themselves at once.
func (l *loop) planNomination(now int64) {
	n, rev := &l.nomination, l.state.View.Rev
	if rev != n.revision {
		n.revision, n.at, n.done = rev, machine.Never, false
		l.unlisten()
	}
	if n.done || n.at != machine.Never || l.e.seat.chooses() {
		return
	}
	n.at = l.rules.NominateAt(l.state, mrand.Uint64())
	n.done = n.at < now
}

// chooses reports whether a manager decides, when a role is free, whether its
// instance is to have it.
func (s *seat) chooses() bool { return s != nil && (s.m.cfg.Spread.Enabled || s.m.cfg.MaxRoles > 0) }

// listen begins to hear who is nominated. Only who does so nominates itself: it would
// else be followed, and not know it.
func (l *loop) listen() {
	n := &l.nomination
	if n.stop != nil || n.deaf {
		return
	}
	st, ok := l.e.store.(store.Broadcaster)
	if ok {
		var err error
		if n.stop, err = l.e.listen(st); err != nil {
			n.stop = nil
		}
	}
	n.deaf = n.stop == nil
}

// unlisten ends that. It does not wait for the store, which may be busy, since a term
// may be about to begin.
func (l *loop) unlisten() {
	if stop := l.nomination.stop; stop != nil {
		l.nomination.stop = nil
		l.spawn("the end of listening", stop)
	}
}

// endListening is unlisten at the end of the election.
func (l *loop) endListening() {
	if stop := l.nomination.stop; stop != nil {
		l.nomination.stop = nil
		stop()
	}
}

// nominate tells the others that this candidate goes first, if it would still claim, and
// enough is left of the lease for them to hear of it.
func (l *loop) nominate(now int64) {
	s, cfg := l.state, l.e.cfg
	st, ok := l.e.store.(store.Broadcaster)
	if !ok || now >= s.ViewAt+int64(s.HeldTTL) || l.rules.NominateAt(s, 0) == machine.Never {
		return
	}
	text, err := record.Nomination{Nominee: cfg.InstanceID, Revision: l.nomination.revision}.Encode()
	if err != nil {
		return
	}
	l.spawn("nomination", func() {
		ctx, cancel := context.WithTimeout(l.ctx, cfg.ConnectionTimeout)
		defer cancel()
		_ = l.e.broadcast(ctx, st, text) // if it fails, nobody is nominated
	})
}

// hear takes in a nomination.
func (n *nomination) hear(said record.Nomination) {
	if said.Replaces(n.heard) {
		n.heard = said
	}
}

// takeTurn takes in who goes first when the lease of the record that was seen last
// runs out. The nomination and the record may come in any order.
func (l *loop) takeTurn() {
	heard, seen := l.nomination.heard, l.state.View
	turn := machine.TheirTurn
	if heard.Nominee == l.e.cfg.InstanceID {
		turn = machine.OurTurn
	}
	if heard.Revision != seen.Rev || seen.Rev == 0 || seen.Turn == turn || l.state.Phase != machine.Watching {
		return
	}
	seen.Turn = turn
	l.step(machine.Event{Kind: machine.Sight, Seen: seen})
}
