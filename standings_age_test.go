package leader_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/internal/record"
)

// A claim that takes many attempts begins one term. Each attempt used to age
// the standings by a term, until none was left.
func TestTheAttemptsOfOneClaimAgeTheStandingsByOneTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 0
		f := network(t, func(c faultstore.Call) (fate faultstore.Fate) {
			if c.Op == faultstore.CompareAndSwap && c.Key == "g" && c.Client == "b" && failures > 0 {
				failures--
				fate.Lose = true
			}
			return fate
		})
		a := start(t, f.Client("a"), ranked("a", 1))
		b := start(t, f.Client("b"), ranked("b", 2))
		start(t, f.Client("c"), ranked("c", 3))
		time.Sleep(2 * ttl)
		mustLead(t, a, b)
		f.Partition("c") // it is there, but does not claim
		failures = 4
		halt(t, a)
		for !b.IsLeader() {
			time.Sleep(time.Millisecond)
		}
		var r record.Record
		if err := json.Unmarshal(f.Entry("g").Value, &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Standings) != 3 || failures > 0 {
			t.Errorf("%d standings of three: %+v", len(r.Standings), r.Standings)
		}
	})
}
