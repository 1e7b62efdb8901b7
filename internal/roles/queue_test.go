package roles

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/engine"
	"github.com/seed-ff2cb582/leader/store"
)

// A caller is a store that calls the manager while it is checked, as a handler
// of the Logger may do when it gets the check's warnings.
type caller struct {
	store.Store

	check func(ctx context.Context, key string) error
}

func (c *caller) Check(ctx context.Context, req store.CheckRequest) (store.Report, error) {
	return store.Report{}, c.check(ctx, req.Key)
}

// Add waited for Start to return, and Start for the check.
func TestAddFromWithinTheCheckOfAStartDoesNotWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		m := manager(t, ttl)
		m.store = &caller{Store: m.store, check: func(_ context.Context, key string) error {
			if key != "one" {
				return nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if err := m.Add(ctx, role("late", ttl)); err != nil {
				t.Errorf("Add: %v", err)
			}
			return nil
		}}
		if err := m.Add(t.Context(), role("one", ttl)); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := m.Start(t.Context()); err != nil {
			t.Errorf("Start: %v", err)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("Start took %v", took)
		}
		time.Sleep(ttl)
		for _, name := range []string{"one", "late"} {
			if c := m.Candidate(name); c == nil || !c.IsLeader() {
				t.Errorf("%s is not led", name)
			}
		}
		if err := m.Stop(t.Context(), engine.StopOptions{WaitForDemote: true}); err != nil {
			t.Error(err)
		}
	})
}

// Stop waited until the check gave up by itself.
func TestStopEndsTheCheckOfAnAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Minute
		m := manager(t, ttl)
		m.store = &caller{Store: m.store, check: func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		added := make(chan error, 1)
		go func() { added <- m.Add(t.Context(), role("one", ttl)) }()
		synctest.Wait()
		begun := time.Now()
		if err := m.Stop(t.Context(), engine.StopOptions{WaitForDemote: true}); err != nil {
			t.Errorf("Stop: %v", err)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("Stop took %v", took)
		}
		if err := <-added; !errors.Is(err, engine.ErrStopped) {
			t.Errorf("Add: %v", err)
		}
	})
}

// After a panic of our own the counts by which roles move may be wrong.
func TestInternalPanicEndsSpreading(t *testing.T) {
	m := manager(t, 3*time.Second, "one", "two")
	m.others["b"] = 2
	m.candidacies["two"].leader = "b"
	m.guard("spreading", func() { panic("boom") })
	m.uneven = true
	m.look(time.Now().Add(time.Hour))
	if m.pull != nil {
		t.Errorf("%s is asked for", m.pull.s.name)
	}
}
