package leader_test

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/faultstore"
	"github.com/seed-ff2cb582/leader/internal/record"
)

// A tenure without end is how to say that nobody is taken over.
func TestATenureWithoutEndDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		f := network(t, func(c faultstore.Call) (fate faultstore.Fate) {
			if c.Op == faultstore.CompareAndSwap && c.Key == record.ControlKey("g") {
				asked.Add(1)
			}
			return fate
		})
		cfg := func(id string, p int) leader.ElectionConfig {
			c := takeover(id, p)
			c.MinTenure = math.MaxInt64
			return c
		}
		low, high := start(t, f.Client("low"), cfg("low", 1)), start(t, f.Client("high"), cfg("high", 2))
		time.Sleep(time.Hour)
		mustLead(t, low, high)
		if n := asked.Load(); n != 1 {
			t.Errorf("%d writes of the control record, where one makes the standing known", n)
		}
	})
}

// A record holds only so many standings. Who is behind all of them has nothing
// to say that it would show.
func TestWhoHasNoPlaceAmongTheStandingsFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int64
		f := network(t, func(c faultstore.Call) (fate faultstore.Fate) {
			if c.Op == faultstore.CompareAndSwap && c.Key == record.ControlKey("g") {
				writes.Add(1)
			}
			return fate
		})
		for p := range 3 * record.MaxStandings {
			id := fmt.Sprint("p", p)
			start(t, f.Client(id), ranked(id, p))
		}
		time.Sleep(100 * ttl)
		synctest.Wait()
		before := writes.Load()
		time.Sleep(1000 * ttl)
		if n := writes.Load() - before; n > 0 {
			t.Errorf("%d writes of the control record when all was said", n)
		}
	})
}
