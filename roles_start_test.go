package leader_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// The manager runs then, with the other roles, and a program that is told
// otherwise makes a second one.
func TestARoleThatIsRemovedWhileTheManagerStartsIsNoErrorOfIt(t *testing.T) {
	for _, verdict := range []error{nil, store.ErrTransient, store.ErrPermanent} {
		synctest.Test(t, func(t *testing.T) {
			st := &checked{Store: memstore.New(), hold: make(chan struct{})}
			f := newFleet(t, 2)
			m := f.manager(&checkedRole{checked: st, key: f.roles[1], err: verdict}, spreading("a"))
			errs := make(chan error, 1)
			go func() { errs <- m.Start(t.Context()) }()
			synctest.Wait()
			if err := m.Remove(t.Context(), f.roles[1]); err != nil {
				t.Errorf("Remove: %v", err)
			}
			close(st.hold)
			if err := <-errs; err != nil {
				t.Errorf("with the removed role's check at %v, Start: %v", verdict, err)
			}
			time.Sleep(ttl)
			mustHold(t, []int{1}, m)
			stopRoles(t, m)
		})
	}
}

// A checkedRole has a check that fails for one role.
type checkedRole struct {
	*checked

	key string
	err error
}

func (c *checkedRole) Check(ctx context.Context, r store.CheckRequest) (store.Report, error) {
	report, err := c.checked.Check(ctx, r)
	if r.Key == c.key {
		err = c.err
	}
	return report, err
}

// A sluggish store takes its time for each check, and from some check on
// answers none.
type sluggish struct {
	*checkedRole

	takes   time.Duration
	answers int
	mended  atomic.Bool
}

func (s *sluggish) Check(ctx context.Context, r store.CheckRequest) (store.Report, error) {
	report, err := s.checkedRole.Check(ctx, r)
	takes := s.takes
	if !s.mended.Load() && s.count() > s.answers {
		takes = time.Hour
	}
	select {
	case <-ctx.Done():
		return store.Report{}, fmt.Errorf("%w: %w", store.ErrTransient, ctx.Err())
	case <-time.After(takes):
		return report, err
	}
}

// A manager has some roles checked at a time. Where the store did not answer,
// the others waited in turn, each as long as one election does, and Start did
// not return for that time.
func TestTheStartOfManyRolesWaitsOnceForAStoreThatDoesNotAnswer(t *testing.T) {
	const patience = 2 * time.Second
	for name, answers := range map[string]int{"at all": 0, "any more": 100} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const roles = 130
				st := &sluggish{checkedRole: &checkedRole{checked: &checked{Store: memstore.New()}}, takes: time.Second, answers: answers}
				cfg := config("a")
				cfg.Group = ""
				m := newFleet(t, roles).manager(st, leader.RoleManagerConfig{Election: cfg})
				begun := time.Now()
				if err := m.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				allowed := patience
				if answers > 0 {
					allowed += 2 * st.takes // until the last answer
				}
				if took := time.Since(begun); took > allowed {
					t.Errorf("Start took %v, want at most %v", took, allowed)
				}
				st.mended.Store(true)
				time.Sleep(10 * ttl)
				mustHold(t, []int{roles}, m)
				stopRoles(t, m)
			})
		})
	}
}

// What has to be repaired for a role is found however long the store takes, as
// long as it answers.
func TestTheStartOfManyRolesChecksASlowStoreToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 130)
		st := &sluggish{
			checkedRole: &checkedRole{checked: &checked{Store: memstore.New()}, key: f.roles[len(f.roles)-1], err: store.ErrPermanent},
			takes:       time.Second, answers: len(f.roles),
		}
		if err := f.manager(st, spreading("a")).Start(t.Context()); !errors.Is(err, store.ErrPermanent) {
			t.Errorf("Start: %v", err)
		}
	})
}

// When Stop has returned, and Done is closed, nothing of ours uses the store
// any more: the program closes what it belongs to, and a bucket that is made
// then stays behind.
func TestStopWaitsForTheCheckOfAStartThatIsUnderWay(t *testing.T) {
	type stoppable interface {
		Start(ctx context.Context) error
		Done() <-chan struct{}
		StopWithContext(ctx context.Context, opts leader.StopOptions) error
	}
	for name, build := range map[string]func(*testing.T, store.Store) stoppable{
		"an election": func(t *testing.T, st store.Store) stoppable { return candidate(t, st, config("a")) },
		"a manager":   func(t *testing.T, st store.Store) stoppable { return newFleet(t, 2).manager(st, spreading("a")) },
	} {
		for _, verdict := range []error{nil, store.ErrPermanent} {
			t.Run(fmt.Sprint(name, "/", verdict), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := &checked{Store: memstore.New(), hold: make(chan struct{}), err: verdict}
					e := build(t, st)
					begun, stopped := make(chan error, 1), make(chan error, 1)
					go func() { begun <- e.Start(t.Context()) }()
					synctest.Wait()
					all := leader.StopOptions{WaitForDemote: true}
					impatient := all
					impatient.Timeout = time.Second
					if err := e.StopWithContext(t.Context(), impatient); !errors.Is(err, leader.ErrStopTimeout) {
						t.Errorf("an impatient stop: %v", err)
					}
					go func() { stopped <- e.StopWithContext(t.Context(), all) }()
					synctest.Wait()
					select {
					case err := <-stopped:
						t.Errorf("Stop has returned %v, and the store is checked", err)
						stopped <- err
					case <-e.Done():
						t.Error("it has ended, and the store is checked")
					default:
					}
					close(st.hold)
					if err := <-begun; !errors.Is(err, leader.ErrStopped) {
						t.Errorf("Start: %v", err)
					}
					if err := <-stopped; err != nil {
						t.Errorf("Stop: %v", err)
					}
					<-e.Done()
				})
			})
		}
	}
}

// A manager that is to stop does not wait for a store that does not answer.
func TestStopOfAManagerEndsTheCheckOfItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &sluggish{checkedRole: &checkedRole{checked: &checked{Store: memstore.New()}}}
		m := newFleet(t, 130).manager(st, spreading("a"))
		errs := make(chan error, 1)
		go func() { errs <- m.Start(t.Context()) }()
		synctest.Wait()
		begun := time.Now()
		stopRoles(t, m)
		if err := <-errs; !errors.Is(err, leader.ErrStopped) {
			t.Errorf("Start: %v", err)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// The manager runs then, with the other roles: what somebody does to the
// election of one role is no failure of it.
func TestAnElectionThatWasStartedOrStoppedByItselfIsNoErrorOfTheManager(t *testing.T) {
	for name, before := range map[string]struct {
		act  func(ctx context.Context, e leader.Election) error
		err  error // what the store says of the role
		held int
	}{
		"stopped": {act: func(_ context.Context, e leader.Election) error { return e.Stop() }, held: 1},
		"stopped, and its store must be mended": {
			act: func(_ context.Context, e leader.Election) error { return e.Stop() }, err: store.ErrPermanent, held: 1,
		},
		"started": {act: func(ctx context.Context, e leader.Election) error { return e.Start(ctx) }, held: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 2)
				st := &checkedRole{checked: &checked{Store: memstore.New()}, key: f.roles[1], err: before.err}
				m := f.manager(st, spreading("a"))
				if err := before.act(t.Context(), m.Election(f.roles[1])); err != nil {
					t.Fatal(err)
				}
				if err := m.Start(t.Context()); err != nil {
					t.Errorf("Start: %v", err)
				}
				if err := m.Start(t.Context()); !errors.Is(err, leader.ErrAlreadyStarted) {
					t.Errorf("Start of a manager that runs: %v", err)
				}
				time.Sleep(ttl)
				mustHold(t, []int{before.held}, m)
				stopRoles(t, m)
				if err := m.Start(t.Context()); !errors.Is(err, leader.ErrStopped) {
					t.Errorf("Start of a manager that was stopped: %v", err)
				}
			})
		})
	}
}
