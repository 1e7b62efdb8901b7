package engine

import (
	mrand "math/rand/v2"

	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
)

// A nomination is how a follower makes itself known to the others as the one to
// succeed a leader that has fallen silent. Without it, hundreds of followers
// would claim the record when the lease has run out, before the news of the
// first claim could reach them. Nothing depends on its being heard.
type nomination struct {
	env      *env
	revision uint64 // of the leader's record that it is about
	at       int64  // when this candidate nominates itself (monotonic)
	heard    record.Nomination
	listener *listener // nil while nobody listens
	done     bool      // for this revision
	// cannotListen: the store lets us hear nothing.
	cannotListen bool
}

// A listener hears nominations.
type listener struct {
	stop  func()
	endAt int64 // when it is to end (monotonic): Never while the leader is silent
}

// mostHeard bounds the nominations that a candidate hears for one record. On an
// overloaded machine hundreds nominate themselves unheard. Hearing them all
// would overload it further.
const mostHeard = 8

// silence is when a leader counts as silent, so that it is worth while to
// listen for nominations: a renewal is late by then, and the first nomination
// is yet to come.
func silence(s *machine.State) int64 { return s.ViewAt + int64(s.HeldTTL/2) }

// due is when the loop is to look again.
func (n *nomination) due(s *machine.State) int64 {
	switch {
	case n.listener != nil && n.listener.endAt != machine.Never:
		return n.listener.endAt
	case n.revision == 0 || n.done || n.cannotListen || n.at == machine.Never:
		return machine.Never
	case n.listener == nil:
		return silence(s)
	default:
		return n.at
	}
}

// consider plans a nomination against the record that was just seen, and
// carries out what is due of it.
func (n *nomination) consider(rules *machine.Machine, s *machine.State, now int64) {
	n.plan(rules, s, now)
	if n.listener != nil && now >= n.listener.endAt {
		n.unlisten()
	}
	if now >= n.due(s) {
		n.listen()
	}
	if now >= n.due(s) {
		n.done = true
		n.nominate(rules, s, now)
	}
}

// plan draws when this candidate is to nominate itself, once for each record.
// That is never in the past: when a bar falls for hundreds at once, they are
// not to nominate themselves at once.
func (n *nomination) plan(rules *machine.Machine, s *machine.State, now int64) {
	if rev := s.View.Rev; rev != n.revision {
		n.revision, n.at, n.done = rev, machine.Never, false
		n.scheduleEnd(s, now)
	}
	if n.at != machine.Never || n.env.chooses() {
		return
	}
	n.at = rules.NominateAt(s, mrand.Uint64())
	n.done = n.at < now
}

// chooses reports whether a supervisor decides, when a role is free, whether
// its instance is to have it.
func (e *env) chooses() bool { return e.cfg.Supervisor != nil && e.cfg.Supervisor.Chooses() }

// listen begins to hear who is nominated. Only who does so nominates itself: it
// would else be followed, and not know it.
func (n *nomination) listen() {
	if n.listener != nil || n.cannotListen {
		return
	}
	if st, ok := n.env.store.st.(store.Broadcaster); ok {
		if stop, err := n.env.store.listen(st, n.env.cfg.Group, mostHeard, n.deliver); err == nil {
			n.listener = &listener{stop, machine.Never}
		}
	}
	n.cannotListen = n.listener == nil
}

// scheduleEnd plans the end of listening, after another record was seen. It
// does not end at once: a thousand followers would be busy with that just as
// the claim's news and its acknowledgement are on their way. The delay is short
// enough to end before the next leader can fall silent.
func (n *nomination) scheduleEnd(s *machine.State, now int64) {
	if n.listener != nil && n.listener.endAt == machine.Never {
		part := int64(s.HeldTTL / 8)
		n.listener.endAt = now + part + mrand.Int64N(2*part+1)
	}
}

// deliver takes in a nomination, on a goroutine of the store's, which a panic
// of ours must not take along.
func (n *nomination) deliver(b []byte) {
	n.env.guard("nominated", func() { n.env.inbox.nominated(b) })
}

// unlisten ends that. It does not wait for the store, which may be busy, since
// a term may be about to begin.
func (n *nomination) unlisten() {
	if l := n.listener; l != nil {
		n.listener = nil
		n.env.spawn("the end of listening", l.stop)
	}
}

func (n *nomination) end() {
	if l := n.listener; l != nil {
		n.listener = nil
		l.stop()
	}
}

// nominate tells the others that this candidate goes first, if it would still
// claim, and enough is left of the lease for them to hear of it.
func (n *nomination) nominate(rules *machine.Machine, s *machine.State, now int64) {
	e := n.env
	st, ok := e.store.st.(store.Broadcaster)
	if !ok || now >= s.ViewAt+int64(s.HeldTTL) || rules.NominateAt(s, 0) == machine.Never {
		return
	}
	text, err := record.Nomination{Nominee: e.cfg.InstanceID, Revision: n.revision}.Encode()
	if err != nil {
		return
	}
	e.spawn("nomination", func() {
		ctx, cancel := e.bounded()
		defer cancel()
		_ = e.store.broadcast(ctx, st, e.cfg.Group, text) // if it fails, nobody is nominated
	})
}

func (n *nomination) hear(said record.Nomination) {
	if said.Replaces(n.heard) {
		n.heard = said
	}
}

// turn returns who goes first when the lease of the record that was seen last
// runs out, and reports whether the core does not know it yet. The nomination
// and the record may come in any order.
func (n *nomination) turn(s *machine.State) (turn machine.Turn, news bool) {
	turn = machine.TheirTurn
	if n.heard.Nominee == n.env.cfg.InstanceID {
		turn = machine.OurTurn
	}
	seen := &s.View
	return turn, n.heard.Revision == seen.Rev && seen.Rev != 0 && seen.Turn != turn && s.Phase == machine.Watching
}
