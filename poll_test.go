package leader_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// A lagging store answers every other read from a replica that stands still at
// an old state.
type lagging struct {
	store.Store // and no watch
	old         store.Entry
	reads       atomic.Int64
}

func (l *lagging) Get(ctx context.Context, key string) (store.Entry, error) {
	if key == l.old.Key && l.reads.Add(1)%2 == 0 {
		return l.old, nil
	}
	return l.Store.Get(ctx, key)
}

// A read may be of any age. A follower that polls two replicas, of which one
// lags, must neither begin its wait anew with each answer nor take the lag for
// a store that lost writes.
func TestPollingALaggingReplicaStrandsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		a, err := leader.NewElectionWithStore(mem, config("a"))
		if err != nil {
			t.Fatal(err)
		}
		started(t, a)
		synctest.Wait()
		old, err := mem.Get(t.Context(), "g")
		if err != nil || !a.IsLeader() {
			t.Fatal(err, a.Status())
		}
		time.Sleep(5 * config("a").HeartbeatInterval)
		var regressed atomic.Int64
		cfg := config("b")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteRegressed {
				regressed.Add(1)
			}
		}
		b, err := leader.NewElectionWithStore(&lagging{Store: mem, old: old}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		started(t, b)
		time.Sleep(5 * cfg.HeartbeatInterval)
		if err := a.StopWithContext(t.Context(), leader.StopOptions{WaitForDemote: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * cfg.TTL)
		if !b.IsLeader() || regressed.Load() > 0 {
			t.Errorf("after two leases: %+v, %d regresses", b.Status(), regressed.Load())
		}
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
}
