package tasks_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-ff2cb582/leader"
	"github.com/seed-ff2cb582/leader/tasks"
	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// A tally contains the calls of hooks.
type tally struct {
	mu       sync.Mutex
	states   []tasks.State
	attempts []int
	refused  []string
	stats    []tasks.Stats
}

func (y *tally) hooks() tasks.Hooks {
	return tasks.Hooks{
		Recorded: func(r tasks.Recorded) {
			y.mu.Lock()
			defer y.mu.Unlock()
			y.states, y.attempts = append(y.states, r.State), append(y.attempts, r.Attempt)
		},
		Refused: func(id, worker string) {
			y.mu.Lock()
			defer y.mu.Unlock()
			y.refused = append(y.refused, id+" by "+worker)
		},
		Stats: func(s tasks.Stats) {
			y.mu.Lock()
			defer y.mu.Unlock()
			y.stats = append(y.stats, s)
		},
	}
}

func (y *tally) told() (states []tasks.State, attempts []int, refused []string, last tasks.Stats) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if n := len(y.stats); n > 0 {
		last = y.stats[n-1]
	}
	return slices.Clone(y.states), slices.Clone(y.attempts), slices.Clone(y.refused), last
}

func TestHooksReceiveTheActionsOfADispatcher(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		var y tally
		_, end := c.lead(tasks.DispatcherOptions{Hooks: y.hooks()})
		first := true
		c.work("w", func(context.Context, tasks.Task) ([]byte, error) {
			if first {
				first = false
				return nil, errors.New("not yet")
			}
			return nil, nil
		}, tasks.WorkerOptions{})
		c.submit(tasks.Spec{ID: "a", Backoff: -1})
		c.finished("a", tasks.Done)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		states, attempts, refused, stats := y.told()
		if want := []tasks.State{tasks.Assigned, tasks.Queued, tasks.Assigned, tasks.Done}; !slices.Equal(states, want) {
			t.Errorf("%v, want %v", states, want)
		}
		if want := []int{1, 1, 2, 2}; !slices.Equal(attempts, want) {
			t.Errorf("%v, want %v", attempts, want)
		}
		if len(refused) != 0 || stats != (tasks.Stats{Term: 1, Workers: 1}) {
			t.Errorf("%v, %+v", refused, stats)
		}
		end()
		if _, _, _, stats := y.told(); stats != (tasks.Stats{}) {
			t.Errorf("after the end: %+v", stats)
		}
	})
}

// An open hub lets a worker send a message.
type openHub chan func(wire.FromWorker)

func (h openHub) Open(_ context.Context, _ string, hear func(wire.FromWorker)) (tasks.Conn, error) {
	h <- hear
	return h, nil
}

func (h openHub) Send(string, wire.ToWorker) {}
func (h openHub) Close()                     {}

func TestAHookReceivesOrdersThatAreRefusedAsStale(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		var y tally
		h := make(openHub, 1)
		d := tasks.NewDispatcher(c.st, tasks.DispatcherOptions{Group: "g", Hooks: y.hooks()}, h)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Lead(ctx, leader.Term{Number: 1, Token: "t"}) }()
		(<-h)(wire.FromWorker{Worker: "w", Run: "1", Seen: 2, Refused: []wire.Refusal{
			{Ref: wire.Ref{ID: "a", Attempt: 1}, Why: wire.Stale}, {Ref: wire.Ref{ID: "b", Attempt: 1}, Why: wire.Full},
		}})
		synctest.Wait()
		if _, _, refused, _ := y.told(); !slices.Equal(refused, []string{"a by w"}) {
			t.Errorf("%v", refused)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAPanicOfAHookEndsTheTerm(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, c *crew) {
		d := tasks.NewDispatcher(c.st, tasks.DispatcherOptions{
			Group: "g", Hooks: tasks.Hooks{Stats: func(tasks.Stats) { panic("no") }},
		}, c.link)
		if err := d.Lead(t.Context(), leader.Term{Number: 1, Token: "t"}); !errors.Is(err, tasks.ErrPanicked) {
			t.Error(err)
		}
	})
}
