package leader

import (
	"context"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
)

// A seat is one role of a manager: where its election and the manager meet.
type seat struct {
	m    *RoleManager
	e    *election
	name string

	// What the check before Start found.
	rules   conditions
	unready error

	// Guarded by m.mu, but for hold and shown, which the election's goroutine alone writes.

	end   context.CancelFunc // ends the context that the election runs under
	going bool               // being removed
	hold  hold
	shown shown
	// full: the election was told not to campaign, for want of room.
	full bool
	// yielding is since when a vacancy is left to others; zero if it is not.
	yielding time.Time
	// leader is who leads, if it is another; last is the last one of whom that was known.
	leader, last string
	standing     standing // of leader
	term         uint64
	vacantSince  time.Time // nobody leads; zero if somebody does
	restUntil    time.Time // not asked for before
}

// A hold is how far an election has a role in its hands.
type hold uint8

const (
	vacant  hold = iota // not at all
	held                // claiming it, or leading
	leaving             // not leading any more, but its work or its record is still ours
)

func holdOf(s machine.State) hold {
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

// What readers were shown of a role, as far as they are told of its change.
type shown struct {
	state  machine.Public
	barred Reason
	leader string
	term   uint64
	reason Reason
}

func newSeat(m *RoleManager, cfg ElectionConfig, role Role) *seat {
	s := &seat{m: m, e: newElection(m.store, cfg), name: role.Name, end: func() {}}
	s.e.seat = s
	s.e.OnPromote(role.OnPromote) // nil is none
	s.e.OnTerm(role.OnTerm)
	s.e.OnDemote(role.OnDemote)
	s.e.OnLeaderChange(role.OnLeaderChange)
	s.e.OnCampaign(role.OnCampaign)
	return s
}

// launch starts the election after the check.
func (s *seat) launch(ctx context.Context) error {
	if err := s.e.claimStart(); err != nil {
		return err
	}
	return s.e.proceed(ctx, s.rules, s.unready)
}

// join starts the election of a role that was added to a running manager. It ends with the manager's context;
// call bounds the start alone.
func (s *seat) join(call context.Context) error {
	ctx, cancel := context.WithCancel(s.m.parent)
	s.m.mu.Lock()
	s.end = cancel
	s.m.mu.Unlock()
	bound := context.AfterFunc(call, cancel)
	err := s.e.Start(ctx)
	if !bound() && err == nil {
		return call.Err()
	}
	return err
}

// next puts an event to the core, and asks for room first if the answer is a claim. The core being pure, an answer
// that nobody acts on has not been given.
func (l *loop) next(ev machine.Event) (machine.State, []machine.Action) {
	now := l.e.clock.now()
	state, actions := l.rules.Step(l.state, ev, now)
	s := l.e.seat
	if s == nil {
		return state, actions
	}
	wait, room := s.admit(state)
	if room && wait <= 0 {
		return state, actions
	}
	state, actions = l.withheld(ev, now)
	if room {
		// Only now: the event may end a stand-back that was there before it.
		state.StandBackUntil = max(state.StandBackUntil, now.Mono+int64(wait))
		var more []machine.Action
		state, more = l.rules.Step(state, machine.Event{Kind: machine.Unbar, Bars: machine.Full, Token: ev.Token, Rand: ev.Rand}, now)
		actions = append(actions, more...)
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.settle(s, holdOf(state))
	return state, actions
}

// withheld puts an event to the core with the bar that there is no room, so that the answer is no claim.
func (l *loop) withheld(ev machine.Event, now machine.Instant) (machine.State, []machine.Action) {
	state, actions := l.rules.Step(l.state, machine.Event{Kind: machine.Bar, Bars: machine.Full, Token: ev.Token, Rand: ev.Rand}, now)
	// Where the event is the end of this very bar, it has not ended.
	ev.Bars &^= machine.Full
	state, more := l.rules.Step(state, ev, now)
	return state, append(actions, more...)
}

// admit takes in how the election is about to stand. It objects to a claim for which there is no room, and asks
// for a wait before one that is better left to others; nothing is taken in then.
func (s *seat) admit(next machine.State) (wait time.Duration, room bool) {
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
		// Whom the last leader named has asked for the role, or was asked to have it.
		if v := next.View; v.Kind != machine.Vacant || v.Rec.Successor != s.e.cfg.InstanceID {
			wait = m.yield(s, time.Now())
		}
		if wait > 0 {
			return wait, true
		}
	}
	m.settle(s, h)
	return 0, true
}

// gives tells whether a role that this instance leads is given to another that leads have of them, and
// counts it as given if so.
func (s *seat) gives(have int) bool {
	if s == nil {
		return true // a lone election has nothing to compare
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.hold != held || have > s.m.leading-2 {
		return false
	}
	s.m.settle(s, leaving)
	return true
}

// stepped tells the manager what a step of the election changed for its readers.
func (s *seat) stepped(info LeaderInfo) {
	if s == nil {
		return
	}
	snap := s.e.snap.Load()
	now := shown{snap.state, snap.barred, info.ID, info.Term, info.Reason}
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

// vacate takes in that the election has ended. It hears no more of who leads, so
// that the role is neither counted nor asked for: it would be handed over to
// nobody. One that crashed leaves its room to other roles.
func (s *seat) vacate(crashed bool) {
	if s == nil {
		return
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if crashed {
		s.m.settle(s, vacant)
	}
	if s.e.closed.Load() != nil {
		s.m.hearClosed()
	}
	s.m.unlist(s)
	s.m.nudge()
}

// maxWarnings is how many warnings a manager remembers to have reported.
const maxWarnings = 256

// warns reports whether a warning is to be reported: all roles of a manager have the
// same store, and most have the same rivals.
func (s *seat) warns(text string) bool {
	if s == nil {
		return true
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	_, said := s.m.warnings[text]
	if len(s.m.warnings) >= maxWarnings {
		clear(s.m.warnings) // names of others stand in them, of which there is no end
	}
	s.m.warnings[text] = struct{}{}
	return !said
}
