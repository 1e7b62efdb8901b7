package engine

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/internal/leadership"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

// blowUp makes the election's goroutine panic in our own code.
func blowUp(e *Candidate) {
	e.inbox.put(&message{wait: &waiter{done: func(*machine.State) (bool, error) { panic("boom") }}})
}

// A panic of our code ends the election, and nothing else: first the window,
// then the work, then all the rest. The record is left to expire.
func TestInternalPanicEndsTheElectionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		var mu sync.Mutex
		var told []string
		tell := func(s string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, s)
		}
		cfg := testConfig(func(c *Config) { c.DeleteOnStop = true })
		cfg.Hooks = Hooks{
			Transition: func(tr Transition) {
				if tr.Reason == leadership.ReasonCrashed {
					tell(tr.From + " -> " + tr.To)
				}
			},
			Note: func(n Note) {
				if n.Kind == NotePanic && strings.Contains(n.Text, "boom") && strings.Contains(n.Text, "blowUp") {
					tell("note")
				}
			},
		}
		e := New(st, cfg)
		var cause error
		e.OnTerm(func(ctx context.Context, _ leadership.Term) {
			<-ctx.Done()
			cause = context.Cause(ctx)
		})
		e.OnDemote(func() { tell("demoted") })
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !e.IsLeader() {
			t.Fatalf("%+v", e.Status())
		}
		before, _ := st.Get(t.Context(), "g")
		blowUp(e)
		<-e.Done()
		if e.IsLeader() || e.Status().State != StateStopped || e.Status().Reason != leadership.ReasonCrashed {
			t.Errorf("%+v", e.Status())
		}
		if l := (*testLossError)(nil); !errors.As(cause, &l) || l.reason != leadership.ReasonCrashed {
			t.Errorf("the context ended by %v", cause)
		}
		for name, err := range map[string]error{"Err": e.Err(), "Stop": e.Stop(t.Context(), StopOptions{DeleteKey: true, WaitForDemote: true}), "Alive": e.Alive(t.Context())} {
			if !errors.Is(err, ErrPanicked) || !strings.Contains(err.Error(), "boom") {
				t.Errorf("%s: %v", name, err)
			}
		}
		slices.Sort(told)
		if want := []string{"DEMOTED -> STOPPED", "LEADER -> DEMOTED", "demoted", "note"}; !slices.Equal(told, want) {
			t.Errorf("got %q, want %q", told, want)
		}
		if after, _ := st.Get(t.Context(), "g"); after.Revision != before.Revision {
			t.Errorf("something was written by a broken core: %s", after.Value)
		}
	})
}

// The goroutine may be stuck in a hook while another of our goroutines panics:
// the window closes at once all the same.
func TestAPanicBesideAStuckGoroutineClosesTheWindowAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stuck := false
		cfg := testConfig()
		cfg.Hooks.Call = func(c Call) {
			if c.Kind == "renew" && !stuck {
				stuck = true
				<-release
			}
		}
		e := New(memstore.New(), cfg)
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(cfg.HeartbeatInterval + time.Millisecond)
		synctest.Wait()
		if !e.IsLeader() || !stuck {
			t.Fatalf("%+v", e.Status())
		}
		e.guard("a goroutine", func() { panic("boom") })
		if e.IsLeader() {
			t.Error("leads")
		}
		close(release)
		<-e.Done()
		if !errors.Is(e.Err(), ErrPanicked) {
			t.Error(e.Err())
		}
	})
}

// The goroutine of the callbacks may be late on a busy machine.
func TestTermThatEndsBeforeItsCallbackIsNeitherPromotedNorDemoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(memstore.New(), testConfig())
		release := make(chan struct{})
		e.callbacks.ofTerm(func() { <-release }, nil)
		e.OnTerm(func(context.Context, leadership.Term) { t.Error("promoted") })
		e.OnDemote(func() { t.Error("demoted") })
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !e.IsLeader() {
			t.Fatalf("%+v", e.Status())
		}
		go func() { _ = e.Resign(t.Context(), "") }()
		synctest.Wait()
		_ = e.Stop(t.Context(), StopOptions{})
		close(release)
		<-e.Done()
	})
}

// A probe goes on asking an election that has ended.
func TestEndedElectionQueuesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(memstore.New(), testConfig())
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		blowUp(e)
		<-e.Done()
		for range 100 {
			_ = e.Alive(t.Context())
		}
		if n := len(e.inbox.messages); n > 10 {
			t.Errorf("%d messages wait", n)
		}
	})
}

// A program that waits for its resignation learns that nothing was released.
func TestResignReportsACrashDuringTheResignation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(memstore.New(), testConfig())
		e.OnTerm(func(context.Context, leadership.Term) {})
		release := make(chan struct{})
		e.OnDemote(func() { <-release })
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		resigned := make(chan error, 1)
		go func() { resigned <- e.Resign(t.Context(), "") }()
		synctest.Wait() // the work drains
		blowUp(e)
		synctest.Wait()
		close(release)
		if err := <-resigned; !errors.Is(err, ErrPanicked) {
			t.Errorf("Resign: %v", err)
		}
		<-e.Done()
	})
}

// Any goroutine may close the window, also between the look at it and the call
// of OnPromote.
func TestATermThatEndsAtItsPromotionIsNotDemotedAlone(t *testing.T) {
	e, g := granted(t, time.Hour, time.Hour)
	promoted, demoted := false, false
	e.OnTerm(func(context.Context, leadership.Term) { promoted = true })
	e.OnDemote(func() { demoted = true })
	called := make(chan struct{})
	e.callbacks.mu.Lock() // keeps promote between the two
	go func() {
		defer close(called)
		e.callbacks.promote(g)
	}()
	for stacks := make([]byte, 1<<20); !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("promoteCallbacks")); {
		runtime.Gosched()
	}
	g.close(leadership.ReasonCrashed)
	e.callbacks.mu.Unlock()
	<-called
	e.callbacks.demote(g)
	if promoted != demoted {
		t.Errorf("promoted: %v, demoted: %v", promoted, demoted)
	}
}

// Another goroutine may panic while the loop is about to begin a term. It finds
// no window to close, so the loop checks whether the one that it opens may stay
// open. Nor is anything more written for that core.
func TestATermThatBeginsBesideACrashIsOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeam(t, "beside a crash")
		s.e.crash("another goroutine", "boom", nil)
		state := seamStates(s.e.clock.now())["holding"]
		before := pastOf(&s.l.state)
		s.l.state = state
		s.l.apply(before, actionsOf([]string{"send(acquire)", "promote"}))
		synctest.Wait()
		if s.e.IsLeader() || s.promoted > 0 {
			t.Errorf("leads: %v, %d promotions", s.e.IsLeader(), s.promoted)
		}
		if e, err := s.e.store.Get(t.Context(), s.e.cfg.Group); err != nil || e.Revision != 0 {
			t.Errorf("%+v was written, %v", e, err)
		}
		s.l.end(func() {})
	})
}
