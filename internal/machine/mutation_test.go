package machine

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A mutant is a protocol with one mistake, made from outside: around Step, in
// the store, or in the definition of a leader. The zero value is the protocol
// as it is.
type mutant struct {
	name string
	// step replaces Machine.Step.
	step func(m Machine, s State, ev Event, now Instant) (State, []Action)
	// accept lets the store apply a write although the revision differs.
	accept func(k WriteKind, at *Seen, expected uint64) bool
	// lead replaces State.Leading.
	lead func(s State, now Instant) bool
	// monoOnly: the term is judged on the monotonic clock alone.
	monoOnly bool
}

func (mu mutant) doStep(m Machine, s State, ev Event, now Instant) (State, []Action) {
	if mu.step == nil {
		return m.Step(s, ev, now)
	}
	return mu.step(m, s, ev, now)
}

func (mu mutant) accepts(k WriteKind, at *Seen, expected uint64) bool {
	return mu.accept != nil && mu.accept(k, at, expected)
}

// blind reports whether writes of kind k may be applied at any revision.
func (mu mutant) blind(WriteKind) bool { return mu.accept != nil }

func (mu mutant) leads(s *State, now Instant) bool {
	switch {
	case mu.lead != nil:
		return mu.lead(*s, now)
	case mu.monoOnly:
		now.Wall = -1 << 40
	}
	return s.Leading(now)
}

func (mu mutant) reached(i, now Instant) bool {
	if mu.monoOnly {
		now.Wall = -1 << 40
	}
	return i.Reached(now)
}

// after makes a mutant's step that lets Step do its work and then spoils the
// state.
func after(spoil func(m Machine, before State, s *State, ev Event, now Instant)) func(Machine, State, Event, Instant) (State, []Action) {
	return func(m Machine, s State, ev Event, now Instant) (State, []Action) {
		t, actions := m.Step(s, ev, now)
		spoil(m, s, &t, ev, now)
		return t, actions
	}
}

// before makes a mutant's step that spoils what Step gets to see.
func before(spoil func(m Machine, s *State, ev *Event, now *Instant)) func(Machine, State, Event, Instant) (State, []Action) {
	return func(m Machine, s State, ev Event, now Instant) (State, []Action) {
		spoil(m, &s, &ev, &now)
		return m.Step(s, ev, now)
	}
}

// sending makes a mutant's step that spoils what is sent.
func sending(spoil func(m Machine, after State, a *Action)) func(Machine, State, Event, Instant) (State, []Action) {
	return func(m Machine, s State, ev Event, now Instant) (State, []Action) {
		t, actions := m.Step(s, ev, now)
		for k := range actions {
			if actions[k].Kind == Send {
				spoil(m, t, &actions[k])
			}
		}
		return t, actions
	}
}

func extended(before State, s *State) bool {
	return s.Phase == Holding && s.Grant.Rev != before.Grant.Rev
}

func saw(k Kind, s *State, ev Event) bool {
	return s.Phase == Watching && s.View.Kind == k && ev.Kind == Observed && ev.Seen.Rev == s.View.Rev
}

// A mutation is a mistake with the faults that bring it to light.
type mutation struct {
	mutant
	bug    int      // its number in the list of bugs that the field has had, 0 if it is ours
	want   []string // the invariants of which one must break
	kinds  kindSet  // the faults to explore with; 0 is all, at most one in a world
	faults int
	change func([]Machine)
	fine   bool // on the fine scale, where every unit shows
	loses  bool // over a store that forgets
	late   bool // with a candidate that starts when the store is made again, or loses something
	three  bool // with three candidates instead of two

	quiet   int    // ticks before the first fault
	horizon int    // if not the usual one
	clocks  []pace // if not the clocks of the scale
}

var mutations = []mutation{
	{
		mutant: mutant{name: "trust is stamped at the reply", step: after(func(m Machine, b State, s *State, ev Event, now Instant) {
			if extended(b, s) && ev.Kind == Written {
				s.Grant.Trust = now.Add(m.trust(m.TTL))
			}
		})},
		bug: 1, want: []string{"G1"},
	},
	{
		mutant: mutant{name: "leading is a flag", lead: func(s State, _ Instant) bool { return s.Phase == Holding && s.Grant.Promoted }},
		bug:    2, want: []string{"G1", "G3"},
	},
	{
		mutant: mutant{name: "challenge without margin", step: after(func(m Machine, _ State, s *State, ev Event, now Instant) {
			if saw(Held, s, ev) && s.DueAt == now.Mono+int64(m.wait(m.TTL)) {
				s.DueAt = now.Mono + int64(m.TTL)
			}
		})},
		bug: 3, want: []string{"G1"},
	},
	{
		mutant: mutant{name: "trust without margin", step: after(func(m Machine, b State, s *State, _ Event, _ Instant) {
			if extended(b, s) {
				s.Grant.Trust = s.Grant.Sent.Add(m.TTL)
			}
		})},
		bug: 3, want: []string{"G1"},
	},
	{
		mutant: mutant{name: "an unanswered write counts from its read-back", step: after(func(m Machine, b State, s *State, ev Event, now Instant) {
			if extended(b, s) && ev.Kind != Written {
				s.Grant.Sent, s.Grant.Trust = now, now.Add(m.trust(m.TTL))
			}
		})},
		// Its own watch would notify it at once.
		bug: 4, want: []string{"G1"}, kinds: setOf(kLoseReply, kLoseUpdate, kPause), faults: 3,
	},
	{
		mutant: mutant{name: "an unanswered write is taken for a refused one", step: before(func(_ Machine, s *State, _ *Event, _ *Instant) {
			s.Write.Maybe = false // so that First moves to the latest attempt
		})},
		bug: 4, want: []string{"G1"}, kinds: setOf(kLoseReply, kPause), faults: 2,
	},
	{
		mutant: mutant{name: "a releaser adopts its own record again", step: func(m Machine, s State, ev Event, now Instant) (State, []Action) {
			ours := ev.Seen.Kind == Held && ev.Seen.Rec.Token == s.Grant.Token && s.Grant.Term != 0
			if s.Phase != Releasing || ev.Kind != Observed && ev.Kind != Read || !ours {
				return m.Step(s, ev, now)
			}
			s.Phase, s.Write, s.Grant.Rev, s.Grant.Promoted = Holding, Write{}, ev.Seen.Rev, true
			s.Grant.Sent, s.Grant.Trust = now, now.Add(m.trust(m.TTL))
			return s, []Action{{Kind: Promote}}
		}},
		bug: 5, want: []string{"G1", "G2"}, kinds: setOf(kGiveUpWrite, kDelayUpdate, kResign), faults: 3,
	},
	{
		mutant: mutant{name: "the release is unconditional", accept: func(k WriteKind, _ *Seen, _ uint64) bool { return k == Release }},
		bug:    6, want: []string{"G1", "G2"},
	},
	{
		mutant: mutant{name: "release before the work has stopped", step: func(m Machine, s State, ev Event, now Instant) (State, []Action) {
			t, actions := m.Step(s, ev, now)
			if t.Phase == Draining && s.Phase == Holding {
				u, more := m.Step(t, Event{Kind: Drained, Token: ev.Token}, now)
				return u, append(actions, more...)
			}
			return t, actions
		}},
		bug: 7, want: []string{"G4"},
	},
	{
		mutant: mutant{name: "challenge by the own TTL instead of the record's", step: after(func(m Machine, _ State, s *State, ev Event, now Instant) {
			if saw(Held, s, ev) && s.DueAt > now.Mono {
				s.DueAt = now.Mono + int64(m.wait(m.TTL))
			}
		})},
		bug: 8, want: []string{"G1"}, change: shortTTL,
	},
	{
		mutant: mutant{name: "a bare delete is permission", step: after(func(_ Machine, _ State, s *State, ev Event, now Instant) {
			if saw(Bare, s, ev) {
				s.DueAt = now.Mono
			}
		})},
		bug: 9, want: []string{"G1"},
	},
	{
		mutant: mutant{name: "garbage is permission", step: after(func(_ Machine, _ State, s *State, ev Event, now Instant) {
			if saw(Malformed, s, ev) {
				s.DueAt = now.Mono
			}
		})},
		bug: 9, want: []string{"G1"},
	},
	{
		mutant: mutant{name: "a bare delete is waited out with the rest of the wait before", step: after(func(_ Machine, b State, s *State, ev Event, _ Instant) {
			if saw(Bare, s, ev) && b.View.Kind == Held {
				s.DueAt = min(s.DueAt, b.DueAt)
			}
		})},
		want: []string{"G1"}, kinds: setOf(kLoseUpdate, kDelete, kPause), faults: 3,
	},
	{
		mutant: mutant{name: "create by absence, without a revision", accept: func(k WriteKind, at *Seen, _ uint64) bool {
			return k == Acquire && (at.Kind == Bare || at.Kind == Vacant)
		}},
		bug: 10, want: []string{"G1"},
	},
	{
		mutant: mutant{name: "takeover without an expected revision", accept: func(k WriteKind, _ *Seen, _ uint64) bool { return k == Acquire }},
		bug:    12, want: []string{"G1"},
	},
	{
		mutant: mutant{name: "renewal without an expected revision", accept: func(k WriteKind, _ *Seen, _ uint64) bool { return k == Renew }},
		bug:    12, want: []string{"G1", "G2"}, kinds: setOf(kDelayWrite, kPause), faults: 2,
	},
	{
		mutant: mutant{name: "the monotonic clock alone", monoOnly: true, step: before(func(_ Machine, _ *State, _ *Event, now *Instant) {
			now.Wall = now.Mono // as it would be without a suspension
		})},
		bug: 13, want: []string{"G1"},
	},
	{
		mutant: mutant{name: "a late grant is promoted", step: before(func(_ Machine, s *State, ev *Event, now *Instant) {
			if ev.Kind == Written && ev.Outcome == OK && s.Write.Kind == Acquire {
				*now = s.Write.Sent
			}
		})},
		bug: 14, want: []string{"G3"},
	},
	{
		mutant: mutant{name: "a renewal is accepted after the window closed", step: before(func(_ Machine, s *State, ev *Event, now *Instant) {
			if ev.Kind == Written && ev.Outcome == OK && s.Write.Kind == Renew {
				*now = s.Write.Sent
			}
		})},
		bug: 16, want: []string{"G1", "G3"}, kinds: setOf(kDelayReply, kPause), faults: 2,
	},
	{
		mutant: mutant{name: "a request is obeyed whatever its term", step: before(func(_ Machine, s *State, ev *Event, _ *Instant) {
			if ev.Kind == Asked {
				ev.Term = s.Grant.Term
			}
		})},
		want: []string{"control"},
	},
	{
		mutant: mutant{name: "any deletion may be vacated", step: before(func(_ Machine, s *State, _ *Event, _ *Instant) {
			if s.Phase == Draining {
				s.Grant.Trust = Instant{1 << 40, 1 << 40}
			}
		})},
		want: []string{"G1"}, kinds: setOf(kDelete, kPause), faults: 2,
	},
	{
		mutant: mutant{name: "a claim does not wait for the last term's work", step: after(func(_ Machine, _ State, s *State, _ Event, _ Instant) {
			if s.Phase == Watching {
				s.Undrained = false
			}
		})},
		want: []string{"G3", "G4"}, kinds: setOf(kSlowWork, kPause), faults: 2,
	},
	{
		mutant: mutant{name: "an unfit winner is promoted", step: before(func(_ Machine, s *State, _ *Event, _ *Instant) {
			if s.Phase == Claiming {
				s.Barred, s.BarExits = 0, [exits]Exit{}
			}
		})},
		want: []string{"fitness"},
	},
	{
		mutant: mutant{name: "a paused candidate campaigns", step: func(m Machine, s State, ev Event, now Instant) (State, []Action) {
			paused := s.Barred & Paused
			if s.Phase == Watching && ev.Kind != Unbar {
				s.Barred &^= Paused
			}
			t, actions := m.Step(s, ev, now)
			if ev.Kind != Unbar {
				t.Barred |= paused
			}
			return t, actions
		}},
		want: []string{"fitness"},
	},
	{
		mutant: mutant{name: "a drained candidate campaigns", step: func(m Machine, s State, ev Event, now Instant) (State, []Action) {
			drained := s.Barred & Withdrawn
			if s.Phase == Watching && ev.Kind != Unbar {
				s.Barred &^= Withdrawn
			}
			t, actions := m.Step(s, ev, now)
			if ev.Kind != Unbar {
				t.Barred |= drained
			}
			return t, actions
		}},
		want: []string{"fitness"}, kinds: draining, faults: 1,
	},
	{
		mutant: mutant{name: "nobody takes over from a drained leader", step: before(func(_ Machine, s *State, ev *Event, _ *Instant) {
			if s.Phase == Watching && ev.Kind == Observed && ev.Seen.Kind == Vacant {
				s.Barred |= Full
			}
		})},
		want: []string{"G5"}, kinds: draining, faults: 1,
	},
	{
		mutant: mutant{name: "a pause does not end the term", step: before(func(_ Machine, _ *State, ev *Event, _ *Instant) {
			if ev.Bars == Paused {
				ev.Exit = Exit{}
			}
		})},
		want: []string{"fitness"},
	},
	{
		mutant: mutant{name: "a deposed holder claims its own record at once while leading", step: after(func(_ Machine, b State, s *State, _ Event, now Instant) {
			// It forgets the drain: the term is over, the work is not.
			if b.Phase == Holding && s.Phase == Draining {
				s.Phase, s.Undrained, s.DueAt = Watching, false, now.Mono
			}
		})},
		want: []string{"G3", "G4", "state"},
	},
	{
		mutant: mutant{name: "trust is one unit too long", step: after(func(_ Machine, b State, s *State, _ Event, _ Instant) {
			if extended(b, s) {
				s.Grant.Trust = s.Grant.Trust.Add(1)
			}
		})},
		bug: 3, want: []string{"G1"}, fine: true,
	},
	{
		mutant: mutant{name: "a challenge is one unit too early", step: after(func(_ Machine, _ State, s *State, ev Event, now Instant) {
			if saw(Held, s, ev) && s.DueAt > now.Mono {
				s.DueAt--
			}
		})},
		bug: 3, want: []string{"G1"}, fine: true,
	},
	{
		mutant: mutant{name: "a bare delete is waited out one unit too short", step: after(func(_ Machine, _ State, s *State, ev Event, now Instant) {
			if saw(Bare, s, ev) && s.DueAt > now.Mono {
				s.DueAt--
			}
		})},
		want: []string{"G1"}, fine: true, kinds: setOf(kDelete, kCutOff, kPause), faults: 2,
	},
	{
		mutant: mutant{name: "garbage is waited out one unit too short", step: after(func(_ Machine, _ State, s *State, ev Event, now Instant) {
			if saw(Malformed, s, ev) && s.DueAt > now.Mono {
				s.DueAt--
			}
		})},
		want: []string{"G1"}, fine: true, kinds: setOf(kGarbage, kCutOff, kPause), faults: 2,
	},
	{
		mutant: mutant{name: "a stranger's record is waited out one unit too short", step: after(func(_ Machine, _ State, s *State, ev Event, now Instant) {
			if saw(Held, s, ev) && s.View.Foreign() && s.DueAt > now.Mono {
				s.DueAt--
			}
		})},
		want: []string{"G1"}, fine: true, kinds: setOf(kForeign, kCutOff), faults: 2, horizon: 12,
	},
	{
		mutant: mutant{name: "garbage is waited out by ForeignTTL alone", step: after(func(m Machine, _ State, s *State, ev Event, now Instant) {
			if saw(Malformed, s, ev) && s.DueAt > now.Mono {
				s.DueAt = now.Mono + int64(m.wait(m.ForeignTTL))
			}
		})},
		want: []string{"G1"}, kinds: setOf(kGarbage, kPause), faults: 2, change: strangersAreShort, horizon: 6,
	},
	{
		mutant: mutant{name: "a stranger's record shortens the wait for what it replaced", step: after(func(m Machine, _ State, s *State, ev Event, _ Instant) {
			if saw(Held, s, ev) && s.View.Foreign() {
				s.HeldTTL = m.TTL
			}
		})},
		want: []string{"G1"}, kinds: setOf(kForeign, kDelete, kPause), faults: 3, change: shortTTL, horizon: 5,
	},
	{
		mutant: mutant{name: "a cool-down is one unit too short", step: after(func(_ Machine, b State, s *State, _ Event, _ Instant) {
			if b.Grant.PromoteAt == 0 && s.Grant.PromoteAt > 0 {
				s.Grant.PromoteAt--
			}
		})},
		want: []string{"G1"}, fine: true, loses: true, kinds: setOf(kWipe, kCutOff), faults: 2, change: coolShort, quiet: 8, horizon: 16,
	},
	{
		mutant: mutant{name: "a cool-down by the own lease alone", step: after(func(m Machine, b State, s *State, _ Event, now Instant) {
			if b.Grant.PromoteAt == 0 && s.Grant.PromoteAt > 0 {
				s.Grant.PromoteAt = min(s.Grant.PromoteAt, now.Mono+int64(m.wait(m.TTL)))
			}
		})},
		want: []string{"G1"}, fine: true, loses: true, kinds: setOf(kWipe, kCutOff), faults: 2, change: coolUneven, quiet: 12, horizon: 20, clocks: steady(1, 1),
	},
	{
		mutant: mutant{name: "who never cooled down leaves a settled vacancy", step: sending(func(_ Machine, _ State, a *Action) {
			a.Rec.Settled = a.Write == Release
		})},
		want: []string{"G1"}, fine: true, late: true, kinds: setOf(kVanish, kPaused, kCutOff), faults: 3, change: settles, quiet: 8, horizon: 11,
	},
	{
		mutant: mutant{name: "a claim of nothing needs no cool-down where records vanish", step: after(func(_ Machine, b State, s *State, _ Event, _ Instant) {
			if b.Phase == Watching && s.Phase == Claiming && s.View.Kind == Absent {
				s.Grant.Settled = true
			}
		})},
		want: []string{"G1"}, fine: true, late: true, kinds: setOf(kVanish, kCutOff), faults: 2, change: settles, quiet: 8, horizon: 12,
	},
	{
		mutant: mutant{name: "a handover needs no cool-down where an older record comes back", step: func(m Machine, s State, ev Event, now Instant) (State, []Action) {
			m.Expires = true
			return m.Step(s, ev, now)
		}},
		want: []string{"G1"}, fine: true, loses: true, kinds: setOf(kPaused, kRollback), faults: 2, change: coolShort, quiet: 8, horizon: 11,
	},
	{
		mutant: mutant{name: "a start in a store that was made again is not doubted", step: before(func(_ Machine, _ *State, ev *Event, _ *Instant) {
			ev.Doubt = 0
		})},
		want: []string{"G1"}, fine: true, kinds: setOf(kRemade, kCutOff, kPause), faults: 2, late: true,
	},
	{
		mutant: mutant{name: "a start in a store that was made again is doubted one unit too short", step: before(func(_ Machine, _ *State, ev *Event, _ *Instant) {
			ev.Doubt = max(0, ev.Doubt-1)
		})},
		want: []string{"G1"}, fine: true, kinds: setOf(kRemade, kCutOff, kPause), faults: 2, late: true,
	},
	{
		mutant: mutant{name: "a claim that found nothing is not examined", step: func(m Machine, s State, ev Event, now Instant) (State, []Action) {
			m.Ages = false
			return m.Step(s, ev, now)
		}},
		want: []string{"G1"}, fine: true, kinds: setOf(kRemade, kCutOff), faults: 2, change: ages, horizon: 10,
	},
	{
		mutant: mutant{name: "a claim that found nothing is examined before it was applied", step: examinedEarly},
		want:   []string{"G1"}, fine: true, kinds: setOf(kRemade, kCutOff, kDelayWrite), faults: 2, change: ages, horizon: 10,
	},
	{
		mutant: mutant{name: "the doubt of an examination is one unit too short", step: before(func(_ Machine, _ *State, ev *Event, _ *Instant) {
			if ev.Kind == Examined {
				ev.Doubt = max(0, ev.Doubt-1)
			}
		})},
		want: []string{"G1"}, fine: true, kinds: setOf(kRemade, kCutOff), faults: 2, change: ages, horizon: 12,
	},
	{
		mutant: mutant{name: "an examination without an answer is waited out one unit too short", step: after(func(_ Machine, b State, s *State, ev Event, _ Instant) {
			if s.YoungUntil > b.YoungUntil && ev.Kind != Examined {
				s.YoungUntil--
			}
		})},
		want: []string{"G1"}, fine: true, kinds: setOf(kRemade, kCutOff, kLoseReply), faults: 3, change: ages, quiet: 3, horizon: 11,
	},
	{
		mutant: mutant{name: "a candidate that stops writes a vacancy over nothing", step: before(func(_ Machine, s *State, ev *Event, _ *Instant) {
			if ev.Kind == StopRelease && s.Phase == Claiming {
				s.Grant.Void = false
			}
		})},
		want: []string{"G1"}, fine: true, kinds: setOf(kRemade, kStopRelease), faults: 2, change: ages, horizon: 4, three: true,
	},
	{
		mutant: mutant{name: "a claim that was given up is a remnant like any other", step: after(func(_ Machine, b State, s *State, _ Event, _ Instant) {
			if s.Phase != Holding {
				s.YoungUntil = b.YoungUntil
			}
		})},
		want: []string{"G1"}, fine: true, kinds: setOf(kRemade, kCutOff, kGiveUpWrite), faults: 3, change: ages, horizon: 8,
	},
	{
		mutant: mutant{name: "a repeated report of a lost connection restarts the grace", step: before(func(_ Machine, s *State, ev *Event, now *Instant) {
			if ev.Kind == ConnDown && s.Down {
				s.DownSince = now.Mono
			}
		})},
		want: []string{"grace"}, fine: true, kinds: setOf(kConnDown, kSeemsDown, kDownAgain), faults: 2, change: graceful,
	},
	{
		mutant: mutant{name: "a grant is promoted before the grace is looked at", step: func(m Machine, s State, ev Event, now Instant) (State, []Action) {
			over := s.Down && m.DisconnectGrace > 0 && now.Mono >= s.DownSince+int64(m.DisconnectGrace)
			if !over || s.Phase != Claiming || ev.Kind != Written || ev.Outcome != OK {
				return m.Step(s, ev, now)
			}
			s.Down = false
			t, first := m.Step(s, ev, now)
			t.Down = true
			t, then := m.Step(t, Event{Kind: Tick}, now)
			return t, append(first, then...)
		}},
		want: []string{"seam"}, fine: true, kinds: setOf(kResign, kSeemsDown, kDelayWrite), faults: 3, change: graceful,
	},
	{
		mutant: mutant{name: "a candidate with a grace claims without its connection", step: func(m Machine, s State, ev Event, now Instant) (State, []Action) {
			down := s.Down
			s.Down = s.Down && s.Phase != Watching
			if ev.Kind == ConnDown || ev.Kind == ConnUp {
				s.Down = down
			}
			t, actions := m.Step(s, ev, now)
			if ev.Kind != ConnDown && ev.Kind != ConnUp {
				t.Down = down
			}
			return t, actions
		}},
		want: []string{"grace"}, fine: true, kinds: setOf(kConnDown, kSeemsDown, kDownAgain), faults: 2, change: graceful,
	},
	{
		mutant: mutant{name: "a new claim keeps the old term", step: func(m Machine, s State, ev Event, now Instant) (State, []Action) {
			t, actions := m.Step(s, ev, now)
			if s.Phase != Claiming && t.Phase == Claiming {
				t.Grant.Term = s.Grant.Term
				for k := range actions {
					if actions[k].Kind == Send && actions[k].Write == Acquire {
						actions[k].Rec.Term = s.Grant.Term
					}
				}
			}
			return t, actions
		}},
		want: []string{"claim"}, kinds: setOf(kClosed),
	},
	{
		mutant: mutant{name: "a refused claim is taken for an applied one", step: before(func(_ Machine, s *State, ev *Event, _ *Instant) {
			if ev.Kind == Written && ev.Outcome == Unknown && s.Write.Kind == Acquire {
				ev.Outcome, ev.Rev = OK, s.Write.Expected+1
			}
		})},
		want: []string{"G6"}, kinds: setOf(kLoseWrite),
	},
	{
		mutant: mutant{name: "an unanswered renewal is taken for an applied one", step: before(func(_ Machine, s *State, ev *Event, _ *Instant) {
			if ev.Kind == Written && ev.Outcome == Unknown && s.Write.Kind == Renew {
				ev.Outcome, ev.Rev = OK, s.Write.Expected+1
			}
		})},
		want: []string{"G6"}, kinds: setOf(kLoseWrite),
	},
	{
		mutant: mutant{name: "a lost race ends campaigning", step: after(func(_ Machine, b State, s *State, _ Event, now Instant) {
			if b.Phase == Claiming && s.Phase == Watching {
				s.DueAt = now.Mono + 1<<14
			}
		})},
		bug: 18, want: []string{"G5"}, kinds: setOf(kCrash),
	},
	{
		mutant: mutant{name: "an expired term is not noticed by the candidate", step: before(func(_ Machine, s *State, _ *Event, _ *Instant) {
			if s.Phase == Holding && s.Grant.Promoted {
				s.Grant.Trust = Instant{1 << 40, 1 << 40}
			}
		})},
		bug: 2, want: []string{"G1", "G3"},
	},
}

// shortTTL gives the later candidates shorter leases than the first.
func shortTTL(ms []Machine) {
	for i := range ms[1:] {
		ms[i+1].TTL, ms[i+1].Heartbeat = 8, 2
	}
}

// strangersAreShort has garbage count as a shorter lease than any candidate's,
// and the later candidates have shorter ones than the first.
func strangersAreShort(ms []Machine) {
	shortTTL(ms)
	for i := range ms {
		ms[i].ForeignTTL = 8
	}
}

// coolShort has all candidates cool down, by leases that are as short as the
// fine scale allows: who leads first has cooled down, too.
func coolShort(ms []Machine) {
	for i := range ms {
		ms[i].CoolDown, ms[i].TTL, ms[i].Heartbeat = true, 3, 1
	}
}

// settles has all candidates cool down over a store that brings nothing older
// back.
func settles(ms []Machine) {
	for i := range ms {
		settling(&ms[i])
	}
}

// ages makes a store report its age to all candidates.
func ages(ms []Machine) {
	for i := range ms {
		ageing(&ms[i])
	}
}

// examinedEarly asks for the age of the store as a claim of nothing is sent,
// and promotes at once if that exceeds a lease.
func examinedEarly(m Machine, s State, ev Event, now Instant) (State, []Action) {
	const old = -1 // as PromoteAt of a claim that is under way
	if ev.Kind == Examined && s.Phase == Claiming {
		s.Grant.Examine = 0
		if ev.Outcome == OK && ev.Doubt == 0 {
			s.Grant.PromoteAt = old
		}
		return s, nil
	}
	t, actions := m.Step(s, ev, now)
	switch {
	case s.Phase == Watching && t.Phase == Claiming && t.Grant.Void:
		t.Grant.Examine = 1
		actions = append(actions, Action{Kind: Examine, Op: 1})
	case s.Phase == Claiming && s.Grant.PromoteAt == old && t.Phase == Holding && t.YoungUntil > now.Mono:
		t.YoungUntil, t.Grant.PromoteAt = 0, 0
		u, more := m.Step(t, Event{Kind: Tick, Token: ev.Token, Nonce: ev.Nonce}, now)
		return u, append(actions, more...)
	}
	return t, actions
}

// coolUneven has all candidates cool down. The lease of the first is so long
// that the wait for the others' ends within its window.
func coolUneven(ms []Machine) {
	coolShort(ms)
	ms[0].TTL, ms[0].MaxTTL, ms[0].Heartbeat = 9, 9, 3
	for i := range ms[1:] {
		ms[i+1].MaxTTL = 9
	}
}

// graceful gives all candidates a grace period.
func graceful(ms []Machine) {
	for i := range ms {
		ms[i].DisconnectGrace = 3
	}
}

func (mu mutation) config() config {
	n := 2
	if mu.three {
		n = 3
	}
	cfg := config{
		clocks: steady(3, 5, 4)[:n], machines: machines(n, nil), horizon: 14, faults: max(mu.faults, 1),
		kinds: mu.kinds, shortest: true,
	}
	if mu.fine {
		cfg.clocks, cfg.machines, cfg.patience = fine(n), fineMachines(n, nil), finePatience
	}
	if mu.clocks != nil {
		cfg.clocks = mu.clocks
	}
	if mu.horizon > 0 {
		cfg.horizon = mu.horizon
	}
	if slices.Contains(mu.want, "G5") {
		cfg.sample = 1
	}
	cfg.storeMay, cfg.late, cfg.quiet = mu.loses, mu.late, mu.quiet
	if mu.kinds == 0 {
		cfg.kinds = allFaults
	}
	if mu.change != nil {
		mu.change(cfg.machines)
	}
	return cfg
}

// A family names the worlds that cfg visits, if the protocol is as it is.
func (cfg config) family() string {
	return fmt.Sprint(cfg.clocks, cfg.machines, cfg.horizon, cfg.quiet, cfg.faults, cfg.kinds, cfg.storeMay, cfg.late, cfg.sample, cfg.patience)
}

// TestMutations proves the explorer: each mistake must lead it to a
// counterexample, and the protocol as it is must pass in the same worlds.
func TestMutations(t *testing.T) {
	if testing.Short() {
		t.Skip("it judges the explorer, and not the protocol")
	}
	var right sync.Map // the families that the protocol as it is was tried in, by their names
	for _, mu := range mutations {
		t.Run(mu.name, func(t *testing.T) {
			t.Parallel()
			cfg := mu.config()
			cfg.mutant = mu.mutant
			f := newExplorer(cfg).run()
			if f.bad == "" {
				t.Fatalf("not caught in %d worlds", f.worlds)
			}
			invariant, _, _ := strings.Cut(f.bad, ":")
			t.Logf("caught after %d worlds by %s, in %d steps", f.worlds, f.bad, f.steps)
			if !slices.Contains(mu.want, invariant) {
				t.Errorf("caught by %s, want one of %v", invariant, mu.want)
			}
			t.Logf("\n%s", f.story)
			if raceEnabled || mu.kinds == 0 && mu.change == nil {
				return // TestExplore visits those worlds with the protocol as it is
			}
			cfg.mutant, cfg.shortest = mutant{}, false // all of them are visited, in whatever order
			if _, tried := right.LoadOrStore(cfg.family(), true); tried {
				return
			}
			f = newExplorer(cfg).run()
			t.Logf("the protocol as it is: %d worlds", f.worlds)
			if f.bad != "" {
				t.Errorf("caught without the mutant, too: %s\n%s", f.bad, f.story)
			}
		})
	}
}
