package roles

import (
	"context"
	"time"

	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/preference"
)

// A seat is one role of a manager. It is the supervisor of the role's
// candidate: here the two meet.
type seat struct {
	m      *Manager
	c      *engine.Candidate
	name   string
	own    preference.Standing // of our candidate
	policy preference.Policy

	// What the check before Start found.
	conditions engine.Conditions
	unready    error

	// Guarded by m.mu, but for hold and shown, which the candidate's loop alone
	// writes.

	end   context.CancelFunc // ends the context that the candidate runs under
	going bool               // being removed
	hold  hold
	shown shown
	// full: the candidate was told not to campaign, for want of room.
	full bool
	// yielding is since when a vacancy is left to others; zero if it is not.
	yielding time.Time
	// leader is who leads, if it is another; last is the last one of whom that
	// was known.
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

// shown is what readers were shown of a role, as far as they are told of its
// change.
type shown struct {
	engine.View

	leader string
	term   uint64
	reason machine.Reason
}

// launch starts the candidate after the check.
func (s *seat) launch(ctx context.Context) error {
	if err := s.c.ClaimStart(); err != nil {
		return err
	}
	return s.c.Proceed(ctx, s.conditions, s.unready)
}

// join starts the candidate of a role that was added to a running manager. It
// ends with the manager's context; call bounds the start alone.
func (s *seat) join(call context.Context) error {
	ctx, cancel := context.WithCancel(s.m.parent)
	s.m.mu.Lock()
	s.end = cancel
	s.m.mu.Unlock()
	bound := context.AfterFunc(call, cancel)
	err := s.c.Start(ctx)
	if !bound() && err == nil {
		return call.Err()
	}
	return err
}

// Admit implements engine.Supervisor. It objects to a claim for which there is
// no room, and asks for a wait before one that is better left to others.
func (s *seat) Admit(next *machine.State) (wait time.Duration, room bool) {
	h := holdOf(next)
	if h == s.hold {
		return 0, true
	}
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.hold == vacant && h == held {
		if m.isFull() {
			s.full = true
			m.nudge()
			return 0, false
		}
		// Whom the last leader named has asked for the role, or was asked to
		// have it.
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
func (s *seat) Settle(next *machine.State) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.settle(s, holdOf(next))
}

// Gives implements engine.Supervisor: nobody is given a role that would leave
// this instance with fewer than the other.
func (s *seat) Gives(have int) bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.hold != held || have > s.m.leading-2 {
		return false
	}
	s.m.settle(s, leaving)
	return true
}

// Asks implements engine.Supervisor: no more roles are asked for than there is
// room for. A leader that refuses does not answer, so that what it was asked
// for counts for a TTL.
func (s *seat) Asks(term uint64) bool {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if s.hold != vacant || s.going || !m.hasRoomFor(s, now) {
		return false
	}
	s.asked = &pull{s: s, term: term, until: now.Add(m.cfg.TTL)}
	return true
}

// Stepped implements engine.Supervisor.
func (s *seat) Stepped(v engine.View, info leadership.Info) {
	now := shown{v, info.ID, info.Term, info.Reason}
	if now == s.shown {
		return
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.shown = now
	s.m.list(s, info)
	s.m.publish(s)
	s.m.nudge()
}

// Ended implements engine.Supervisor. The manager hears no more of who leads
// the role, so that the role is neither counted nor asked for: it would be
// handed over to nobody. Its room is left to other roles when its work has
// returned, of which no loop tells any more.
func (s *seat) Ended(closed bool) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
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
}

// left takes in that the work of an election that has ended has returned.
func (s *seat) left() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.settle(s, vacant)
	s.m.nudge()
}

// maxWarnings is how many warnings a manager remembers to have reported.
const maxWarnings = 256

// Warns implements engine.Supervisor.
func (s *seat) Warns(text string) bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	_, said := s.m.warnings[text]
	if len(s.m.warnings) >= maxWarnings {
		clear(s.m.warnings) // names of others stand in them, of which there is no end
	}
	s.m.warnings[text] = struct{}{}
	return !said
}
