package engine

import (
	"context"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// Health asks a program whether it is fit to lead, and tells of each change of
// the verdict. The fields are set before Follow.
type Health struct {
	Check       func(ctx context.Context) bool
	Interval    time.Duration
	Timeout     time.Duration
	MaxFailures int
	// Tell takes the event for the core: a Bar after MaxFailures failures in a
	// row, an Unbar after the next success.
	Tell func(machine.Event)
	// Panicked returns a function that reports a panic of what.
	Panicked func(what string) func(value any, stack []byte)

	// failures is how many checks in a row have failed. It outlives a panic in
	// Follow.
	failures int
}

// Follow checks at every Interval until ctx is done. A check that hangs fails
// again at every Interval, but no second one begins beside it.
func (h *Health) Follow(ctx context.Context) {
	tick := time.NewTicker(h.Interval)
	defer tick.Stop()
	verdict := make(chan bool, 1)
	running, failed := false, false // a check is under way, and has failed by its length
	var begun time.Time             // when the latest check was
	for {
		faults.Point("health")
		select {
		case ok := <-verdict:
			if !failed {
				h.judge(ok)
			}
			running, failed = false, false
		case <-tick.C:
			if running {
				failed = true
				h.judge(false)
				continue
			}
			running, begun = true, time.Now()
			go h.ask(ctx, verdict)
		case <-ctx.Done():
			if running {
				// Nothing outlives Stop, so that the program may then close
				// what the check looks at. But Stop does not hang with a check
				// that has outlived its own time, too.
				awaitVerdict(verdict, time.Until(begun.Add(h.Timeout)))
			}
			return
		}
	}
}

// ask makes one check. Its verdict is deferred, since runtime.Goexit in the
// check ends this goroutine.
func (h *Health) ask(ctx context.Context, verdict chan<- bool) {
	ok := false
	defer func() { verdict <- ok }()
	shield.Call(func() {
		faults.Point("check")
		ok = h.healthy(ctx)
	}, h.Panicked("the health check"))
}

// healthy makes one check. One that returns after its time has failed.
func (h *Health) healthy(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	var ok bool
	shield.Call(func() { ok = h.Check(ctx) }, h.Panicked("health check"))
	return ok && ctx.Err() == nil
}

func (h *Health) judge(ok bool) {
	failures := h.failures
	if ok {
		h.failures = 0
		if failures >= h.MaxFailures {
			h.Tell(machine.Event{Kind: machine.Unbar, Bars: machine.Unhealthy})
		}
		return
	}
	h.failures = min(failures+1, h.MaxFailures)
	if failures+1 == h.MaxFailures {
		h.Tell(machine.Event{
			Kind: machine.Bar, Bars: machine.Unhealthy, Exit: machine.Exit{Reason: machine.ReasonUnhealthy},
		})
	}
}

func awaitVerdict(verdict <-chan bool, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-verdict:
	}
}
