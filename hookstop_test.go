package leader_test

import (
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
