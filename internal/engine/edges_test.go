package engine

import (
	"testing"
	"testing/synctest"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// Where our code panics after OnDemote, the demotion is asked for again.
func TestEndOfATermIsReportedOnce(t *testing.T) {
	c := New(memstore.New(), testConfig())
	told := 0
	c.OnDemote(func() { told++ })
	w := &window{term: leadership.Term{Number: 7}, promoted: true}
	c.callbacks.demote(w)
	c.callbacks.demote(w)
	if told != 1 {
		t.Errorf("notified %d times", told)
	}
}

// A second answer would come while the work of a later term is under way, and
// would end that work's term by mistake.
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

// Messages to the leader of an earlier term, or to another leader, are not for
// this one. A leader that heard its own message would hand over to itself.
func TestLeaderIgnoresStandingsForOtherTerms(t *testing.T) {
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
