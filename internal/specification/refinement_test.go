package specification

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-ff2cb582/leader/internal/machine"
)

func TestEveryActOfTheCoreIsAllowedByTheSpecification(t *testing.T) {
	seeds, length := uint64(1000), 20*time.Second
	switch {
	case *large:
		seeds, length = 5_000, time.Minute
	case raceDetector, testing.Short():
		seeds = 300
	}
	seen := map[string]int{}
	for seed := range seeds {
		l := newLab(seed, step)
		if err := l.run(length); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for what, n := range l.seen {
			seen[what] += n
		}
	}
	t.Logf("%d schedules of %v: %v", seeds, length, seen)
	for _, what := range []string{
		"claim", "renewal", "release", "promotion", "rollback",
		"claim of an expired record", "claim of a vacancy", "claim of a marker",
		"claim of garbage", "release over a marker or garbage", "resolved by an observation", "promotion after a cool-down",
		"vanished", "promotion without the cool-down",
	} {
		if seen[what] == 0 {
			t.Errorf("no schedule has: %s", what)
		}
	}
}

// A spoiled core is Step with one mistake.
type spoiled struct {
	name string
	step stepFunc
	want string // in the checker's words; bars separate alternatives
}

// step is the core as it is.
func step(m machine.Machine, s machine.State, ev machine.Event, now machine.Instant) (machine.State, []machine.Action) {
	return m.Step(s, ev, now)
}

// after lets Step do its work, and then spoils the state.
func after(spoil func(m machine.Machine, before machine.State, s *machine.State, ev machine.Event, now machine.Instant)) stepFunc {
	return func(m machine.Machine, s machine.State, ev machine.Event, now machine.Instant) (machine.State, []machine.Action) {
		next, actions := m.Step(s, ev, now)
		spoil(m, s, &next, ev, now)
		return next, actions
	}
}

// before spoils what Step gets to see.
func before(spoil func(s *machine.State, ev *machine.Event)) stepFunc {
	return func(m machine.Machine, s machine.State, ev machine.Event, now machine.Instant) (machine.State, []machine.Action) {
		spoil(&s, &ev)
		return m.Step(s, ev, now)
	}
}

func extended(before machine.State, s *machine.State) bool {
	return s.Phase == machine.Holding && s.Grant.Rev != before.Grant.Rev
}

// due moves the instant of the claim when an observation of kind k arrives.
func due(k machine.Kind, by time.Duration) stepFunc {
	return after(func(_ machine.Machine, b machine.State, s *machine.State, _ machine.Event, _ machine.Instant) {
		theirs := s.View.Kind == k && s.View.Rec.Token != s.Grant.Token || k != machine.Held && s.View.Kind == k
		if theirs && s.Phase == machine.Watching && s.View != b.View {
			s.DueAt -= int64(by)
		}
	})
}

func wrongTrust() []spoiled {
	return []spoiled{
		{"trust a nanosecond longer", after(func(_ machine.Machine, b machine.State, s *machine.State, _ machine.Event, _ machine.Instant) {
			if extended(b, s) {
				s.Grant.Trust = s.Grant.Trust.Add(1)
			}
		}), "rule 1"},
		{"trust without margin", after(func(m machine.Machine, b machine.State, s *machine.State, _ machine.Event, _ machine.Instant) {
			if extended(b, s) {
				s.Grant.Trust = s.Grant.Sent.Add(m.TTL)
			}
		}), "rule 1"},
		{"trust from the reply", after(func(m machine.Machine, b machine.State, s *machine.State, ev machine.Event, now machine.Instant) {
			if extended(b, s) && ev.Kind == machine.Written {
				s.Grant.Trust = now.Add(m.TTL * 9 / 10)
			}
		}), "rule 1"},
		{"an unanswered write counts from its latest attempt", before(func(s *machine.State, _ *machine.Event) {
			s.Write.Maybe = false
		}), "rule 1"},
		{"the window is a flag", func(m machine.Machine, s machine.State, ev machine.Event, now machine.Instant) (machine.State, []machine.Action) {
			next, actions := m.Step(s, ev, now)
			if next.Phase == machine.Holding {
				next.Grant.Trust = next.Grant.Trust.Add(time.Hour)
			}
			return next, actions
		}, "rule 1"},
		{"no cool-down", after(func(_ machine.Machine, b machine.State, s *machine.State, _ machine.Event, _ machine.Instant) {
			if extended(b, s) {
				s.Grant.PromoteAt = 0
			}
		}), "cool-down"},
		{"what was left by one that never cooled down needs no cool-down", before(func(s *machine.State, _ *machine.Event) {
			s.View.Rec.Settled = s.View.Kind == machine.Vacant
		}), "cool-down"},
		{"a holder does not look at what it is shown", before(func(s *machine.State, ev *machine.Event) {
			if s.Phase == machine.Holding && ev.Kind == machine.Observed {
				ev.Kind = machine.Tick
			}
		}), "rule 2|rule 1"},
	}
}

func wrongClaims() []spoiled {
	return []spoiled{
		{"a challenge a nanosecond early", due(machine.Held, 1), "rule 5"},
		{"a claim of a marker a nanosecond early", due(machine.Bare, 1), "rule 7"},
		{"a claim of garbage a nanosecond early", due(machine.Malformed, 1), "rule 7"},
		{"a stranger's record counts as the own lease alone", after(func(m machine.Machine, b machine.State, s *machine.State, _ machine.Event, now machine.Instant) {
			if s.View.Foreign() && s.View != b.View && s.Phase == machine.Watching && m.ForeignTTL > m.TTL {
				s.DueAt = min(s.DueAt, now.Mono+int64(machine.Wait(m.TTL, m.Drift)))
			}
		}), "rule 7"},
		{"one token for all claims", before(func(_ *machine.State, ev *machine.Event) { ev.Token = "one" }), "rule 10|promotion"},
		{"the term follows the revision", after(func(_ machine.Machine, _ machine.State, s *machine.State, _ machine.Event, _ machine.Instant) {
			s.Grant.Term = s.Grant.Rev
		}), "rule 11"},
	}
}

func wrongReleases() []spoiled {
	return []spoiled{
		{"released while the work runs", func(m machine.Machine, s machine.State, ev machine.Event, now machine.Instant) (machine.State, []machine.Action) {
			next, actions := m.Step(s, ev, now)
			if next.Phase == machine.Draining && s.Phase != machine.Draining {
				last, more := m.Step(next, machine.Event{Kind: machine.Drained}, now)
				return last, append(actions, more...)
			}
			return next, actions
		}, "rule 9"},
		{"the work's budget is a nanosecond short", after(func(_ machine.Machine, b machine.State, s *machine.State, _ machine.Event, _ machine.Instant) {
			if s.DrainBy != b.DrainBy {
				s.DrainBy--
			}
		}), "rule 9"},
		{"who never cooled down says that it did", before(func(s *machine.State, _ *machine.Event) {
			s.Grant.Settled = true
		}), "cool-down"},
		{"whatever replaced the record is cleared", after(func(_ machine.Machine, _ machine.State, s *machine.State, _ machine.Event, _ machine.Instant) {
			if s.Phase == machine.Draining && (s.View.Kind == machine.Bare || s.View.Kind == machine.Malformed) {
				s.Exit.Vacate = s.View.Rev
			}
		}), "rule 6"},
		{"who released its record clears what replaced it", func(m machine.Machine, s machine.State, ev machine.Event, now machine.Instant) (machine.State, []machine.Action) {
			next, actions := m.Step(s, ev, now)
			free := next.View.Kind == machine.Bare || next.View.Kind == machine.Malformed
			if s.Phase != machine.Releasing || next.Phase != machine.Watching || !free || s.Grant.Trust.Reached(now) {
				return next, actions
			}
			next.Phase, next.Exit.Vacate, next.DrainBy = machine.Draining, next.View.Rev, machine.Never
			last, more := m.Step(next, machine.Event{Kind: machine.Drained}, now)
			return last, append(actions, more...)
		}, "rule 6"},
		{"a releaser adopts its own record again", func(m machine.Machine, s machine.State, ev machine.Event, now machine.Instant) (machine.State, []machine.Action) {
			ours := ev.Seen.Kind == machine.Held && ev.Seen.Rec.Token == s.Grant.Token && s.Grant.Term != 0
			if s.Phase != machine.Releasing || !ours {
				return m.Step(s, ev, now)
			}
			s.Phase, s.Write, s.Grant.Rev, s.Grant.Promoted = machine.Holding, machine.Write{}, ev.Seen.Rev, true
			s.Grant.Trust = now.Add(m.TTL / 2)
			return s, []machine.Action{{Kind: machine.Promote}}
		}, "promotion"},
	}
}

func TestWrongCoresAreRefused(t *testing.T) {
	for _, c := range append(append(wrongTrust(), wrongClaims()...), wrongReleases()...) {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(2000) {
				err := newLab(seed, c.step).run(20 * time.Second)
				if err == nil {
					continue
				}
				says := func(word string) bool { return strings.Contains(err.Error(), word) }
				if !slices.ContainsFunc(strings.Split(c.want, "|"), says) {
					t.Errorf("seed %d: refused for another reason than %s: %v", seed, c.want, err)
				}
				t.Logf("seed %d: %v", seed, err)
				return
			}
			t.Error("nothing that it did was refused")
		})
	}
}
