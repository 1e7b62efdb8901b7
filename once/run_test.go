package once_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/inspect"
	"github.com/seed-ff2cb582/leader/once"
	"github.com/seed-ff2cb582/leader/store"
	"github.com/seed-ff2cb582/leader/store/memstore"
)

func configOf(id string) leader.ElectionConfig {
	return leader.ElectionConfig{Group: "g", InstanceID: id, TTL: 3 * time.Second, HeartbeatInterval: time.Second}
}

// An outcome is what RunWithStore returned.
type outcome struct {
	ran bool
	err error
}

// start runs work as a candidate, in the present hour.
func start(t *testing.T, s store.Store, id string, work func(ctx context.Context) error) <-chan outcome {
	t.Helper()
	result := make(chan outcome, 1)
	go func() {
		ran, err := once.RunWithStore(t.Context(), s, configOf(id), once.Every(time.Hour),
			func(ctx context.Context, _ leader.Term) error { return work(ctx) })
		result <- outcome{ran, err}
	}()
	return result
}

func TestRunStartsWorkOnOneHostInEachPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		for range 3 {
			var mu sync.Mutex
			started := 0
			var results []<-chan outcome
			for id := range 3 {
				results = append(results, start(t, s, fmt.Sprint("host-", id), func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					started++
					return nil
				}))
			}
			ran := 0
			for _, r := range results {
				got := <-r
				if got.err != nil {
					t.Error(got.err)
				}
				if got.ran {
					ran++
				}
			}
			if started != 1 || ran != 1 {
				t.Errorf("%d runs, reported by %d hosts", started, ran)
			}
			time.Sleep(time.Until(once.Every(time.Hour).At(time.Now()).End))
		}
	})
}

func TestRunReturnsAsSoonAsAnotherHostHasStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		failed := errors.New("failed")
		working, leave := make(chan struct{}), make(chan struct{})
		first := start(t, s, "a", func(context.Context) error {
			close(working)
			<-leave
			return failed
		})
		<-working
		second := start(t, s, "b", func(context.Context) error { return errors.New("a second run") })
		if got := <-second; got != (outcome{}) {
			t.Errorf("the second host: %+v", got)
		}
		close(leave)
		if got := <-first; got != (outcome{true, failed}) {
			t.Errorf("the first host: %+v", got)
		}
	})
}

// pause pauses the group: a leader stops its work.
func pause(t *testing.T, s store.Store) {
	t.Helper()
	ask(t, s, leader.OpPause)
}

// ask makes a request, without waiting for its effect.
func ask(t *testing.T, s store.Store, op leader.Operation) {
	t.Helper()
	control, err := leader.NewControlWithStore(s, "ann")
	if err == nil {
		_, err = control.File(t.Context(), leader.Request{Op: op, Group: "g"})
	}
	if err != nil {
		t.Error(err)
	}
}

func TestWorkWhoseTermEndsIsNotStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		working := make(chan struct{})
		first := start(t, s, "a", func(ctx context.Context) error {
			close(working)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		<-working
		pause(t, s)
		if got := <-first; !got.ran || !errors.Is(got.err, leader.ErrNotLeader) {
			t.Errorf("the first host: %+v", got)
		}
		second := start(t, s, "b", func(context.Context) error { return errors.New("a second run") })
		if got := <-second; got != (outcome{}) {
			t.Errorf("the second host: %+v", got)
		}
	})
}

// The term is lost while the run is being noted.
func TestRunWhoseTermEndsBeforeItsWorkStartsInALaterTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &turnstile{Store: memstore.New(), key: inspect.ControlKey("g")}
		s.between = func() {
			pause(t, s.Store)
			time.Sleep(time.Minute)
			ask(t, s.Store, leader.OpResume)
		}
		begun := time.Now()
		got := <-start(t, s, "a", func(context.Context) error { return nil })
		if got != (outcome{ran: true}) || time.Since(begun) < time.Minute {
			t.Errorf("%+v after %v", got, time.Since(begun))
		}
	})
}

func TestRunEndsWithItsPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		pause(t, s)
		got := <-start(t, s, "a", func(context.Context) error { return errors.New("a run") })
		if got.ran || !errors.Is(got.err, once.ErrPeriodOver) {
			t.Errorf("%+v", got)
		}
		if now := time.Now(); !once.Every(time.Hour).At(now).Begin.Equal(now) {
			t.Errorf("it ends at %v", now)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		pause(t, s)
		done := errors.New("done")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(done) })
		ran, err := once.RunWithStore(ctx, s, configOf("a"), once.Every(time.Hour), func(context.Context, leader.Term) error { return nil })
		if ran || !errors.Is(err, done) {
			t.Errorf("ran %v, error %v", ran, err)
		}
	})
}

func TestWorkThatPanicsIsNotStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		var log strings.Builder
		cfg := configOf("a")
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		ran, err := once.RunWithStore(t.Context(), s, cfg, once.Every(time.Hour), func(context.Context, leader.Term) error { panic("boom") })
		if !ran || !errors.Is(err, once.ErrPanicked) || !strings.Contains(log.String(), "boom") {
			t.Errorf("ran %v, error %v, log %s", ran, err, log.String())
		}
		if got := <-start(t, s, "b", func(context.Context) error { return nil }); got != (outcome{}) {
			t.Errorf("the second host: %+v", got)
		}
	})
}

func TestHostWithAClockAheadDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &clocked{Store: memstore.New(), at: time.Now().Add(-3 * time.Hour)}
		got := <-start(t, s, "a", func(context.Context) error { return nil })
		if got.ran || !errors.Is(got.err, once.ErrClockAhead) {
			t.Errorf("%+v", got)
		}
	})
}

func TestRunReportsEachBrokenRule(t *testing.T) {
	cfg := configOf("")
	cfg.Group = strings.Repeat("x", 250)
	ran, err := once.RunWithStore(t.Context(), memstore.New(), cfg, once.Schedule{}, nil)
	if ran || !errors.Is(err, leader.ErrInvalidConfig) {
		t.Errorf("ran %v, error %v", ran, err)
	}
	for _, want := range []string{"schedule 0s is required", "work <nil> must not be nil", "must have at most 246 bytes", "InstanceID \"\" is required"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}
