package natsstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errMissing = errors.New("missing")

func TestConcurrentQuestionsShareAnAnswer(t *testing.T) {
	for name, want := range map[string]error{"an answer": nil, "a refusal": errMissing} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var (
					g      question[int]
					all    sync.WaitGroup
					number int
				)
				ask := func() (bool, int, error) {
					number++
					n := number
					time.Sleep(time.Second)
					return true, n, want
				}
				for i := range 100 { // the first asks, and the others share the second answer
					all.Go(func() {
						if n, err := g.since(t.Context(), ask); n != min(i+1, 2) || !errors.Is(err, want) {
							t.Errorf("%d, %v", n, err)
						}
					})
					synctest.Wait()
				}
				all.Wait()
				if n, _ := g.since(t.Context(), ask); n != 3 {
					t.Errorf("a caller who came after the answer got the %dth", n)
				}
			})
		})
	}
}

func TestAnAnswerToAnEarlierQuestionIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			g      question[int]
			all    sync.WaitGroup
			number int
		)
		ask := func() (bool, int, error) {
			number++
			n := number
			time.Sleep(time.Second)
			return true, n, nil
		}
		all.Go(func() { _, _ = g.since(t.Context(), ask) })
		synctest.Wait()
		for range 100 {
			all.Go(func() {
				if n, err := g.since(t.Context(), ask); n != 2 || err != nil {
					t.Errorf("the answer to question %d, want that to the one after the call (%v)", n, err)
				}
			})
		}
		all.Go(func() { // gives up before the earlier question is answered
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := g.since(ctx, ask); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the impatient one: %v", err)
			}
		})
		all.Wait()
	})
}

func TestEndOfACallersContextIsNotSharedWithOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g question[string]
		ask := func(ctx context.Context, takes time.Duration) (string, error) {
			return g.since(ctx, func() (bool, string, error) {
				select {
				case <-ctx.Done():
					return false, "", ctx.Err()
				case <-time.After(takes):
					return true, "answer", nil
				}
			})
		}
		var all sync.WaitGroup
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := ask(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the first: %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() { // waits for the first, and then asks
			if answer, err := ask(t.Context(), time.Minute); answer != "answer" || err != nil {
				t.Errorf("the second: %q, %v", answer, err)
			}
		})
		all.Go(func() { // gives up before anybody has an answer
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := ask(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the third: %v", err)
			}
		})
		all.Wait()
	})
}

func TestAPanicOfOneLetsOthersAsk(t *testing.T) {
	var g question[int]
	func() {
		defer func() { _ = recover() }()
		_, _ = g.since(t.Context(), func() (bool, int, error) { panic("ours") })
	}()
	if n, err := g.since(t.Context(), func() (bool, int, error) { return true, 1, nil }); n != 1 || err != nil {
		t.Error(n, err)
	}
}
