package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// This file is about the seam between the core and the runtime: the runtime has
// to bear every list of actions that the core can answer with, and all others.
// The lists go through the real apply and perform, the callbacks through the
// real queues, in virtual time, and the guarantees are judged from the outside.

// A seam is an election whose core is played by the test.
type seam struct {
	t *testing.T
	e *Candidate
	l *loop

	promoted, demoted int
	ctxs              []context.Context
	asked             int // demotions without an answer
	name              string
}

func newSeam(t *testing.T, name string) *seam {
	s := &seam{t: t, name: name}
	s.e = New(memstore.New(), testConfig())
	s.e.OnTerm(func(ctx context.Context, _ leadership.Term) {
		s.promoted++
		s.ctxs = append(s.ctxs, ctx)
		if s.promoted != s.demoted+1 {
			s.fail("promotion %d after demotion %d", s.promoted, s.demoted)
		}
	})
	s.e.OnDemote(func() {
		s.demoted++
		if s.demoted != s.promoted {
			s.fail("demotion %d after promotion %d", s.demoted, s.promoted)
		} else if s.ctxs[s.demoted-1].Err() == nil {
			s.fail("demoted while the context lives")
		}
	})
	s.l = &s.e.loop
	s.l.prepare(t.Context(), s.e.cfg.Protocol(false))
	return s
}

func (s *seam) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("%s: %s", s.name, fmt.Sprintf(format, args...))
}

// answer gives the runtime one answer of the core, and judges what it made of
// it.
func (s *seam) answer(state machine.State, actions []machine.Action) {
	for _, a := range actions {
		if a.Kind == machine.Demote {
			s.asked++
		}
	}
	before := pastOf(&s.l.state)
	s.l.state = state
	s.l.apply(before, actions)
	synctest.Wait()
	if leads := state.Leading(s.e.clock.now()); s.e.IsLeader() != leads || leads && s.e.Term().Number != state.Grant.Term {
		s.fail("IsLeader is %v in term %v, and the core leads: %v, in term %d", s.e.IsLeader(), s.e.Term(), leads, state.Grant.Term)
	}
	if s.asked > 0 && !s.takeMessages() {
		s.fail("a demotion was never answered")
	}
}

// takeMessages takes what came in, and reports whether every demotion that was
// asked for has been answered. Two in a row may have one answer.
func (s *seam) takeMessages() bool {
	messages, _, _ := s.e.inbox.take()
	answered := false
	for _, l := range messages {
		if l.event.Kind == machine.Drained {
			s.l.undrained = false
			answered = true
		}
		if l.note != nil && l.note.Kind == NotePanic {
			s.fail("%s", l.note.Text)
		}
	}
	ok := answered || s.asked == 0
	s.asked = 0
	return ok
}

// end ends the election, and judges that nothing is left.
func (s *seam) end() {
	s.l.end(func() {})
	synctest.Wait()
	s.takeMessages()
	if s.e.IsLeader() || s.promoted != s.demoted {
		s.fail("at the end: leads %v, %d promotions, %d demotions", s.e.IsLeader(), s.promoted, s.demoted)
	}
	for _, ctx := range s.ctxs {
		if ctx.Err() == nil || context.Cause(ctx) == nil {
			s.fail("a context outlived its term")
		}
	}
	if err := s.e.Err(); err != nil {
		s.fail("%v", err)
	}
}

// seamStates are states of the core, one for each that readers and callbacks
// depend on. Term and token are to be filled in.
func seamStates(now machine.Instant) map[string]machine.State {
	grant := machine.Grant{Token: "t", Term: 7, Rev: 7, Sent: now, Trust: now.Add(2 * time.Second)}
	led, other := grant, grant
	led.Promoted, other.Promoted = true, true
	other.Term, other.Token = 9, "u"
	ours := machine.Seen{Kind: machine.Held, Rev: 7, Rec: machine.Record{ID: "a", Token: "t", Term: 7, TTL: 3 * time.Second}}
	theirs := machine.Seen{Kind: machine.Held, Rev: 8, Rec: machine.Record{ID: "b", Token: "x", Term: 8, TTL: 3 * time.Second}}
	x := machine.Exit{Reason: machine.ReasonDisconnected}
	return map[string]machine.State{
		"idle":      {},
		"watching":  {Phase: machine.Watching, View: theirs},
		"claiming":  {Phase: machine.Claiming, Grant: machine.Grant{Token: "t"}},
		"cooling":   {Phase: machine.Holding, Grant: grant, View: ours},
		"holding":   {Phase: machine.Holding, Grant: led, View: ours},
		"another":   {Phase: machine.Holding, Grant: other, View: ours},
		"draining":  {Phase: machine.Draining, Grant: grant, View: ours, Exit: x, Undrained: true},
		"releasing": {Phase: machine.Releasing, Grant: grant, View: ours, Exit: x},
		"stopped":   {Phase: machine.Stopped, Exit: x},
	}
}

// seamActions are the kinds of actions, by the names that a shape gives them.
var seamActions = map[string]machine.Action{
	"send(acquire)": {Kind: machine.Send, Write: machine.Acquire, Rec: machine.Record{ID: "a", Token: "t", TTL: 3 * time.Second}},
	"send(renew)":   {Kind: machine.Send, Write: machine.Renew, Expected: 7, Rec: machine.Record{ID: "a", Token: "t", Term: 7, TTL: 3 * time.Second}},
	"send(release)": {Kind: machine.Send, Write: machine.Release, Expected: 7, Rec: machine.Record{Token: "t", Term: 7, Reason: machine.ReasonStopped}},
	"look":          {Kind: machine.Look},
	"examine":       {Kind: machine.Examine, Op: 1},
	"promote":       {Kind: machine.Promote},
	"demote":        {Kind: machine.Demote},
	"finish":        {Kind: machine.Finish},
	"note":          {Kind: machine.Note, Note: machine.NoteOverrun},
}

// lists returns all sequences of the names up to a length.
func lists(names []string, length int) [][]string {
	all := [][]string{nil}
	for from := 0; length > 0; length-- {
		until := len(all)
		for _, l := range all[from:until] {
			for _, n := range names {
				all = append(all, append(append([]string(nil), l...), n))
			}
		}
		from = until
	}
	return all
}

func keys[V any](m map[string]V) (names []string) {
	for k := range m {
		names = append(names, k)
	}
	return names
}

func actionsOf(names []string) (actions []machine.Action) {
	for _, n := range names {
		actions = append(actions, seamActions[n])
	}
	return actions
}

// Every list of up to three actions goes through the runtime, from and to
// states that are drawn at random, most of which the core never gives together.
// Shorter lists are tried between all pairs of states.
func TestNoListOfActionsBreaksTheRuntime(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	states := keys(seamStates(machine.Instant{}))
	for _, list := range lists(keys(seamActions), 3) {
		pairs := [][2]string{}
		for range 2 {
			pairs = append(pairs, [2]string{states[rng.IntN(len(states))], states[rng.IntN(len(states))]})
		}
		if len(list) < 2 || !testing.Short() && len(list) == 2 {
			pairs = nil
			for _, a := range states {
				for _, b := range states {
					pairs = append(pairs, [2]string{a, b})
				}
			}
		}
		synctest.Test(t, func(t *testing.T) {
			for _, p := range pairs {
				try(t, p[0], list, p[1])
			}
		})
	}
}

// try takes one answer through the runtime: list, between the states named.
func try(t *testing.T, before string, list []string, after string) {
	s := newSeam(t, fmt.Sprintf("%s to %s: %s", before, after, strings.Join(list, " ")))
	states := seamStates(s.e.clock.now())
	first := []machine.Action(nil)
	if state := states[before]; state.Leading(s.e.clock.now()) {
		first = actionsOf([]string{"promote"})
	}
	s.answer(states[before], first)
	s.answer(states[after], actionsOf(list))
	s.answer(states["stopped"], nil)
	s.end()
}

// The core itself, driven by random events, and its answers taken through the
// runtime, with an answer that it never gives in between.
func TestTheRuntimeBearsWhatTheCoreAnswers(t *testing.T) {
	seen := map[string]int{}
	walks := 400
	if testing.Short() {
		walks = 50
	}
	for seed := range uint64(walks) {
		synctest.Test(t, func(t *testing.T) {
			w := &seamWalk{seam: newSeam(t, fmt.Sprint("seed ", seed)), rng: rand.New(rand.NewPCG(seed, 3)), seen: seen}
			w.l.rules.DisconnectGrace = time.Duration(seed%3) * 100 * time.Millisecond
			w.l.rules.CoolDown = seed%5 == 0
			w.l.rules.Ages = seed%3 == 1
			w.walk()
		})
	}
	for _, want := range []string{"promote", "demote", "finish", "look", "examine", "send(release)"} {
		n := 0
		for shape, count := range seen {
			if strings.Contains(shape, want) {
				n += count
			}
		}
		if n == 0 {
			t.Errorf("no answer of the core had %q", want)
		}
	}
	t.Logf("%d shapes of answers", len(seen))
}

// A seamWalk drives the core at random.
type seamWalk struct {
	*seam

	rng  *rand.Rand
	seen map[string]int
	rev  uint64
	n    int
}

func (w *seamWalk) walk() {
	state := machine.State{}
	w.rev = 1
	for i := range 60 {
		ev := w.event(i, state)
		w.n++
		ev.Token, ev.Rand = fmt.Sprint("token", w.n), w.rng.Uint64()
		before := state
		next, actions := w.l.rules.Step(state, ev, w.e.clock.now())
		w.seen[shape(before, next, actions)]++
		state = next
		w.answer(state, actions)
		if w.rng.IntN(40) == 0 { // which the core never does
			stray := []string{"promote", "demote"}[w.rng.IntN(2)]
			w.answer(state, actionsOf([]string{stray}))
		}
		time.Sleep(time.Duration(w.rng.Int64N(int64(300 * time.Millisecond))))
	}
	next, actions := w.l.rules.Step(state, machine.Event{Kind: machine.StopLeave}, w.e.clock.now())
	w.seen[shape(state, next, actions)]++
	w.answer(next, actions)
	w.end()
}

// event draws what happens next: answers to what is under way more often than
// the rest.
func (w *seamWalk) event(i int, s machine.State) machine.Event {
	if i == 0 {
		return machine.Event{Kind: machine.Start}
	}
	if i == 1 {
		return machine.Event{Kind: machine.Observed, Seen: machine.Seen{Kind: machine.Absent}}
	}
	switch w.rng.IntN(16) {
	case 0, 1, 2, 3, 4:
		w.rev++
		out := machine.OK
		if w.rng.IntN(3) == 0 {
			out = machine.Outcome(w.rng.IntN(5))
		}
		return machine.Event{Kind: machine.Written, Op: s.Write.Op, Outcome: out, Rev: w.rev}
	case 5, 6:
		w.rev++
		seen := s.View
		seen.Rev = w.rev
		return machine.Event{Kind: machine.Read, Op: s.Write.Op, Outcome: machine.Outcome(w.rng.IntN(5) / 2), Seen: seen}
	case 7, 8:
		return machine.Event{Kind: machine.Drained}
	case 9:
		w.rev++
		return machine.Event{Kind: machine.Observed, Seen: machine.Seen{
			Kind: machine.Kind(1 + w.rng.IntN(5)), Rev: w.rev, Rec: machine.Record{ID: "b", Token: fmt.Sprint("b", w.n), TTL: time.Second},
		}}
	case 10:
		return machine.Event{Kind: machine.ConnDown}
	case 11:
		return machine.Event{Kind: machine.ConnUp}
	case 12:
		return machine.Event{Kind: machine.Leave, Exit: machine.Exit{Reason: machine.ReasonResigned}}
	case 13:
		return machine.Event{Kind: machine.Closed, Term: s.Grant.Term}
	case 14:
		if s.Grant.Examine != 0 {
			return machine.Event{Kind: machine.Examined, Op: s.Grant.Examine, Outcome: machine.Outcome(w.rng.IntN(2)), Doubt: time.Duration(w.rng.IntN(2)) * time.Second}
		}
		return machine.Event{
			Kind: []machine.EventKind{machine.Bar, machine.Unbar}[w.rng.IntN(2)], Bars: machine.Unhealthy,
			Exit: machine.Exit{Reason: machine.ReasonUnhealthy},
		}
	default:
		return machine.Event{Kind: machine.Tick}
	}
}

// shape is a list of actions as ../machine/testdata/actions.txt has it.
func shape(before, after machine.State, actions []machine.Action) string {
	names := make([]string, len(actions))
	for i, a := range actions {
		names[i] = a.Kind.String()
		if a.Kind == machine.Send || a.Kind == machine.Look {
			names[i] += "(" + a.Write.String() + ")"
		}
	}
	return fmt.Sprintf("%v to %v: %s", before.Phase, after.Phase, strings.Join(names, " "))
}

// Every shape of answer that the explorer and the simulation of the core have
// seen goes through the runtime, between all states that are in its phases.
func TestTheRuntimeBearsEveryShapeThatTheExplorerSaw(t *testing.T) {
	text, err := os.ReadFile("../machine/testdata/actions.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		n++
		phases, list, ok := strings.Cut(line, ":")
		from, to, ok2 := strings.Cut(phases, " to ")
		names := strings.Fields(list)
		for i, name := range names {
			if strings.HasPrefix(name, "look(") { // what is read for is nothing to the runtime
				names[i], name = "look", "look"
			}
			if _, known := seamActions[name]; !known {
				t.Errorf("%q: %q is an action unknown to this test", line, name)
			}
		}
		tried := 0
		synctest.Test(t, func(t *testing.T) {
			for a, before := range seamStates(machine.Instant{}) {
				for b, after := range seamStates(machine.Instant{}) {
					if before.Phase.String() == strings.TrimSpace(from) && after.Phase.String() == strings.TrimSpace(to) {
						try(t, a, names, b)
						tried++
					}
				}
			}
		})
		if !ok || !ok2 || tried == 0 {
			t.Errorf("%q was not tried", line)
		}
	}
	if n == 0 {
		t.Error("no shapes")
	}
}
