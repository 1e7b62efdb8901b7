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
)

// A store that is closed for good serves nobody again: whoever waits for it
// waits in vain, and is told so.
func TestAClosedConnectionEndsALeaderAndAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, notes := network(t, nil), 0
		cfg := config("a")
		cfg.Hooks.Note = func(n leader.Note) {
			if n.Kind == leader.NoteClosed {
				notes++
			}
		}
		a := candidate(t, f.Client("a"), cfg)
		demoted := 0
		var cause error
		a.OnPromote(func(ctx context.Context, _ string) {
			<-ctx.Done()
			cause = context.Cause(ctx)
		})
		a.OnDemote(func() { demoted++ })
		mustLead(t, started(t, a))
		b := start(t, f.Client("b"), config("b"))
		f.Report(store.Closed, "a", "b")
		for _, e := range []leader.Election{a, b} {
			<-e.Done()
			if s := e.Status(); s.State != leader.StateStopped || s.Reason != leader.ReasonClosed || e.IsLeader() {
				t.Errorf("%s", status(e))
			}
			for name, err := range map[string]error{
				"Err": e.Err(), "Stop": e.Stop(), "Alive": e.Alive(t.Context()),
			} {
				if !errors.Is(err, leader.ErrConnectionClosed) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if err := e.Start(t.Context()); !errors.Is(err, leader.ErrStopped) {
				t.Errorf("Start: %v", err)
			}
		}
		if l := (*leader.LossError)(nil); !errors.As(cause, &l) || l.Reason != leader.ReasonClosed || demoted != 1 || notes != 1 {
			t.Errorf("the term ended by %v, %d demotions, %d notes", cause, demoted, notes)
		}
	})
}

// A stop that was asked for remains one, whatever becomes of the connection
// then.
func TestAConnectionClosedAfterAStopIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		a, release := candidate(t, f.Client("a"), config("a")), make(chan struct{})
		a.OnDemote(func() { <-release })
		mustLead(t, started(t, a))
		stopped := make(chan error)
		go func() { stopped <- a.Stop() }()
		synctest.Wait()
		f.Report(store.Closed, "a")
		synctest.Wait()
		close(release)
		if err := <-stopped; err != nil || a.Err() != nil {
			t.Errorf("Stop: %v, Err: %v", err, a.Err())
		}
	})
}

func TestWhoWaitsOnAClosedConnectionIsTold(t *testing.T) {
	for name, wait := range map[string]func(context.Context, leader.Election) error{
		"Resign":        func(ctx context.Context, e leader.Election) error { return e.Resign(ctx) },
		"ValidateToken": func(ctx context.Context, e leader.Election) error { return e.ValidateToken(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := network(t, nil)
				a := start(t, f.Client("a"), config("a"))
				mustLead(t, a)
				f.BlackHole("a")
				time.Sleep(time.Millisecond) // the claim proves nothing of now
				answer := make(chan error)
				go func() { answer <- wait(t.Context(), a) }()
				synctest.Wait()
				f.Report(store.Closed, "a")
				if err := <-answer; !errors.Is(err, leader.ErrConnectionClosed) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

func TestRunReturnsThatItsConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		time.AfterFunc(time.Minute, func() { f.Report(store.Closed, "a") })
		err := leader.RunWithStore(t.Context(), f.Client("a"), config("a"), func(ctx context.Context, _ leader.Term) error {
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, leader.ErrConnectionClosed) {
			t.Error(err)
		}
	})
}

// A store that does not report its connection says so by the errors of its
// calls.
type mute struct {
	store.Store
	closed *atomic.Bool
}

func (m mute) Get(ctx context.Context, key string) (store.Entry, error) {
	if m.closed.Load() {
		return store.Entry{}, fmt.Errorf("%w: of a test", store.ErrClosed)
	}
	return m.Store.Get(ctx, key)
}

func (m mute) CompareAndSwap(ctx context.Context, w store.Write) (uint64, error) {
	if m.closed.Load() {
		return 0, fmt.Errorf("%w: of a test", store.ErrClosed)
	}
	return m.Store.CompareAndSwap(ctx, w)
}

func TestAClosedStoreThatReportsNothingEndsItsElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, closed := network(t, nil), new(atomic.Bool)
		a := start(t, mute{f.Client("a"), closed}, config("a"))
		mustLead(t, a)
		b := start(t, mute{f.Client("b"), closed}, config("b"))
		time.Sleep(heartbeat)
		mustBe(t, b, leader.StateFollower)
		closed.Store(true)
		for _, e := range []leader.Election{a, b} {
			<-e.Done()
			if !errors.Is(e.Err(), leader.ErrConnectionClosed) {
				t.Errorf("%v", e.Err())
			}
		}
	})
}

func TestAClosedConnectionEndsAManagerAndItsRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		cfg := config("a")
		cfg.Group = ""
		m, err := leader.NewRoleManagerWithStore(f.Client("a"), leader.RoleManagerConfig{Election: cfg})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"x", "y"} {
			if err := m.Add(t.Context(), leader.Role{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(wait)
		mustLead(t, m.Election("x"))
		x, told := m.Election("x"), make(chan struct{})
		go func() {
			defer close(told)
			for range m.Observe(t.Context()) {
			}
		}()
		if m.Err() != nil {
			t.Error(m.Err())
		}
		f.Report(store.Closed, "a")
		<-m.Done()
		<-told
		for name, err := range map[string]error{"Err": m.Err(), "Stop": m.Stop(), "of a role": x.Err()} {
			if !errors.Is(err, leader.ErrConnectionClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := m.Add(t.Context(), leader.Role{Name: "z"}); !errors.Is(err, leader.ErrStopped) {
			t.Errorf("Add: %v", err)
		}
	})
}

func TestAClosedConnectionEndsAnObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		mustLead(t, start(t, f.Client("a"), config("a")))
		time.AfterFunc(time.Minute, func() { f.Report(store.Closed, "o") })
		var last error
		seen := ""
		for info, err := range leader.ObserveWithStore(t.Context(), f.Client("o"), "g") {
			seen, last = info.ID, err
			if err == nil && seen != "a" {
				t.Errorf("%+v", info)
			}
		}
		if !errors.Is(last, leader.ErrConnectionClosed) {
			t.Errorf("the last was %q, %v", seen, last)
		}
		failed := func(err error) { t.Errorf("to be tried again: %v", err) }
		err := leader.ObserveFuncWithStore(t.Context(), f.Client("o"), "g", leader.Observer{Failed: failed})
		if !errors.Is(err, leader.ErrConnectionClosed) {
			t.Errorf("ObserveFunc: %v", err)
		}
		if _, err := leader.SnapshotWithStore(t.Context(), f.Client("o"), ">"); !errors.Is(err, leader.ErrConnectionClosed) {
			t.Errorf("Snapshot: %v", err)
		}
	})
}

// A reader that has enough is not told of an end.
func TestAReaderThatHasEnoughIsNotToldThatTheConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := network(t, nil)
		mustLead(t, start(t, f.Client("a"), config("a")))
		for _, err := range leader.ObserveWithStore(t.Context(), f.Client("o"), "g") {
			if err != nil {
				t.Error(err)
			}
			f.Report(store.Closed, "o")
			synctest.Wait()
			break
		}
	})
}
