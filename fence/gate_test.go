package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader/fence"
)

func TestGateRemembersAcrossARestart(t *testing.T) {
	var g fence.Gate
	if err := g.Accept(t.Context(), term(7, "a")); err != nil {
		t.Fatal(err)
	}
	again := fence.NewGate(g.Last())
	for n, ok := range map[string]bool{"a": true, "b": false} {
		if err := again.Accept(t.Context(), term(7, n)); ok != (err == nil) {
			t.Errorf("token %s: %v", n, err)
		}
	}
	if _, leave, err := again.Enter(t.Context(), term(6, "c")); !errors.Is(err, fence.ErrStale) {
		t.Error(err)
	} else {
		leave() // does nothing
	}
	if _, leave, err := again.Enter(t.Context(), term(7, "a")); err != nil {
		t.Error(err)
	} else {
		leave()
		leave() // does nothing
	}
}

func TestTermIsPersistedBeforeItsFirstAct(t *testing.T) {
	failure := errors.New("disk full")
	var stored []fence.Mark
	fail := false
	g := &fence.Gate{Persist: func(_ context.Context, m fence.Mark) error {
		if fail {
			return failure
		}
		stored = append(stored, m)
		return nil
	}}
	for range 3 { // once for a term, not for each act
		_, leave, err := g.Enter(t.Context(), term(1, "a"))
		if err != nil || len(stored) != 1 || stored[0] != fence.MarkOf(term(1, "a")) {
			t.Fatalf("%v, stored %v", err, stored)
		}
		leave()
	}
	work, leave, err := g.Enter(t.Context(), term(1, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	fail = true
	if err := g.Accept(t.Context(), term(2, "b")); !errors.Is(err, failure) {
		t.Fatalf("let in although it was not stored: %v", err)
	}
	// The work may go on: no newer term was let in.
	if work.Err() != nil || g.Last() != fence.MarkOf(term(1, "a")) {
		t.Errorf("%v, last %v", context.Cause(work), g.Last())
	}
	fail = false
	if err := g.Accept(t.Context(), term(2, "b")); err != nil || len(stored) != 2 {
		t.Errorf("%v, stored %v", err, stored)
	}
}

func TestNewerTermWaitsUntilTheWorkOfOlderOnesHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Gate
		begun := time.Now()
		old, leave, err := g.Enter(t.Context(), term(1, "a"))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-old.Done()
			time.Sleep(time.Second) // it takes a while to stop
			leave()
		}()
		_, leave2, err := g.Enter(t.Context(), term(2, "b"))
		if err != nil {
			t.Fatal(err)
		}
		defer leave2()
		if d := time.Since(begun); d != time.Second {
			t.Errorf("entered after %v", d)
		}
		stale := (*fence.StaleError)(nil)
		if err := context.Cause(old); !errors.As(err, &stale) || stale.Last.Term != 2 {
			t.Errorf("the older one's work ended for %v", err)
		}
	})
}

func TestNewerTermThatGivesUpWaitingKeepsOlderOnesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Gate
		_, leave, err := g.Enter(t.Context(), term(1, "a")) // and ignores its context
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := g.Enter(ctx, term(2, "b")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("entered beside the older one: %v", err)
		}
		if _, _, err := g.Enter(t.Context(), term(1, "a")); !errors.Is(err, fence.ErrStale) {
			t.Fatalf("the older one entered again: %v", err)
		}
		entered := make(chan error, 1)
		go func() {
			_, leave, err := g.Enter(t.Context(), term(3, "c"))
			leave()
			entered <- err
		}()
		synctest.Wait()
		select {
		case err := <-entered:
			t.Fatalf("the third term did not wait for the first: %v", err)
		default:
		}
		leave()
		if err := <-entered; err != nil {
			t.Fatal(err)
		}
	})
}

// A term between the two is forgotten, and the oldest is not.
func TestNewerTermWaitsForTheOldestThoughOneBetweenHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Gate
		_, leave, err := g.Enter(t.Context(), term(1, "a")) // and ignores its context
		if err != nil {
			t.Fatal(err)
		}
		enter := func(n uint64) <-chan error {
			entered := make(chan error, 1)
			go func() {
				_, leave, err := g.Enter(t.Context(), term(n, "a"))
				leave()
				entered <- err
			}()
			synctest.Wait()
			return entered
		}
		second := enter(2)
		third := enter(3)
		if err := <-second; !errors.Is(err, fence.ErrStale) {
			t.Fatal(err)
		}
		fourth, again := enter(4), enter(4)
		if err := <-third; !errors.Is(err, fence.ErrStale) {
			t.Fatal(err)
		}
		select {
		case err := <-fourth:
			t.Fatalf("the fourth term did not wait for the first: %v", err)
		case err := <-again:
			t.Fatalf("the fourth term's second act did not wait for the first: %v", err)
		default:
		}
		leave()
		if err := errors.Join(<-fourth, <-again); err != nil {
			t.Error(err)
		}
	})
}

func TestActsOfOneTermRunSideBySide(t *testing.T) {
	var g fence.Gate
	_, leave, err := g.Enter(t.Context(), term(1, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	if _, leave, err := g.Enter(t.Context(), term(1, "a")); err != nil {
		t.Error(err)
	} else {
		leave()
	}
}

func TestWorkEndsWithTheContextOfItsCallerAndWhenItLeaves(t *testing.T) {
	var g fence.Gate
	ctx, cancel := context.WithCancel(t.Context())
	first, leave, err := g.Enter(ctx, term(1, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	second, leave2, err := g.Enter(t.Context(), term(1, "a"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-first.Done()
	if second.Err() != nil {
		t.Error("ended with another caller's context")
	}
	leave2()
	<-second.Done()
}

// Many terms come and go in a wild order. Each act checks which other terms are
// inside.
func TestActsOfDifferentTermsNeverOverlap(t *testing.T) {
	var g fence.Gate
	var inside [16]atomic.Int32
	var acts, refused atomic.Int32
	var all sync.WaitGroup
	for seed := range uint64(8) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0))
			for i := range 400 {
				n := min(uint64(i/25+rng.IntN(2)), 15)
				_, leave, err := g.Enter(t.Context(), term(n+1, fmt.Sprint("t", n)))
				if err != nil {
					refused.Add(1)
					continue
				}
				acts.Add(1)
				inside[n].Add(1)
				for other := range inside {
					if other != int(n) && inside[other].Load() != 0 {
						t.Errorf("%d acts beside %d", n, other)
					}
				}
				inside[n].Add(-1)
				leave()
			}
		})
	}
	all.Wait()
	if acts.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d acts, %d refused: nothing was seen", acts.Load(), refused.Load())
	}
	t.Logf("%d acts, %d refused", acts.Load(), refused.Load())
}

// The stale writer of this package: the act itself is an append to a log inside
// this process.
func TestStalledLeaderActsNeverAgainBehindAGate(t *testing.T) {
	var g fence.Gate
	var log []uint64
	act := func(n uint64, token string) error {
		_, leave, err := g.Enter(t.Context(), term(n, token))
		if err != nil {
			return err
		}
		defer leave()
		log = append(log, n)
		return nil
	}
	if err := errors.Join(act(1, "stalled"), act(2, "successor")); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if err := act(1, "stalled"); !errors.Is(err, fence.ErrStale) {
			t.Fatalf("accepted: %v", err)
		}
	}
	if len(log) != 2 {
		t.Errorf("%d acts", len(log))
	}
}

// Otherwise any caller could keep every leader out.
func TestNewTermIsLetInOnlyIfTheGateVetsIt(t *testing.T) {
	type key struct{}
	unproved := errors.New("no proof")
	var persisted []fence.Mark
	g := &fence.Gate{
		Vet: func(ctx context.Context, m fence.Mark) error {
			if ctx.Value(key{}) != m {
				return unproved
			}
			return nil
		},
		Persist: func(_ context.Context, m fence.Mark) error { persisted = append(persisted, m); return nil },
	}
	proved := func(n uint64) context.Context {
		return context.WithValue(t.Context(), key{}, fence.MarkOf(term(n, "a")))
	}
	if err := g.Accept(t.Context(), term(7, "a")); !errors.Is(err, fence.ErrRefused) || !errors.Is(err, unproved) || !g.Last().IsZero() {
		t.Errorf("the first term: %v, and the mark is %v", err, g.Last())
	}
	work, leave, err := g.Enter(proved(7), term(7, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	for _, ctx := range []context.Context{t.Context(), proved(7)} {
		if _, _, err := g.Enter(ctx, term(fence.MaxTerm, "x")); !errors.Is(err, fence.ErrRefused) {
			t.Errorf("a term without a proof: %v", err)
		}
	}
	if work.Err() != nil || g.Last() != fence.MarkOf(term(7, "a")) || len(persisted) != 1 {
		t.Errorf("a refused term ended the work: %v; the mark is %v, persisted were %v", work.Err(), g.Last(), persisted)
	}
	if err := g.Accept(t.Context(), term(7, "a")); err != nil {
		t.Errorf("the term that is in: %v", err)
	}
	if err := g.Accept(proved(8), term(8, "a")); err != nil {
		t.Errorf("the next leader: %v", err)
	}
	<-work.Done()
}
