package tasks

import (
	"time"

	"github.com/seed-ff2cb582/leader/tasks/wire"
)

// Hooks are called with a dispatcher's actions, for metrics
// (leaderprom.NewTasks). They are called one at a time, by the goroutine that
// hands out the tasks: so they return quickly and do not block. A panic in one
// ends Lead with ErrPanicked. Any may be nil.
type Hooks struct {
	// Recorded is called for each record that this dispatcher has written and
	// that the store has acknowledged. It is not called for a write whose
	// acknowledgement was lost, even if it was applied.
	Recorded func(Recorded)
	// Refused is called for each order of this dispatcher that a worker has
	// refused since it had seen a newer term. Then the dispatcher is deposed,
	// or the worker has received a forged term.
	Refused func(id, worker string)
	// Stats is called each second with the statistics, and at the end of a term
	// with zero ones.
	Stats func(Stats)
}

// Recorded is a record of a task.
type Recorded struct {
	// ID is the task's.
	ID string
	// State is Assigned to a Worker, Queued for another attempt, Done or
	// Failed.
	State  State
	Worker string
	// Attempt is the number of the latest assignment, Failures how many
	// attempts failed or got lost.
	Attempt, Failures int
	// Took is the time from the decision to the acknowledgement. The order of
	// an assignment leaves right after it.
	Took time.Duration
}

func (h Hooks) recorded(id string, r *wire.Record, took time.Duration) {
	if h.Recorded != nil {
		h.Recorded(Recorded{id, r.State, r.Worker, r.Attempt, r.Failures, took})
	}
}

func (h Hooks) refused(m *wire.FromWorker) {
	if h.Refused == nil {
		return
	}
	for _, r := range m.Refused {
		if r.Why == wire.Stale {
			h.Refused(r.ID, m.Worker)
		}
	}
}

func (h Hooks) stats(s Stats) {
	if h.Stats != nil {
		h.Stats(s)
	}
}
