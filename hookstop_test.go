package leader_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A hook runs on the goroutine that a stop waits for.
func TestStopAndResignFromAHookDoNotDeadlock(t *testing.T) {
	for name, leave := range map[string]func(leader.Election) error{
		"stop":   leader.Election.Stop,
		"resign": func(e leader.Election) error { return e.Resign(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a leader.Election
				cfg := config("a")
				cfg.Hooks.Transition = func(tr leader.Transition) {
					if tr.To == leader.StateLeader {
						if err := leave(a); err != nil {
							t.Error(err)
						}
					}
				}
				a = candidate(t, memstore.New(), cfg)
				started(t, a)
				mustNotLead(t, a)
				halt(t, a)
			})
		})
	}
}

// What is told while the election ends is told by the same goroutine, for whose
// end a stop waits.
func TestAStopFromAHookOfTheEndDoesNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a leader.Election
		cfg, told := config("a"), false
		cfg.Hooks.Note = func(n leader.Note) {
			if told = true; n.Kind == leader.NoteOverrun {
				if err := a.Stop(); err != nil {
					t.Error(err)
				}
			}
		}
		a = candidate(t, memstore.New(), cfg)
		hang := make(chan struct{})
		defer close(hang)
		a.OnLeaderChange(func(leader.LeaderInfo) { <-hang })
		mustLead(t, started(t, a))
		if err := a.Stop(); !errors.Is(err, leader.ErrDemoteTimeout) || !told {
			t.Errorf("%v; the hook was called: %v", err, told)
		}
	})
}
