package leader_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// Hooks that return a copy of themselves for each election would be asked for
// more without end.
func TestHooksThatReturnThemselvesAreAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, told := 0, 0
		var shared leader.Hooks
		shared.PerElection = func(leader.Election, leader.ElectionConfig) leader.Hooks {
			asked++
			if asked > 100 {
				return leader.Hooks{}
			}
			own := shared
			own.Transition = func(leader.Transition) { told++ }
			return own
		}
		cfg := config("a")
		cfg.Hooks = shared
		a := start(t, memstore.New(), cfg)
		time.Sleep(ttl)
		mustLead(t, a)
		if asked != 1 || told == 0 {
			t.Errorf("asked %d times, told of %d transitions", asked, told)
		}
	})
}
