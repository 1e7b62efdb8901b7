package engine

import (
	"context"
	"time"

	"github.com/seed-ff2cb582/leader/internal/faults"
	"github.com/seed-ff2cb582/leader/internal/machine"
	"github.com/seed-ff2cb582/leader/internal/shield"
)

// Health asks a program whether it is fit to lead, and reports each change of
// the verdict. The fields are set before Follow. A candidate has one, or a
// manager one for all its roles.
type Health struct {
	Check       func(ctx context.Context) bool
	Interval    time.Duration
	Timeout     time.Duration
	MaxFailures int
	// Tell takes the event for the core: a Bar after MaxFailures failures in a
	// row, an Unbar after the next success. Follow's goroutine calls it, so it
	// must not block.
	Tell func(machine.Event)
	// Panicked returns a function that reports a panic of what.
	Panicked func(what string) func(value any, stack []byte)

	// failures is how many checks in a row have failed. It outlives a panic in
	// Follow.
	failures int
}

// Follow checks at every Interval until ctx is done. A check that hangs fails
// again at every Interval, but no second check starts beside it. After a panic
// of our code in it a manager of roles calls it again; a candidate's election
// ends.
func (h *Health) Follow(ctx context.Context) {
	tick := time.NewTicker(h.Interval)
	defer tick.Stop()
	// With room for one: a check that returns when nobody waits for it any more
	// leaves no goroutine behind.
	verdict := make(chan bool, 1)
	running, failed := false, false // a check is under way, and has failed by its length
	var begun time.Time             // when the latest check was
	for {
		faults.Point("health")
		switch ok, came := next(ctx, verdict, tick.C); came {
		case aVerdict:
			// Not after a hang: the check was judged by the hang, and its late
			// result describes another time.
			if !failed {
				h.judge(ok)
			}
			running, failed = false, false
		case aTick:
			if running {
				failed = true
				h.judge(false)
				continue
			}
			running, begun = true, time.Now()
			// Beside this goroutine, or a check that hangs would never be found
			// to hang.
			go h.ask(ctx, verdict)
		case theEnd:
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

// An arrival is what Follow waits for.
type arrival int

const (
	aVerdict arrival = iota
	aTick
	theEnd // of the context
)

// next waits for what comes next, and returns the verdict if it is one. A
// verdict that is there goes before a tick. A stall longer than the interval
// leaves both behind it, and a check that passed in time must not count as one
// that hangs.
func next(ctx context.Context, verdict <-chan bool, tick <-chan time.Time) (ok bool, came arrival) {
	select {
	case ok := <-verdict:
		return ok, aVerdict
	default:
	}
	select {
	case ok := <-verdict:
		return ok, aVerdict
	case <-tick:
		return false, aTick
	case <-ctx.Done():
		return false, theEnd
	}
}

// ask makes one check. Its verdict is deferred, since runtime.Goexit in the
// check ends this goroutine. Without it the check would count as one that
// hangs, for ever.
func (h *Health) ask(ctx context.Context, verdict chan<- bool) {
	ok := false
	defer func() { verdict <- ok }()
	shield.Call(func() {
		faults.Point("check")
		ok = h.healthy(ctx)
	}, h.Panicked("the health check"))
}

// healthy makes one check, and reports whether it passed. A check that returns
// after its time has failed.
func (h *Health) healthy(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	var ok bool
	shield.Call(func() { ok = h.Check(ctx) }, h.Panicked("health check"))
	return ok && ctx.Err() == nil
}

// judge counts failures in a row up to the bound, and no further: it sets the
// bar once, when the count reaches the bound, and one success ends a row of any
// length.
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

// awaitVerdict waits for a check that is under way, for as long as is left of
// its time: nothing, if that has passed.
func awaitVerdict(verdict <-chan bool, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-verdict:
	}
}
