package harness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/test/internal/harness"
)

func TestEachRunsSoManyAtATimeAndReturnsWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, done atomic.Int32
		first, second := errors.New("first"), errors.New("second")
		err := harness.Each(10, 3, func(i int) error {
			defer done.Add(1)
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			return map[int]error{2: first, 9: second}[i]
		})
		if most.Load() != 3 || done.Load() != 10 {
			t.Errorf("%d at a time, %d in all", most.Load(), done.Load())
		}
		if !errors.Is(err, first) || !errors.Is(err, second) {
			t.Errorf("what failed: %v", err)
		}
		if err := harness.Each(0, 0, nil); err != nil {
			t.Errorf("of none: %v", err)
		}
	})
}

func TestSpreadBeginsOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		at := make([]time.Duration, 3)
		err := harness.Run{Ctx: t.Context()}.Spread(3, time.Second, func(i int) error {
			at[i] = time.Since(begun)
			return nil
		})
		if want := []time.Duration{0, time.Second, 2 * time.Second}; err != nil || !slices.Equal(at, want) {
			t.Errorf("started at %v, want %v: %v", at, want, err)
		}
	})
}

func TestAwaitLooksWhenSomethingMovesAndNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := harness.Run{Ctx: t.Context(), Look: time.Second}, time.Now()
		moved := make(chan struct{}, 1)
		time.AfterFunc(300*time.Millisecond, func() { moved <- struct{}{} })
		after := func(d time.Duration) func() bool { return func() bool { return time.Since(begun) >= d } }
		if err := r.Await("a move", moved, after(300*time.Millisecond)); err != nil || time.Since(begun) != 300*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		if err := r.Await("the next look", nil, after(time.Second)); err != nil || time.Since(begun) != 1300*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		if err := r.Await("what never comes", nil, func() bool { return false }); !errors.Is(err, harness.ErrPatience) {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

func TestAnEndOfTheRunEndsItsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := harness.Run{Ctx: ctx, Look: time.Second}
		if err := r.Pause(time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a pause: %v", err)
		}
		if err := r.Await("what never comes", nil, func() bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait: %v", err)
		}
	})
}

func TestProgressNamesTheMeasurements(t *testing.T) {
	var log strings.Builder
	r := harness.Run{Only: "cra", Progress: &log}
	if !r.Measures("crash") || r.Measures("handover") {
		t.Error("-only cra is to measure crash alone")
	}
	if err := r.Measure("crash", func() error { return nil }); err != nil || !strings.HasPrefix(log.String(), "measured: crash (") {
		t.Errorf("%q, %v", log.String(), err)
	}
	if err := r.Measure("crash", func() error { return context.Canceled }); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "crash: ") {
		t.Errorf("an error: %v", err)
	}
}

func TestARunThatWouldMeasureNothingIsRefused(t *testing.T) {
	for only, good := range map[string]bool{"": true, "crash": true, "over": true, "crush": false, "handovers": false} {
		err := harness.Run{Only: only}.Validate("handover", "crash")
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%q", only)) {
			t.Errorf("only %q: %v", only, err)
		}
	}
}
