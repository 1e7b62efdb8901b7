//go:build faults

package advisory_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/advisory"
	inject "github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A panic of the publishing goroutine costs its advisory, and neither the
// program nor those that follow.
func TestAPanicOfThePublisherDropsOneAdvisory(t *testing.T) {
	defer inject.Set(nil)
	synctest.Test(t, func(t *testing.T) {
		var passed atomic.Uint64
		inject.Set(func(point string) {
			if point == "advisory" && passed.Add(1) == 1 {
				panic("struck")
			}
		})
		p := advisory.New(nil, advisory.Options{})
		e, err := leader.NewElectionWithStore(memstore.New(), leader.ElectionConfig{
			Group: "g", InstanceID: "a", TTL: 3 * time.Second, HeartbeatInterval: time.Second, Hooks: p.Hooks(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
		if n := passed.Load(); n < 2 || p.Dropped() != n {
			t.Errorf("%d advisories, %d dropped", n, p.Dropped())
		}
	})
}
