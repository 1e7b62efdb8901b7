package leaderkube_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/leaderkube"
	"github.com/seed-ff2cb582/leader/leadertest"
)

// patience is the DemoteTimeout of managers.
const patience = 40 * time.Second

// A manager is one of controller-runtime, with its work and its loop.
type manager struct {
	*side

	drains   time.Duration // how long its work takes to end
	began    chan struct{}
	finished time.Time // when its work had ended
}

func newManager(t *testing.T, g *leadertest.Group, drains time.Duration) *manager {
	t.Helper()
	return &manager{side: newSide(t, g, "a"), drains: drains, began: make(chan struct{})}
}

func newManaged(t *testing.T) *leadertest.Group {
	t.Helper()
	return leadertest.NewGroup(t, leader.ElectionConfig{TTL: ttl, HeartbeatInterval: beat, AcquireGrace: leader.GraceOff, DemoteTimeout: patience})
}

// start is Manager.Start: its loop has a separate context, which ends when the
// work has (controllerManager.engageStopProcedure).
func (m *manager) start(ctx context.Context) error {
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	m.lead(loop)
	close(m.began)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		m.renews(loop)
	}()
	<-ctx.Done()
	time.Sleep(m.drains)
	m.finished = time.Now()
	cancel()
	<-stopped
	return context.Cause(ctx)
}

// renews is LeaderElector.renew, with ReleaseOnCancel.
func (m *manager) renews(ctx context.Context) {
	defer m.RecordEvent("stopped leading")
	for m.renewed(ctx) {
		select {
		case <-ctx.Done():
		case <-time.After(timing.RetryPeriod):
		}
	}
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), timing.RenewDeadline)
	defer cancel()
	if r, _, err := m.Get(release); err != nil || r.HolderIdentity != m.Identity() {
		return
	}
	if err := m.Update(release, electionRecord{LeaseDurationSeconds: 1}); err != nil {
		m.t.Error(err)
	}
}

// renewed asks for up to a RenewDeadline.
func (m *manager) renewed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, timing.RenewDeadline)
	defer cancel()
	for {
		if ctx.Err() == nil && m.Update(ctx, m.renewal()) == nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(timing.RetryPeriod):
		}
	}
}

// heir starts another candidate, and returns when it leads.
func heir(t *testing.T, g *leadertest.Group) <-chan time.Time {
	t.Helper()
	leads := make(chan time.Time, 1)
	b := g.Join("b")
	b.OnPromote(func(context.Context, string) { leads <- time.Now() })
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return leads
}

// The loop of a manager gives up a lock that it has lost after a RenewDeadline,
// however long the work takes.
func TestARecordIsReleasedOnlyWhenTheManagerHasEnded(t *testing.T) {
	for drains, atMost := range map[time.Duration]time.Duration{
		time.Second:        time.Second,
		15 * time.Second:   15 * time.Second,
		patience + 5*drift: patience, // which bounds the wait
	} {
		t.Run(drains.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newManaged(t)
				a := newManager(t, g, drains)
				a.hangs = drains > patience
				ended := make(chan error, 1)
				go func() { ended <- a.Run(t.Context(), a.start) }()
				<-a.began
				leads := heir(t, g)
				time.Sleep(beat / 2)
				asked := time.Now()
				var promoting sync.WaitGroup
				promoting.Go(func() { g.Promote("b") })
				at := <-leads
				promoting.Wait()
				var loss *leader.LossError
				if err := <-ended; !errors.As(err, &loss) {
					t.Errorf("the manager has ended with %v", err)
				}
				if drains < patience && at.Before(a.finished) {
					t.Errorf("the next one leads %v after the request, and the manager works for %v", at.Sub(asked), a.finished.Sub(asked))
				}
				if late := at.Sub(asked) - atMost; late > 100*time.Millisecond {
					t.Errorf("the next one leads %v after the request, want %v", at.Sub(asked), atMost)
				}
			})
		})
	}
}

// A manager waits for its loop's release before it returns.
func TestManagerReleasesBeforeItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newManaged(t)
		a := newManager(t, g, 15*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx, a.start) }()
		<-a.began
		leads := heir(t, g)
		time.Sleep(beat / 2)
		cancel()
		at := <-leads
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if after := at.Sub(a.finished); after < 0 || after > 100*time.Millisecond || time.Since(a.finished) > 100*time.Millisecond {
			t.Errorf("the next one leads %v after the end of the work, and the manager returned %v after it", after, time.Since(a.finished))
		}
	})
}

// The work of a second loop holds up nothing of the first.
func TestARecordDoesNotWaitForTheManagerOfTheNextLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newManaged(t)
		a := newManager(t, g, 0)
		leads := make(chan time.Time, 1)
		if err := a.Run(t.Context(), func(ctx context.Context) error {
			a.lead(ctx)
			finish, working := make(chan struct{}), make(chan struct{})
			go a.Leading(func(context.Context) { close(working); <-finish })(ctx)
			<-working
			a.RecordEvent("stopped leading")
			go func() {
				_ = a.Run(t.Context(), func(ctx context.Context) error {
					close(finish)
					a.lead(ctx)
					leads <- time.Now()
					return nil
				})
			}()
			return nil
		}); err != nil {
			t.Error(err)
		}
		begun := time.Now()
		if after := (<-leads).Sub(begun); after > ttl+drift+beat {
			t.Errorf("it leads after %v", after)
		}
		a.RecordEvent("stopped leading")
	})
}

func TestARunOfALockThatWasClosedHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSide(t, newGroup(t), "a")
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := a.Run(t.Context(), context.Cause)
		if !errors.Is(err, leaderkube.ErrClosed) {
			t.Error(err)
		}
	})
}
