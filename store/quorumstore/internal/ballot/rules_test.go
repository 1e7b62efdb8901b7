package ballot

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-ff2cb582/leader/store"
)

// This file is a second statement of the rules, from
// docs/reference/quorum-protocol.md alone. A checker follows one process by what
// can be seen from outside: the answers that it got, and the writes and outcomes
// that it returned. It reads nothing of a View. It allows more than the core
// does, which has policies, too.

type checker struct {
	members, quorum int
	set, leap       uint64
	now             int // counts events

	last     [MaxMembers]seen
	flying   [MaxMembers]flight
	drawn    map[Ballot]int // when a ballot was first used
	reports  map[Ballot]map[int]seen
	votes    map[Ballot]map[int]bool
	proposed map[Ballot]Acceptor
	showed   map[Ballot]map[int]Value // what members contained that was accepted at a ballot

	own      ID
	expected uint64
	version  uint64 // of own, once it was sent
	loose    int
}

// A seen is what a member contained.
type seen struct {
	Acceptor
	rev      uint64
	fresh    bool
	since    int                               // when it was told of
	most     struct{ promised, ballot Ballot } // that it ever showed
	anything bool                              // it was told of at all
}

func (s *seen) memory() bool {
	return s.Ballot != (Ballot{}) && !s.Promised.Less(s.most.promised) && !s.Ballot.Less(s.most.ballot)
}

type flight struct {
	content Acceptor
	over    seen
	accepts bool
}

func newChecker(g *Group) *checker { // of which it takes the members and the set alone
	return &checker{
		members: g.Members, quorum: g.Members/2 + 1, set: g.Set, leap: testLeap, drawn: map[Ballot]int{},
		reports: map[Ballot]map[int]seen{}, votes: map[Ballot]map[int]bool{}, proposed: map[Ballot]Acceptor{},
		showed: map[Ballot]map[int]Value{},
	}
}

// follow takes in an event and what the process did, and returns what the rules
// do not allow.
func (c *checker) follow(ev *Event, actions []Action) error {
	c.now++
	c.told(ev)
	for k := range actions {
		if err := c.did(&actions[k], ev); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) told(ev *Event) {
	m, f := &c.last[ev.Member], &c.flying[ev.Member]
	switch {
	case ev.Kind == Begin:
		c.own, c.expected, c.version, c.loose = ev.Own.ID, ev.Expected, 0, 0
	case ev.Kind == Wrote && ev.Outcome == store.OK:
		c.applied(ev.Member, f)
		c.show(ev.Member, &f.content, ev.Rev, m.since)
	case ev.Kind == Wrote:
		if f.accepts && f.content.ID == c.own && ev.Outcome != store.Unknown {
			c.loose--
		}
		m.fresh = m.fresh && ev.Outcome != store.Conflict && ev.Outcome != store.Unknown
	case ev.Kind == Looked && ev.Outcome == store.OK, ev.Kind == Seen:
		since := c.now
		if m.anything && m.rev == ev.Rev {
			since = m.since
		}
		c.show(ev.Member, &ev.Seen, ev.Rev, since)
	}
}

func (c *checker) show(i int, a *Acceptor, rev uint64, since int) {
	m := &c.last[i]
	m.Acceptor, m.rev, m.fresh, m.since, m.anything = *a, rev, true, since, true
	if a.Ballot != (Ballot{}) && !a.Founding {
		if c.showed[a.Ballot] == nil {
			c.showed[a.Ballot] = map[int]Value{}
		}
		c.showed[a.Ballot][i] = a.Value
	}
	if m.most.promised.Less(a.Promised) {
		m.most.promised = a.Promised
	}
	if m.most.ballot.Less(a.Ballot) {
		m.most.ballot = a.Ballot
	}
}

// applied notes what an acknowledged write promises and accepts (Q3, Q5).
func (c *checker) applied(i int, f *flight) {
	note := func(b Ballot, s seen) {
		if c.reports[b] == nil {
			c.reports[b] = map[int]seen{}
		}
		c.reports[b][i] = s
	}
	if !f.accepts {
		note(f.content.Promised, f.over)
		return
	}
	b := f.content.Ballot
	if f.over.memory() || f.content.Founding {
		if c.votes[b] == nil {
			c.votes[b] = map[int]bool{}
		}
		c.votes[b][i] = true
		if f.content.Promised != b {
			s := f.over
			s.Acceptor = f.content
			s.most.promised, s.most.ballot = Ballot{}, Ballot{}
			note(f.content.Promised, s)
		}
	}
}

func (c *checker) did(a *Action, ev *Event) error {
	if a.Kind == Write {
		return c.wrote(a, ev)
	}
	if a.Kind == Done {
		return c.ended(a)
	}
	return nil
}

func (c *checker) wrote(a *Action, ev *Event) error {
	m, n := &c.last[a.Member], &a.Content
	f := flight{content: *n, over: *m}
	f.accepts = n.Ballot != (Ballot{}) && n.Ballot != m.Ballot
	c.flying[a.Member] = f
	switch {
	case !m.anything || a.Expected != m.rev:
		return fmt.Errorf("Q2: member %d is moved from revision %d, which it did not show", a.Member, a.Expected)
	case m.Set != 0 && m.Set != c.set, n.Set != c.set:
		return fmt.Errorf("Q1: member %d of set %d is written as set %d", a.Member, m.Set, n.Set)
	case f.accepts:
		return c.accepts(a.Member, m, n, ev)
	}
	want := m.Acceptor
	if !m.memory() {
		want = Acceptor{Marked: m.Marked || m.Ballot != (Ballot{})}
	}
	want.Set, want.Promised = c.set, n.Promised
	if !m.Promised.Less(n.Promised) || *n != want {
		return fmt.Errorf("Q3: %+v is promised over %+v", n, m)
	}
	if _, ok := c.drawn[n.Promised]; !ok {
		c.drawn[n.Promised] = c.now
	}
	return nil
}

func (c *checker) accepts(i int, m *seen, n *Acceptor, ev *Event) error {
	b := n.Ballot
	if b.Less(m.Promised) {
		return fmt.Errorf("Q5: member %d accepts %v over a promise of %v", i, b, m.Promised)
	}
	if was, ok := c.proposed[b]; ok && (was.Value != n.Value || was.Founding != n.Founding) {
		return fmt.Errorf("Q4: ballot %v carries %v and %v", b, &was.Value, &n.Value)
	}
	if _, ok := c.proposed[b]; !ok {
		if err := c.justified(n, ev); err != nil {
			return err
		}
		c.proposed[b] = *n
	}
	if n.ID == c.own {
		c.loose++
		c.version = n.Version
	}
	switch {
	case m.memory():
	case n.Founding && m.Promised != b:
		return fmt.Errorf("Q9: member %d is founded, and its promise of %v is gone", i, b)
	case n.Founding:
	case len(c.votes[b]) < c.quorum:
		return fmt.Errorf("Q7: member %d is healed by %v, which %d members chose", i, b, len(c.votes[b]))
	default:
		return c.heals(i, m.since, b)
	}
	return nil
}

func (c *checker) heals(i, since int, b Ballot) error {
	// At the same event the member was seen first: acts follow their event.
	if since > c.drawn[b] {
		return fmt.Errorf("Q7: member %d is healed by %v, drawn before it was seen without memory", i, b)
	}
	for _, r := range c.reports[b] {
		if r.Promised.Counter+c.leap > b.Counter {
			return fmt.Errorf("Q7: member %d is healed by %v, which is not above %v by the leap", i, b, r.Promised)
		}
	}
	return nil
}

// justified judges what a ballot proposes by its reports (Q4, Q9).
func (c *checker) justified(n *Acceptor, ev *Event) error {
	reports := c.reports[n.Ballot]
	var highest Acceptor
	remember, founded, remains := 0, 0, false
	for i, r := range reports {
		remains = remains || r.Marked || r.Ballot != (Ballot{}) && (!r.Founding || r.Version != 0)
		if !r.memory() {
			if n.Founding {
				if err := c.heals(i, r.since, n.Ballot); err != nil {
					return err
				}
			}
			continue
		}
		remember++
		if highest.Ballot.Less(r.Ballot) {
			highest = r.Acceptor
		}
	}
	for _, r := range reports {
		if r.Founding && r.Ballot == highest.Ballot {
			founded++
		}
	}
	if n.Founding {
		bare := Value{}
		if remains {
			bare = Value{Version: n.Version, Tombstone: true}
		}
		switch {
		case len(reports) < c.members:
			return fmt.Errorf("Q9: %v founds a key by %d promises", n.Ballot, len(reports))
		case remember >= c.quorum && !highest.Founding:
			return fmt.Errorf("Q9: %v founds a key that %d members remember", n.Ballot, remember)
		case n.Value != bare || remains && n.Version < ev.Clock:
			return fmt.Errorf("Q9: a key is founded by %+v", n.Value)
		}
		return nil
	}
	follows := [MaxChain]Short{highest.ID.Short()} // a chain has one ancestor in tests
	own := n.ID == c.own && n.Ancestors == follows && highest.Version == c.expected &&
		(c.expected != 0 && n.Version == c.expected+1 || c.expected == 0 && (n.Version >= ev.Clock || n.Version == c.version))
	switch {
	case remember < c.quorum:
		return fmt.Errorf("Q4: %v proposes by the reports of %d members with memory", n.Ballot, remember)
	case highest.Founding && founded < c.members:
		return fmt.Errorf("Q9: %v proposes when %d members are founded", n.Ballot, founded)
	case n.Value != highest.Value && !own:
		return fmt.Errorf("Q4: %v proposes %v over %v", n.Ballot, &n.Value, &highest.Value)
	}
	return nil
}

// ended judges an outcome (Q8).
func (c *checker) ended(a *Action) error {
	for _, members := range c.showed {
		if len(members) < c.quorum {
			continue
		}
		for _, v := range members {
			if c.decides(&v, a) {
				return nil
			}
		}
	}
	switch {
	case a.Outcome == store.OK:
		return fmt.Errorf("Q8: OK for a value that no chosen value is or follows")
	case a.Outcome != store.Unknown && c.loose > 0:
		return fmt.Errorf("Q8: %v, when %d acceptances may be applied", a.Outcome, c.loose)
	}
	return nil
}

// decides reports whether a call may end with a since v is chosen: its version,
// or another between the expected one and that, belongs to an ID.
func (c *checker) decides(v *Value, a *Action) bool {
	for k, call := range append([]Short{v.ID.Short()}, v.Ancestors[:]...) {
		version := v.Version - uint64(k)
		if k > 0 && call == 0 || version > v.Version || version <= c.expected {
			break
		}
		if version > c.version {
			continue
		}
		if call == c.own.Short() {
			return a.Outcome == store.OK && a.Version == version
		}
		return a.Outcome == store.Conflict
	}
	return false
}

// obeys takes random ways through a family of worlds, with a checker for each
// process, and returns the first act that the rules do not allow.
func obeys(c config, walks int) (acts int, err error) {
	s := newSim(c)
	var all [maxProcs]*checker
	s.observe = func(p int, _ *View, ev *Event, actions []Action, _ *View) {
		acts += len(actions)
		if e := all[p].follow(ev, actions); e != nil && err == nil {
			err = fmt.Errorf("process %d, event %+v: %w", p, *ev, e)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range walks {
		if err != nil {
			break
		}
		for p := range all {
			all[p] = newChecker(s.groups[p])
		}
		for w := s.root(); err == nil; {
			next := s.successors(&w)
			if len(next) == 0 {
				break
			}
			w = s.perform(&w, &next[r.IntN(len(next))])
		}
	}
	return acts, err
}

// TestEveryActIsAllowed holds the core against the rules.
func TestEveryActIsAllowed(t *testing.T) {
	for _, c := range families() {
		t.Run(c.name, func(t *testing.T) {
			acts, err := obeys(c, 300)
			t.Logf("%d acts", acts)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWrongCoresAreRefused has the rules judge the mutants.
func TestWrongCoresAreRefused(t *testing.T) {
	all := families()
	for _, mu := range mutations {
		if mu.hidden {
			continue
		}
		t.Run(mu.name, func(t *testing.T) {
			c := all[slices.IndexFunc(all, func(c config) bool { return c.name == mu.family })]
			c.mutant = mu.mutant
			acts, err := obeys(c, 2000)
			if err == nil {
				t.Fatalf("not refused in %d acts", acts)
			}
			t.Logf("refused after %d acts: %v", acts, err)
		})
	}
}
