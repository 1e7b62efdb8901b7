package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/preference"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// Where our code panics after OnDemote, the demotion is asked for again.
func TestTheEndOfATermIsToldOnce(t *testing.T) {
	c := New(memstore.New(), testConfig())
	told := 0
	c.OnDemote(func() { told++ })
	w := &window{term: leadership.Term{Number: 7}, promoted: true}
	c.callbacks.demote(w)
	c.callbacks.demote(w)
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

// A second answer would come while the work of a later term is under way, and
// say that this has ended.
func TestTwoDemotionsInARowHaveOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeam(t, "two demotions")
		s.l.demote()
		s.l.demote()
		synctest.Wait()
		messages, _, _ := s.e.inbox.take()
		answers := 0
		for _, m := range messages {
			if m.event.Kind == machine.Drained {
				answers++
			}
		}
		if answers != 1 {
			t.Errorf("%d answers", answers)
		}
		s.l.undrained = false
		s.end()
	})
}

// What was said to the leader of an earlier term, or to another leader, is none
// of this one's. A leader that heard itself would hand over to itself.
func TestALeaderHearsWhatIsSaidToItInThisTerm(t *testing.T) {
	other := record.Stand{ID: "b", Term: 7, Priority: 1}
	for name, c := range map[string]struct {
		change func(*loop, *record.Stand)
		heard  int
	}{
		"in this term":       {func(*loop, *record.Stand) {}, 1},
		"in an earlier term": {func(_ *loop, s *record.Stand) { s.Term-- }, 0},
		"in a later term":    {func(_ *loop, s *record.Stand) { s.Term++ }, 0},
		"by itself":          {func(_ *loop, s *record.Stand) { s.ID = "a" }, 0},
		"to a follower":      {func(l *loop, _ *record.Stand) { l.state.Phase = machine.Watching }, 0},
		"to one that leaves": {func(l *loop, _ *record.Stand) { l.state.Phase = machine.Draining }, 0},
	} {
		l := &New(memstore.New(), testConfig()).loop
		l.state = machine.State{Phase: machine.Holding, Grant: machine.Grant{Token: "t", Term: 7}}
		said := other
		c.change(l, &said)
		l.hear(&said)
		if len(l.known) != c.heard {
			t.Errorf("%s: %v is known", name, l.known)
		}
	}
}

// An offer puts who takes it before all others.
func TestWhoLetsOthersGoFirstTakesNoOffers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*loop)
		takes  bool
	}{
		"a follower":                        {func(*loop) {}, true},
		"one that stood back":               {func(l *loop) { l.state.StandBackUntil = l.now() - 1 }, true},
		"one that stands back":              {func(l *loop) { l.state.StandBackUntil = l.now() + int64(time.Hour) }, false},
		"one that is barred":                {func(l *loop) { l.state.Barred = machine.Full }, false},
		"one whose work has not ended":      {func(l *loop) { l.state.Undrained = true }, false},
		"one that knows of others' ranks":   {func(l *loop) { l.known = preference.Standings{{Priority: 1}} }, false},
		"one that backs off":                {func(l *loop) { l.rules.Backoff = time.Second }, false},
		"the leader":                        {func(l *loop) { l.state.Phase = machine.Holding }, false},
		"one that has seen nothing of note": {func(l *loop) { l.state.View.Kind = machine.Absent }, false},
	} {
		l := &New(memstore.New(), testConfig()).loop
		l.prepare(t.Context(), l.cfg.Protocol(false))
		l.state = machine.State{Phase: machine.Watching, View: machine.Seen{Kind: machine.Held, Rev: 5, Rec: machine.Record{ID: "b"}}}
		c.change(l)
		l.tendOffers()
		if takes := l.offers != nil && l.offers.stop != nil; takes != c.takes {
			t.Errorf("%s takes offers: %t", name, takes)
		}
		l.end(func() {})
	}
}

// What is drawn for a record stands: with a new draw each time the loop turns,
// the earliest of all would win, and hundreds would nominate themselves.
func TestANominationIsPlannedOnceForEachRecord(t *testing.T) {
	plan := func(now int64, change ...func(*Config)) (*nomination, func(rev uint64, now int64)) {
		c := New(memstore.New(), testConfig(change...))
		n, rules := &c.loop.nomination, c.cfg.Protocol(false)
		next := func(rev uint64, now int64) {
			n.plan(&rules, &machine.State{
				Phase: machine.Watching, HeldTTL: 3 * time.Second,
				View: machine.Seen{Kind: machine.Held, Rev: rev, Rec: machine.Record{ID: "b", TTL: 3 * time.Second}},
			}, now)
		}
		next(5, now)
		return n, next
	}
	n, next := plan(0)
	first := n.at
	for range 20 {
		next(5, 0)
	}
	if first <= 0 || first == machine.Never || n.at != first || n.done {
		t.Errorf("planned for %d, then for %d, done: %t", first, n.at, n.done)
	}
	n.done = true
	next(6, 0)
	if n.done || n.at == machine.Never || n.revision != 6 {
		t.Errorf("the next record: planned for %d, done: %t", n.at, n.done)
	}
	// Those whose bar has fallen late.
	if n, _ := plan(int64(time.Hour)); !n.done {
		t.Errorf("planned for %d, which is past", n.at)
	}
	if n, _ := plan(0, func(c *Config) { c.Supervisor = &patient{} }); n.at != machine.Never {
		t.Errorf("planned for %d, and its supervisor decides", n.at)
	}
}
