package ballot

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

// A mutant is a core with one mistake, made from outside. The zero value is the
// core as it is.
type mutant struct {
	name  string
	group func(*Group)
	step  func(g *Group, v View, ev Event) (View, []Action)
}

func (mu *mutant) doStep(g *Group, v View, ev Event) (View, []Action) {
	if mu.step == nil {
		return g.Step(v, ev)
	}
	return mu.step(g, v, ev)
}

// before makes a mutant's step that spoils what Step gets to see.
func before(spoil func(g *Group, v *View, ev *Event)) func(*Group, View, Event) (View, []Action) {
	return func(g *Group, v View, ev Event) (View, []Action) {
		spoil(g, &v, &ev)
		return g.Step(v, ev)
	}
}

// after makes a mutant's step that spoils what Step leaves. before is the view
// of before.
func after(spoil func(s *step, before *View)) func(*Group, View, Event) (View, []Action) {
	return func(g *Group, v View, ev Event) (View, []Action) {
		t, actions := g.Step(v, ev)
		s := step{Group: g, v: &t, c: &t.Call, ev: &ev, out: actions}
		spoil(&s, &v)
		return t, s.out
	}
}

// rechain replaces the ancestors of the call's own proposal.
func (s *step) rechain(calls [MaxChain]Short) {
	s.c.Own.Ancestors = calls
	if s.c.Proposal.ID == s.c.Own.ID {
		s.c.Proposal.Ancestors = calls
	}
	for k := range s.out {
		if a := &s.out[k]; a.Kind == Write && a.Content.ID == s.c.Own.ID {
			a.Content.Ancestors = calls
			s.v.Members[a.Member].Sent.Ancestors = calls
		}
	}
}

// A mutation is a mistake with the family of worlds that shows it.
type mutation struct {
	mutant
	family string
	begins []next   // where in the family it is looked for
	want   []string // the judgements of which one must fall
	hidden bool     // from the checker of single acts (rules_test.go)
}

// wipedBetween has a member promise the ballots of two processes, and forget
// both.
var wipedBetween = []next{{kind: kBegin}, {kind: kApply}, {kind: kBegin, who: 1}, {kind: kApply, who: 1}, {kind: kWipe}}

var mutations = []mutation{
	{
		mutant: mutant{name: "a minority counts as a majority", group: func(g *Group) { g.quorum = g.Members / 2 }},
		family: "two proposers", want: []string{"one ID", "order", "conflict"},
	},
	{
		mutant: mutant{name: "a read counts as a vote", step: after(func(s *step, _ *View) {
			if i := s.ev.Member; s.ev.Kind == Looked && s.c.Stage == Preparing && !s.c.Reports.Has(i) && s.member().Promised.Less(s.c.Ballot) {
				s.report(i, &s.member().Acceptor, s.member().remembers())
				s.progress()
			}
		})},
		family: "two proposers", want: []string{"one ID", "order", "conflict"},
	},
	{
		mutant: mutant{name: "an acceptance over a higher promise", step: before(func(_ *Group, v *View, ev *Event) {
			if ev.Kind == Looked && v.Call.Stage == Proposing && v.Call.Ballot.Less(ev.Seen.Promised) {
				ev.Seen.Promised = v.Call.Ballot
			}
		})},
		family: "two proposers", want: []string{"one ID", "order", "conflict"},
	},
	{
		mutant: mutant{name: "an empty register is one that promised nothing", step: after(func(s *step, _ *View) {
			for i := range s.members() {
				if m := &s.v.Members[i]; m.Fresh && m.Doing == Idle && !m.Accepted() {
					m.Ballot, m.Most = Ballot{0, 1}, struct{ Promised, Ballot Ballot }{}
				}
			}
		})},
		family: "wipe", want: []string{"one ID", "order", "conflict"},
	},
	{
		mutant: mutant{name: "a member without memory votes", step: after(func(s *step, _ *View) {
			for i := range s.members() {
				if m := &s.v.Members[i]; s.c.Stage == Proposing && m.Fresh && m.Doing == Idle && !m.remembers() && !s.c.Ballot.Less(m.Promised) {
					s.send(i, Accepting, s.proposal())
				}
			}
		})},
		family: "wipe", want: []string{"one ID", "order", "conflict"},
	},
	{
		mutant: mutant{name: "healing by a ballot drawn before the wipe", step: func(g *Group, v View, ev Event) (View, []Action) {
			if ev.Kind == Begin || ev.Kind == Retry {
				v.Counter += g.Leap // so that each could be a healing ballot
			}
			t, actions := g.Step(v, ev)
			t.Call.Heal = 1<<g.Members - 1
			return t, actions
		}},
		family: "wipe", begins: wipedBetween, want: []string{"one ID", "order", "conflict", "G5"},
	},
	{
		mutant: mutant{name: "healing without the leap", group: func(g *Group) { g.Leap = 1 }},
		family: "three proposers and a wipe", want: []string{"one ID", "order", "conflict", "G5"},
	},
	{
		mutant: mutant{name: "a member that shows less goes on voting", step: after(func(s *step, _ *View) {
			for i := range s.members() {
				s.v.Members[i].Most = struct{ Promised, Ballot Ballot }{}
			}
		})},
		family: "a member goes back", want: []string{"one ID", "order", "conflict"},
	},
	{
		mutant: mutant{name: "the same value at two ballots is shown", step: after(func(s *step, _ *View) {
			for i := range s.members() {
				n := 0
				for k := range s.members() {
					if s.v.Members[k].Value == s.v.Members[i].Value {
						n++
					}
				}
				if v := s.v.Members[i].Value; n >= s.quorum && v.Version > s.v.Shown.Version {
					s.v.Shown = v
				}
			}
		})},
		family: "reader", want: []string{"one ID", "order", "conflict"}, hidden: true, // a reader does nothing
	},
	{
		mutant: mutant{name: "Transient after an acceptance left", step: before(func(_ *Group, v *View, ev *Event) {
			if ev.Kind == Cancel {
				v.Call.Loose = 0
			}
		})},
		family: "lost answers", want: []string{"honesty"},
	},
	{
		mutant: mutant{name: "Conflict although the chain does not reach", step: before(func(_ *Group, v *View, ev *Event) {
			if c := &v.Call; ev.Kind != Cancel && v.Shown.Version > c.Expected || ev.Kind == Wrote && ev.Outcome == store.OK && c.Proposal.ID != c.Own.ID {
				c.Loose = 0
			}
		})},
		family: "overtaken", want: []string{"honesty"},
	},
	{
		mutant: mutant{name: "a chain begins with the value itself", step: after(func(s *step, before *View) {
			if s.c.Own.Ancestors != before.Call.Own.Ancestors {
				s.rechain([MaxChain]Short{s.c.Own.ID.Short()})
			}
		})},
		family: "lost answers", want: []string{"one ID", "honesty"},
	},
	{
		mutant: mutant{name: "a chain is kept from an earlier attempt", step: after(func(s *step, before *View) {
			if c := &before.Call; s.c.Stage != Ended && s.c.Own.ID == c.Own.ID && c.Own.Ancestors != s.c.Own.Ancestors && c.Own.Version != 0 {
				s.rechain(c.Own.Ancestors)
			}
		})},
		family: "guess", want: []string{"one ID", "honesty"},
	},
	{
		mutant: mutant{name: "a version begins below a forgotten one", step: before(func(_ *Group, v *View, ev *Event) {
			ev.Clock, v.Newest = 0, 0
		})},
		family: "deletion by hand", want: []string{"one ID", "order", "conflict", "G5"},
	},
	{
		mutant: mutant{name: "a version is reused", step: before(func(_ *Group, v *View, _ *Event) {
			if c := &v.Call; c.Own.Version == 0 && c.Expected > 0 && c.Expected < unlikely {
				c.Own.Version = c.Expected
			}
		})},
		family: "two proposers", want: []string{"one ID", "order", "conflict", "G5"},
	},
	{
		mutant: mutant{name: "the lead is kept after it was used", step: after(func(s *step, before *View) {
			if before.Lead != (Ballot{}) && s.v.Lead == (Ballot{}) {
				s.v.Lead, s.v.Led = before.Lead, before.Led
			}
		})},
		family: "holder", want: []string{"one ID", "order", "conflict", "honesty"},
	},
	{
		mutant: mutant{name: "the lead is one that a minority promised", step: after(func(s *step, before *View) {
			if s.ev.Kind == Wrote && s.ev.Outcome == store.OK && s.c.Stage == Proposing && s.c.Votes != 0 && before.Call.Own == s.c.Own {
				s.v.Lead, s.v.Led = s.c.Next, s.c.Proposal
			}
		})},
		family: "holder and challenger", want: []string{"one ID", "order", "conflict", "honesty"},
	},
	{
		mutant: mutant{name: "a release keeps the lead", step: after(func(s *step, before *View) {
			if c := &before.Call; c.Own.Tombstone && s.c.Stage == Ended && s.v.Shown.ID == c.Own.ID {
				s.v.Lead, s.v.Led = Ballot{c.Ballot.Counter + 1, s.ev.Random}, s.v.Shown
			}
		})},
		family: "release", want: []string{"one ID", "order", "conflict"},
	},
	{
		mutant: mutant{name: "a majority decides where too few remember", group: func(g *Group) { g.all = g.quorum }},
		family: "deletion by hand", want: []string{"one ID", "order", "conflict"},
	},
	{
		mutant: mutant{name: "nothing, although a register was marked", step: before(func(_ *Group, v *View, ev *Event) {
			v.Call.Remains, ev.Seen.Marked = false, false
		})},
		family: "deletion by hand", want: []string{"one ID", "order", "conflict"},
	},
	{
		mutant: mutant{name: "a key is founded by a majority", group: func(g *Group) { g.all = g.quorum }},
		family: "first value", want: []string{"one ID", "order", "conflict", "G5"},
	},
	{
		mutant: mutant{name: "a founding value is taken for a chosen one", step: before(func(_ *Group, v *View, ev *Event) {
			ev.Seen.Founding = false
			for i := range v.Members {
				v.Members[i].Founding = false
			}
		})},
		family: "first value", want: []string{"one ID", "order", "conflict", "G5"},
	},
	{
		mutant: mutant{name: "two sets of members write one key", step: before(func(g *Group, _ *View, ev *Event) {
			if ev.Seen.Set != 0 {
				ev.Seen.Set = g.Set
			}
		})},
		family: "two sets", want: []string{"one ID", "order", "conflict"},
	},
}

// TestMutations proves the explorer: each mistake must lead it to a
// counterexample in a family in which TestExplore finds none.
func TestMutations(t *testing.T) {
	all := families()
	for _, mu := range mutations {
		t.Run(mu.name, func(t *testing.T) {
			at := slices.IndexFunc(all, func(c config) bool { return c.name == mu.family })
			if at < 0 {
				t.Fatalf("no family %q", mu.family)
			}
			c := all[at]
			c.mutant = mu.mutant
			c.begins = append(c.begins, mu.begins...)
			c.most = *exploreMost
			x := newExplorer(c)
			bad := x.run()
			if bad == "" {
				t.Fatalf("not caught in %d worlds", x.worlds)
			}
			t.Logf("caught after %d worlds by %s, in %d steps\n%s", x.worlds, bad, len(x.path), x.story())
			if judgement, _, _ := strings.Cut(bad, ":"); !slices.Contains(mu.want, judgement) {
				t.Errorf("caught by %s, want one of %v", judgement, mu.want)
			}
		})
	}
}
