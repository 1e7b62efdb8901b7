package roles

import (
	"context"
	"time"

	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/preference"
)

// A candidacy is one role of a manager. It is the supervisor of the role's
// candidate: here the two meet.
type candidacy struct {
	m      *Manager
	c      *engine.Candidate
	name   string
	own    preference.Standing // of our candidate
	policy preference.Policy

	// The findings of the check before Start.
	conditions engine.Conditions
	unready    error

	// Guarded by m.mu, but for hold and shown, which the candidate's loop alone
	// writes.

	end   context.CancelFunc // ends the context that the candidate runs under
	going bool               // being removed
	hold  hold
	shown shown
	// full: the candidate was asked not to campaign, for want of room.
	full bool
	// yielding is since when a vacancy is left to others; zero if it is not.
	yielding time.Time
	// leader is who leads, if it is another; last is the last known leader
	// other than this instance.
	leader, last string
	standing     preference.Standing // of leader
	term         uint64
	vacantSince  time.Time // nobody leads; zero if somebody does
	waitUntil    time.Time // not asked for before
	asked        *pull     // to take over from a leader that we are preferred to
}

// A hold is how far a role is in this instance's hands.
type hold uint8

const (
	vacant  hold = iota // not at all
	held                // claiming it, or leading
	leaving             // not leading any more, but its work or its record is still ours
)

func holdOf(s *machine.State) hold {
	switch s.Phase {
	case machine.Claiming, machine.Holding:
		return held
	case machine.Draining, machine.Releasing:
		return leaving
	default:
		if s.Undrained {
			return leaving
		}
		return vacant
	}
}

// shown is the part of a role's state that readers were shown and whose changes
// they are notified of.
type shown struct {
	engine.View

	leader string
	term   uint64
	reason machine.Reason
}

// launch starts the candidate after the check.
func (s *candidacy) launch(ctx context.Context) error {
	if err := s.c.ClaimStart(); err != nil {
		return err
	}
	return s.c.Proceed(ctx, s.conditions, s.unready)
}

// join starts the candidate of a role that was added to a running manager. It
// ends with the manager's context; call bounds the start alone.
func (s *candidacy) join(call context.Context) error {
	ctx, cancel := context.WithCancel(s.m.parent)
	s.m.step(func() { s.end = cancel })
	if err := s.c.ClaimStart(); err != nil {
		return err
	}
	s.conditions, s.unready = s.check(call)
	if call.Err() != nil {
		cancel()
	}
	if err := s.c.Proceed(ctx, s.conditions, s.unready); err != nil {
		return err
	}
	return call.Err()
}

// check has the store checked, until call or the manager ends.
func (s *candidacy) check(call context.Context) (engine.Conditions, error) {
	ctx, cancel := context.WithCancel(call)
	defer cancel()
	defer context.AfterFunc(s.m.health, cancel)()
	defer context.AfterFunc(s.m.parent, cancel)()
	return s.c.CheckStore(ctx)
}

// Admit implements engine.Supervisor. It objects to a claim for which there is
// no room, and asks for a wait before one that is better left to others.
func (s *candidacy) Admit(next *machine.State) (wait time.Duration, room bool) {
	h := holdOf(next)
	if h == s.hold {
		return 0, true
	}
	room = true
	s.m.step(func() { wait, room = s.admit(next, h) })
	return wait, room
}

func (s *candidacy) admit(next *machine.State, h hold) (wait time.Duration, room bool) {
	m := s.m
	if s.hold == vacant && h == held {
		if m.isFull() {
			s.full = true
			m.nudge()
			return 0, false
		}
		// The instance that the last leader named as successor, because it
		// asked for the role or was asked to have it.
		if v := &next.View; v.Kind != machine.Vacant || v.Rec.Successor != m.cfg.InstanceID {
			now := time.Now()
			wait = max(m.yield(s, now), m.reserved(s, now))
		}
		if wait > 0 {
			return wait, true
		}
	}
	m.settle(s, h)
	return 0, true
}

// Settle implements engine.Supervisor.
func (s *candidacy) Settle(next *machine.State) {
	s.m.step(func() { s.m.settle(s, holdOf(next)) })
}

// Gives implements engine.Supervisor: nobody is given a role that would leave
// this instance with fewer than the other.
func (s *candidacy) Gives(have int) (gives bool) {
	s.m.step(func() {
		if gives = s.hold == held && have <= s.m.leading-2; gives {
			s.m.settle(s, leaving)
		}
	})
	return gives
}

// Asks implements engine.Supervisor: no more roles are asked for than there is
// room for. A leader that refuses does not answer, so that what it was asked
// for counts for a TTL.
func (s *candidacy) Asks(term uint64) (asks bool) {
	s.m.step(func() {
		now := time.Now()
		if asks = s.hold == vacant && !s.going && s.m.hasRoomFor(s, now); asks {
			s.asked = &pull{s: s, term: term, until: now.Add(s.m.cfg.TTL)}
		}
	})
	return asks
}

// Stepped implements engine.Supervisor.
func (s *candidacy) Stepped(v engine.View, info leadership.Info) {
	now := shown{v, info.ID, info.Term, info.Reason}
	if now == s.shown {
		return
	}
	s.m.step(func() {
		s.shown = now
		s.m.list(s, info)
		s.m.publish(s)
		s.m.nudge()
	})
}

// Ended implements engine.Supervisor. The manager no longer hears who leads the
// role, so it neither counts the role nor asks for it: the role would be handed
// over to an ended election. Other roles get its room when its work has
// returned, which no loop reports any more.
func (s *candidacy) Ended(closed bool) {
	s.m.step(func() {
		if s.c.Working() == nil {
			s.m.settle(s, vacant)
		} else {
			s.m.settle(s, leaving)
			s.m.tasks.Go(func() { s.m.afterWork(s, "leaving a role", s.left) })
		}
		if closed {
			s.m.hearClosed()
		}
		s.m.unlist(s)
		s.m.nudge()
	})
}

// left takes in that the work of an election that has ended has returned.
func (s *candidacy) left() {
	s.m.step(func() {
		s.m.settle(s, vacant)
		s.m.nudge()
	})
}

// maxWarnings is how many warnings a manager remembers to have reported.
const maxWarnings = 256

// Warns implements engine.Supervisor.
func (s *candidacy) Warns(text string) bool {
	said := false
	s.m.step(func() {
		_, said = s.m.warnings[text]
		if len(s.m.warnings) >= maxWarnings {
			clear(s.m.warnings) // they contain names of other instances, which are unlimited in number
		}
		s.m.warnings[text] = struct{}{}
	})
	return !said
}
