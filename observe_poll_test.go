package leader_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/internal/record"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// lags returns a store whose every other read shows a record as it now is.
func lags(t *testing.T, st store.Store) *lagging {
	t.Helper()
	old, err := st.Get(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	return &lagging{Store: st, old: old}
}

// An older state is no news, and the state after it no renewal: each would
// prolong the lease of a leader that is dead.
func TestAnObserverThatPollsALaggingReplicaSeesADeadLeaderExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		put(t, st, "g", record.Record{ID: "x", Token: "t", TTL: ttl.Milliseconds(), Term: 1})
		twoReplicas := lags(t, st)
		renew(t, st, "g", holder("x", ttl))
		ctx, cancel := context.WithCancel(t.Context())
		done := watchGroup(ctx, twoReplicas, j)
		time.Sleep(time.Hour)
		j.demand(t, `"x" term 1 `, `"" term 1 expired`)
		cancel()
		<-done
	})
}

func TestAnObserverThatPollsALaggingReplicaIsToldOfASuccessionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, j := memstore.New(), newJournal()
		put(t, st, "g", record.Record{ID: "x", Token: "t", TTL: time.Hour.Milliseconds(), Term: 1})
		twoReplicas := lags(t, st)
		put(t, st, "g", record.Record{ID: "y", Token: "u", TTL: time.Hour.Milliseconds(), Term: 2})
		ctx, cancel := context.WithCancel(t.Context())
		done := watchGroup(ctx, twoReplicas, j)
		time.Sleep(10 * time.Minute)
		j.demand(t, `"y" term 2 `)
		cancel()
		<-done
	})
}

// A refusing store has no watch, and its reads fail for as long as it has an
// error for them.
type refusing struct {
	store.Store

	errs []error
}

func (r *refusing) Get(ctx context.Context, key string) (store.Entry, error) {
	if len(r.errs) == 0 {
		return r.Store.Get(ctx, key)
	}
	err := r.errs[0]
	if len(r.errs) > 1 || !errors.Is(err, store.ErrClosed) {
		r.errs = r.errs[1:]
	}
	return store.Entry{}, err
}

// Not every store tells of its connection: a read may be the first to find it
// closed.
func TestAPolledStoreThatIsClosedEndsAnObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		st := &refusing{memstore.New(), []error{store.ErrClosed}}
		if err := leader.ObserveFuncWithStore(ctx, st, "g", leader.Observer{}); !errors.Is(err, leader.ErrConnectionClosed) {
			t.Errorf("ObserveFunc: %v", err)
		}
		if _, err := leader.SnapshotWithStore(ctx, st, "g"); !errors.Is(err, leader.ErrConnectionClosed) {
			t.Errorf("Snapshot: %v", err)
		}
		var last error
		for _, err := range leader.ObserveWithStore(ctx, st, "g") {
			last = err
		}
		if !errors.Is(last, leader.ErrConnectionClosed) {
			t.Errorf("Observe: %v", last)
		}
	})
}

// What fails for good is told as of a store that cannot be watched, and tried
// again; what passes by itself is not told.
func TestAPolledStoreThatMayNotBeReadIsToldToTheObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		forbidden := func() *refusing {
			return &refusing{memstore.New(), []error{store.ErrTransient, store.ErrPermanent, store.ErrTransient}}
		}
		if err := leader.ObserveFuncWithStore(ctx, forbidden(), "g", leader.Observer{}); !errors.Is(err, store.ErrPermanent) {
			t.Errorf("ObserveFunc: %v", err)
		}
		if _, err := leader.SnapshotWithStore(ctx, forbidden(), "g"); !errors.Is(err, store.ErrPermanent) {
			t.Errorf("Snapshot: %v", err)
		}
		var told []store.Outcome
		for _, err := range leader.ObserveWithStore(ctx, forbidden(), "g") {
			if told = append(told, store.Classify(err)); err == nil {
				break
			}
		}
		if want := []store.Outcome{store.Permanent, store.OK}; !slices.Equal(told, want) {
			t.Errorf("Observe yielded %v, want %v", told, want)
		}
		j := newJournal()
		done := observeFunc(ctx, t, forbidden(), "g", j)
		time.Sleep(time.Minute)
		j.demand(t, "failed permanent", `g "" absent`, "present")
		cancel()
		<-done
	})
}
